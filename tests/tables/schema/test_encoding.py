"""Tests of codes of tables."""

from datetime import date, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fdsm.tables.errors import DataError
from fdsm.tables.frame import frame_from
from fdsm.tables.schema import Categorical, Constant, DateTime, Identifier, Numeric, TableSchema
from fdsm.tables.schema.cells import MISSING

N = 40
"""Number of rows of the tables of the property test."""


def cells(values: st.SearchStrategy[object]) -> st.SearchStrategy[list[object]]:
    """Return columns of at least two different values and some missing cells."""
    columns = st.lists(st.none() | values, min_size=N, max_size=N)
    return columns.filter(lambda column: len(set(column) - {None}) > 1)


WORDS = st.text(st.characters(categories=["L"]), min_size=1, max_size=5).filter(
    lambda word: word not in MISSING and word == word.strip()
)
COLUMNS: dict[str, tuple[pa.DataType, st.SearchStrategy[object]]] = {
    "int8": (pa.int8(), st.integers(-128, 127)),
    "int64": (pa.int64(), st.integers(-(2**53), 2**53)),
    "uint16": (pa.uint16(), st.integers(0, 2**16 - 1)),
    "double": (pa.float64(), st.floats(-1e30, 1e30)),
    "float": (pa.float32(), st.floats(-(2.0**99), 2.0**99, width=32)),
    "decimal": (pa.decimal128(12, 2), st.decimals(-(10**6), 10**6, places=2)),
    "bool": (pa.bool_(), st.booleans()),
    "category": (pa.string(), st.sampled_from(["red", "green", "deep blue"])),
    "merged": (pa.large_string(), WORDS),
    "date32": (pa.date32(), st.dates(date(1900, 1, 1), date(2100, 1, 1))),
    "timestamp": (
        pa.timestamp("ms"),
        st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1)).map(
            lambda moment: moment.replace(microsecond=moment.microsecond // 1000 * 1000)
        ),
    ),
    "duration": (pa.duration("s"), st.integers(-(10**9), 10**9).map(lambda s: timedelta(0, s))),
    "time": (pa.time32("s"), st.times().map(lambda t: t.replace(microsecond=0))),
}  # fmt: skip


@pytest.mark.parametrize("name", COLUMNS)
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_decoding_codes_gives_the_table_again(name: str, data: st.DataObject) -> None:
    kind, values = COLUMNS[name]
    column = pa.array(data.draw(cells(values)), kind)
    frame = pa.table({"a": column, "b": np.random.default_rng(0).normal(size=N)})
    schema = TableSchema.infer(frame)
    codes, problems = schema.encode(frame)
    assert problems == {}
    table = schema.decode(codes)
    assert table.column_names == ["a", "b"]
    if isinstance(schema.columns[0], Identifier) or schema.columns[0] not in schema.used:
        assert table.column("a").null_count == N
        return
    expected = column.to_pylist()
    assert table.column("a").type == (pa.string() if name == "merged" else kind)
    assert table.column("a").to_pylist() == expected
    assert np.isnan(codes[:, 0]).tolist() == [cell is None for cell in expected]


def test_codes_are_numbers_categories_and_seconds() -> None:
    frame = frame_from({
        "x": [1.5, None, 2.5, 3.5],
        "c": ["a", "b", "a", None],
        "d": pa.array([1, 0, None, 2], pa.date32()),
        "k": ["kg"] * 4,
    })
    schema = TableSchema.infer(frame)
    assert schema.num_levels == (0, 2, 0)
    codes, _ = schema.encode(frame)
    nan = np.nan
    np.testing.assert_array_equal(
        codes, [[1.5, 0, 86400], [nan, 1, 0], [2.5, 0, nan], [3.5, nan, 172800]]
    )


SCHEMA = TableSchema((
    Numeric("x"),
    Categorical("c", "string", ("a", "b")),
    Categorical("m", "string", ("a", "b", "other"), merged=3),
    Categorical("flag", "bool", ("false", "true"), True),
    DateTime("d", "date32[day]"),
    DateTime("t", "string", "%d.%m.%Y"),
    Constant("k", "int64", "5"),
    Identifier("id", "int64", "running number"),
    Numeric("w", "string", suffix=" kg"),
    DateTime("day", "int64", "%Y%m%d"),
    Numeric("clock", "time32[s]", True),
    Numeric("answer", "bool", True),
    Constant("sure", "string", "True"),
))
GOOD = {
    "w": "1.5 kg", "day": 19700104, "clock": "00:01", "answer": "True", "sure": "TRUE",
    "x": 1, "c": "b", "m": "zzz", "flag": "TRUE", "d": "1970-01-02", "t": "03.01.1970", "k": 5.0,
}  # fmt: skip


def test_words_for_a_gap_are_missing_numbers_and_dates_but_categories() -> None:
    for word in ("none", "N.A.", "#VALUE!", "--"):
        row = GOOD | dict.fromkeys(["x", "d", "t", "w", "day", "clock"], word)
        codes, problems = SCHEMA.encode(pa.Table.from_pylist([row]))
        assert problems == {}
        assert np.isnan(codes[0]).tolist() == [*[True, False, False, False], *[True] * 5, False]
    _, problems = SCHEMA.encode(pa.Table.from_pylist([GOOD | {"c": "none"}]))
    assert problems == {0: [("c", "'none' does not occur in the training data")]}


def test_all_columns_may_be_text() -> None:
    for row in (GOOD, {name: str(value) for name, value in GOOD.items()}):
        codes, problems = SCHEMA.encode(pa.Table.from_pylist([row]))
        assert codes.tolist() == [
            [1.0, 1.0, 2.0, 1.0, 86400.0, 172800.0, 1.5, 259200.0, 60.0, 1.0]
        ]
        assert problems == {}


@pytest.mark.parametrize(
    ("column", "value", "problem"),
    [
        ("x", "12 kg", "'12 kg' is not a number"),
        ("w", "5 lb", "'5 lb' is not a number with the unit 'kg'"),
        ("day", "20230231", "'20230231' is not a date in the format %Y%m%d"),
        ("day", 5, "'5' is not a date in the format %Y%m%d"),
        ("clock", "25:70:33", "'25:70:33' is not a time"),
        ("x", float("inf"), "'inf' is too large a number"),
        ("x", "1e308", "'1e308' is too large a number"),
        ("c", "z", "'z' does not occur in the training data"),
        ("d", "soon", "'soon' is not a date in the format ISO 8601"),
        ("d", "31.12.2024", "'31.12.2024' is not a date in the format ISO 8601"),
        ("t", "31.02.", "'31.02.' is not a date in the format %d.%m.%Y"),
        ("k", 6, "'6' differs from '5', the only value in training"),
    ],
)
def test_each_problem_is_reported_with_its_row_and_column(
    column: str, value: object, problem: str
) -> None:
    text = {name: str(good) for name, good in GOOD.items()}
    frame = pa.Table.from_pylist([text] + [text | {column: str(value)}] * 2)
    if not isinstance(value, str):
        values = pa.array([float(text[column]), value, value])
        frame = frame.set_column(frame.column_names.index(column), column, values)
    codes, problems = SCHEMA.encode(frame)
    assert problems == {1: [(column, problem)], 2: [(column, problem)]}
    known = [c.name for c in SCHEMA.used]
    bad = [i for i, name in enumerate(known) if name == column]
    assert np.isnan(codes[1:, bad]).all()
    assert np.isfinite(np.delete(codes, bad, 1)).all()
    assert np.isfinite(codes[0]).all()


def test_booleans_have_several_spellings() -> None:
    schema = TableSchema((Categorical("b", "bool", ("false", "true"), True),))
    words = ["true", "True", "T", "1", "yes", "false", "FALSE", "f", "0", "No", "", None, "maybe"]
    codes, problems = schema.encode(pa.table({"b": words}))
    expected = [1, 1, 1, 1, 1, 0, 0, 0, 0, 0, np.nan, np.nan, np.nan]
    np.testing.assert_array_equal(codes[:, 0], expected)
    assert problems == {12: [("b", "'maybe' does not occur in the training data")]}
    codes, problems = schema.encode(pa.table({"b": [1, 0, 1]}))
    assert (codes[:, 0].tolist(), problems) == ([1, 0, 1], {})


def test_times_of_day_may_be_text() -> None:
    schema = TableSchema((Numeric("t", "time32[ms]", True),))
    frame = frame_from({"t": ["12:30", "00:00:01", "25:00", None]})
    codes, problems = schema.encode(frame)
    np.testing.assert_array_equal(codes[:, 0], [45_000_000, 1000, np.nan, np.nan])
    assert problems == {2: [("t", "'25:00' is not a time")]}


@pytest.mark.parametrize(
    ("constant", "same", "different"),
    [
        (Constant("k", "int64", "5"), ["5", "5.0", 5, 5.0, None, "NA"], ["6", 5.5, "x", [5]]),
        (Constant("k", "double", "0.1"), ["0.10", 0.1], [0.2]),
        (Constant("k", "string", "kg"), ["kg", " kg "], ["Kg", 3]),
        (Constant("k", "bool", "true"), [True, "TRUE"], [False, "yes"]),
        (
            Constant("k", "timestamp[s]", "2024-01-02 00:00:00"),
            ["2024-01-02", "2024-01-02T00:00:00", date(2024, 1, 2)],
            ["2024-01-03", "soon", 5],
        ),
    ],
)
def test_other_values_in_a_constant_column_are_problems(
    constant: Constant, same: list[object], different: list[object]
) -> None:
    schema = TableSchema((Numeric("x"), constant))
    for value in same + different:
        frame = frame_from({"x": [1.0], "k": [value]})
        _, problems = schema.encode(frame)
        assert list(problems) == ([] if value in same else [0]), value


def test_several_problems_of_a_row_are_listed_in_the_order_of_the_columns() -> None:
    row = GOOD | {"x": "?!", "c": "z", "k": 7}
    _, problems = SCHEMA.encode(pa.Table.from_pylist([row]))
    assert [name for name, _ in problems[0]] == ["x", "c", "k"]


def test_columns_are_found_by_name_in_any_order_among_others() -> None:
    row = {"new": 3} | dict(reversed(GOOD.items()))
    codes, _ = SCHEMA.encode(pa.Table.from_pylist([row]))
    assert codes[0, 0] == 1
    del row["k"]
    assert SCHEMA.encode(pa.Table.from_pylist([row]))[0][0, 0] == 1


def test_columns_are_found_by_position_if_one_table_has_no_header() -> None:
    schema = TableSchema((Numeric("a"), Numeric("b")))
    by_position = frame_from(np.array([[1.0, 2.0]]))
    assert schema.encode(by_position)[0].tolist() == [[1.0, 2.0]]
    unnamed = TableSchema((Numeric("0"), Numeric("1")))
    assert unnamed.encode(frame_from({"a": [1.0], "b": [2.0]}))[0].tolist() == [[1.0, 2.0]]
    with pytest.raises(DataError, match=r"columns 'a', 'b' are missing\. The table has '0'"):
        schema.encode(frame_from(np.array([[1.0]])))


def test_missing_columns_and_other_types_raise_one_error() -> None:
    schema = TableSchema(SCHEMA.columns[:8])
    frame = frame_from({
        "c": ["a"] * 10,
        "m": ["b"] * 10,
        "flag": [True] * 10,
        "d": ["never"] * 10,
        "t": [1.5] * 10,
        "x": [f"word {i}" for i in range(10)],
    })
    with pytest.raises(DataError, match=r"column 'x' has the type list<item: int64>"):
        schema.encode(frame.set_column(5, "x", pa.array([[1]] * 10)))
    with pytest.raises(DataError, match=r"column 'x' has the type date32.* but was numeric"):
        schema.encode(frame.set_column(5, "x", pa.array([1] * 10, pa.date32())))
    with pytest.raises(DataError, match="the columns differ from those of the training") as caught:
        schema.encode(frame.drop_columns(["c", "m"]))
    assert str(caught.value).splitlines()[1:] == [
        "- columns 'c', 'm' are missing",
        "- column 'x' is text such as 'word 0', but was numeric",
        "- column 'd' is text such as 'never', but was a date in the format ISO 8601",
        "- column 't' has the type double, but was a date. The table has 'flag', 'd', 't', 'x'",
    ]
