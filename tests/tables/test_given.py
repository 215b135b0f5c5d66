"""Conditions on columns: what they mean, and what is wrong with bad ones."""

from datetime import date

import pyarrow as pa
import pytest
import torch

from fdsm.tables import DataError
from fdsm.tables.given import Given
from fdsm.tables.schema import TableSchema

WINDS = [2.5, 10.0, 10.1, 20.0, None, 7.5]
TABLE = pa.table({
    "sky": ["sun", "rain", "sun", "snow", "rain", "sun"],
    "wind": WINDS,
    "count": [1, 2, 3, 4, 5, 7],
    "day": pa.array([date(2014, 5, 31 - i) for i in range(6)]),
    "text": ["31.05.2014", "30.05.2014", "29.05.2014", "28.05.2014", "27.05.2014", "26.05.2014"],
    "wet": [True, False, True, None, False, True],
    "price": ["$1.50", "$2.75", "$3.25", "$4.00", "$5.00", "$6.50"],
    "place": ["Seattle"] * 6,
})
SCHEMA = TableSchema.infer(TABLE, categorical=["sky"])
CODES = torch.from_numpy(SCHEMA.encode(TABLE)[0])


def rows_of(given: object) -> list[int]:
    """Return the rows of the table that satisfy conditions."""
    holds = Given.parse(SCHEMA, given).holds(CODES)  # type: ignore[arg-type]
    return holds.nonzero().flatten().tolist()


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("sky=sun", [0, 2, 5]),
        ("sky == snow", [3]),
        ("wind>10", [2, 3]),
        ("wind>=10", [1, 2, 3]),
        ("wind<10", [0, 5]),
        ("wind <= 10", [0, 1, 5]),
        ("wind=10", [1]),
        ("count>3", [3, 4, 5]),
        ("count>3.5", [3, 4, 5]),
        ("count<3", [0, 1]),
        ("day>=2014-05-30", [0, 1]),
        ("day>2014-05-30", [0]),
        ("day=2014-05-28", [3]),
        ("text<28.05.2014", [4, 5]),
        ("text<=2014-05-28", [3, 4, 5]),
        ("wet=true", [0, 2, 5]),
        ("wet=no", [1, 4]),
        ("price>$2.75", [2, 3, 4, 5]),
        ("price<=2.75", [0, 1]),
    ],
)
def test_conditions_choose_the_rows_that_they_say(text: str, rows: list[int]) -> None:
    assert rows_of([text]) == rows
    assert rows_of(text) == rows


@pytest.mark.parametrize(
    ("given", "rows"),
    [
        (None, [0, 1, 2, 3, 4, 5]),
        ({}, [0, 1, 2, 3, 4, 5]),
        ({"sky": "sun", "wind": (5, None)}, [2, 5]),
        ({"wind": (None, 10)}, [0, 1, 5]),
        ({"wind": (10, 10.1)}, [1, 2]),
        ({"wind": 20.0}, [3]),
        ({"wet": True}, [0, 2, 5]),
        ({"day": (date(2014, 5, 29), date(2014, 5, 30))}, [1, 2]),
        (["wind>2.5", "wind<20", "wind>=10"], [1, 2]),
        (["wind>20", "wind<10"], []),
    ],
)
def test_conditions_are_texts_or_values_and_all_must_hold(given: object, rows: list[int]) -> None:
    assert rows_of(given) == rows


def test_all_bad_conditions_are_named_at_once() -> None:
    bad = [
        "sky=hail",
        "winds>3",
        "wind>fast",
        "sky>sun",
        "day>soon",
        "place=Rome",
        "nonsense",
        "x=",
    ]
    with pytest.raises(DataError) as caught:
        Given.parse(SCHEMA, [*bad, "wind>3"])
    first, *lines = str(caught.value).splitlines()
    assert first == "the conditions cannot be used:"
    assert sorted(lines) == sorted([
        "- 'nonsense' is no condition. Write NAME=VALUE, or use >, >=, < or <=",
        "- sky=hail: 'sky' has no such category, but sun, rain, snow",
        "- winds>3: the model has no column 'winds'. Did you mean 'wind'?",
        "- wind>fast: 'wind' has numbers, and 'fast' is none",
        "- sky>sun: 'sky' has categories. Use sky=VALUE",
        "- day>soon: 'day' has dates, and 'soon' is none",
        "- place=Rome: the model does not use the column 'place'",
        "- x=: the model has no column 'x'. It has sky, wind, count, day, text, wet, price",
    ])


def test_the_level_of_merged_categories_is_no_category() -> None:
    kinds = [f"kind {i % 60}" for i in range(600)]
    schema = TableSchema.infer(pa.table({"kind": kinds, "x": [0.5 * i for i in range(600)]}))
    for name in ("other", "kind 9"):  # the last of equally frequent ones are merged
        with pytest.raises(
            DataError, match=f"kind={name}: 'kind' has no such category, but kind 0"
        ):
            Given.parse(schema, {"kind": name})
    assert Given.parse(schema, {"kind": "kind 0"}).fixed == [0]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            ["wind>20", "sky=sun"],
            r"none of the 6 training .*:\n- wind>20: the values are between 2.5 and 20",
        ),
        (["price>9"], r"price>9: the values are between \$1.50 and \$6.50$"),
        (["wind>12", "wind<15"], r"- wind>12 and wind<15: the values are between"),
        (
            ["wind>15", "sky=sun"],
            r"each of the conditions wind>15, sky=sun holds in some .* all of them in none",
        ),
    ],
)
def test_the_condition_that_excludes_all_rows_is_named(given: list[str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        Given.parse(SCHEMA, given).require_some(SCHEMA, CODES)


def test_conditions_that_some_row_satisfies_are_accepted() -> None:
    Given.parse(SCHEMA, ["wind>10", "sky=sun"]).require_some(SCHEMA, CODES)
