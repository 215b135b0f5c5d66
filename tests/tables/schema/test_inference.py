"""Tests of the inference of the types of columns."""

import math
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from fdsm.tables.errors import DataError
from fdsm.tables.schema import (
    Categorical,
    Column,
    Constant,
    DateTime,
    Empty,
    Identifier,
    Ignored,
    Numeric,
)
from fdsm.tables.schema.inference import infer_column

RANDOM = np.random.default_rng(0)


def integers(kind: str = "int64", *, levels: tuple[float, ...] | None = None) -> Numeric:
    return Numeric("c", kind, True, levels, decimals=0)


def infer(cells: object, *, categorical: bool = False, numeric: bool = False) -> Column:
    column = pa.chunked_array([pa.array(cells)])
    return infer_column("c", column, categorical=categorical, numeric=numeric)


NORMAL = RANDOM.normal(size=100).tolist()
TENTHS = (RANDOM.permutation(1000)[:60] / 10).tolist()
SHUFFLED = (1000 + RANDOM.permutation(100)).tolist()
WORDS = [f"word {i}" for i in range(100)]
COLUMNS: dict[str, tuple[list[object], Column]] = {
    "numbers": (NORMAL, Numeric("c")),
    "numbers with gaps": ([None, *NORMAL], Numeric("c", missing=1)),
    "integers": ([i * i for i in range(100)], integers()),
    "integers as floats": ([float(i * i) for i in range(100)], integers("double")),
    "zip codes": ([10115 + 7 * (i * i % 90) for i in range(90)], integers()),
    "levels": ([0, 5, 1] * 5, integers(levels=(0, 1, 5))),
    "fractional levels": ([0.5, 1.0] * 3, Numeric("c", "double", False, (0.5, 1.0), decimals=1)),
    "20 levels": (list(range(20)) * 3, integers(levels=tuple(range(20)))),
    "21 values": (list(range(21)) * 3, integers()),
    "rare levels": ([0, 5, 1, 5, 0], integers()),
    "late values": ([0, 1] * 600 + list(range(2, 60)), integers()),
    "0 and 1": ([0, 1] * 5, integers(levels=(0, 1))),
    "running number": (list(range(5, 30)), Identifier("c", "int64", "running number")),
    "even numbers": (list(range(0, 30, 2)), Identifier("c", "int64", "running number")),
    "falling number": (list(range(9, 0, -1)), Identifier("c", "int64", "running number")),
    "running with a gap": ([1, 2, 3, 5, 6, 7], integers()),
    "running fractions": ([i / 10 for i in range(1, 20)], Numeric("c", decimals=1)),
    "few in a row": ([1, 2, 3], integers()),
    "shuffled numbers": (SHUFFLED, Identifier("c", "int64", "unique per row")),
    "shuffled numbers with gaps": (
        [None, *SHUFFLED], Identifier("c", "int64", "unique per row"),
    ),
    "shuffled numbers as text": (
        [f"{i}" for i in SHUFFLED], Identifier("c", "string", "unique per row"),
    ),
    "one repeated number": ([*SHUFFLED, SHUFFLED[0]], integers()),
    "different by chance": ([i * 1009 % 10_007 for i in range(100)], integers()),
    "infinite": ([math.inf, *NORMAL, 1e308], Numeric("c", missing=2, unreadable=2)),
    "infinite and gaps": ([math.inf, *NORMAL, None], Numeric("c", missing=2, unreadable=1)),
    "constant": ([3, 3, None, 3], Constant("c", "int64", "3", 1, 4)),
    "constant fraction": ([0.1] * 5, Constant("c", "double", "0.1", 0, 5)),
    "constant text": (["kg", " kg", "NA"], Constant("c", "string", "kg", 1, 3)),
    "constant flag": ([True] * 5, Constant("c", "bool", "true", 0, 5)),
    "empty": ([None] * 5, Empty("c", "null", 5)),
    "not a number": ([np.nan] * 5, Empty("c", "double", 5)),
    "missing markers": (["NA", "?", None], Empty("c", "string", 3)),
    "flags": ([True, False, None], Categorical("c", "bool", ("false", "true"), True, 0, 1)),
    "categories": (
        ["a", "b", "b", None, " b"], Categorical("c", "string", ("b", "a"), False, 0, 1),
    ),
    "ties by name": (["b", "a"] * 3, Categorical("c", "string", ("a", "b"))),
    "unique text": (WORDS, Identifier("c", "string", "unique per row")),
    "unique text with gaps": ([None, *WORDS], Identifier("c", "string", "unique per row")),
    "free text": (
        WORDS + WORDS[:20],
        Ignored("c", "string", "text, 100 different values in 120 rows"),
    ),
    "numbers as text": ([f"{x}" for x in NORMAL], Numeric("c", "string")),
    "a few bad cells": (
        [f"{x}" for x in NORMAL[:95]] + ["12 kg"] * 4 + ["error", "NA"],
        Numeric("c", "string", missing=6, unreadable=5),
    ),
    "numbers and text": (
        [f"{x}" for x in NORMAL] + ["low"] * 20,
        Ignored("c", "string", "numbers and text, 20 of 120 cells are not numbers"),
    ),
    "signed zeros": ([0.0, -0.0, 1.0] * 3, integers("double", levels=(0.0, 1.0))),
    "more bad cells": (
        [f"{i % 5}" for i in range(94)] + ["12 kg"] * 6,
        Categorical("c", "string", ("0", "1", "2", "3", "4", "12 kg")),
    ),
    "dates as text": (
        [f"{d}.2.2024" for d in range(1, 29)] + ["NA"],
        DateTime("c", "string", "%d.%m.%Y", None, 1, resolution="day"),
    ),
    "dates with words for a gap": (
        [f"{d}-Aug-23" for d in range(1, 29)] + ["none", "N.A.", "soon"],
        DateTime("c", "string", "%d-%b-%y", None, 3, 1, "day"),
    ),
    "days as integers": (
        [20240229, 20230821, 20230822, 20230821],
        DateTime("c", "int64", "%Y%m%d", resolution="day"),
    ),
    "days as digits": (
        ["20240229", "20230821", "NA"], DateTime("c", "string", "%Y%m%d", None, 1, 0, "day"),
    ),
    "not all are days": ([20240229, 20230821, 20230832, 20230821], integers()),
    "words for a gap": (
        [*map(str, TENTHS), "#N/A", "none", "Missing", "--", "n.a."],
        Numeric("c", "string", missing=5, decimals=1),
    ),
    "a number and a word": (["none"] * 8 + ["5"] * 4, Categorical("c", "string", ("none", "5"))),
    "zip codes with zeros": (
        ["02139", "10001", "60601", "02139"] * 3,
        Categorical("c", "string", ("02139", "10001", "60601")),
    ),
    "codes with zeros": (
        [f"{i:05}" for i in SHUFFLED], Identifier("c", "string", "unique per row"),
    ),
    "weights": (
        [f"{x} kg" for x in TENTHS] + ["7", "5 lb"],
        Numeric("c", "string", missing=1, unreadable=1, decimals=1, suffix=" kg"),
    ),
    "prices": (
        [f"${x + 2000:,.2f}" for x in TENTHS] + ["($983.47)"],
        Numeric("c", "string", decimals=2, prefix="$"),
    ),
    "percentages": (
        ["5%", "10%", "20%"] * 5,
        Numeric("c", "string", True, (5, 10, 20), decimals=0, suffix="%"),
    ),
    "constant with a unit": (["12 kg"] * 20, Constant("c", "string", "12 kg", 0, 20)),
    "two units": (["5 kg", "5 lb"] * 9, Categorical("c", "string", ("5 kg", "5 lb"))),
    "spelled flags": (
        ["TRUE", "False", "True", "True"], Categorical("c", "string", ("False", "True"), True),
    ),
    "lists": (
        [[1], [2], None],
        Ignored("c", "list<item: int64>", "the type list<item: int64> is not supported", 1),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", COLUMNS)
def test_the_type_is_inferred(name: str) -> None:
    cells, expected = COLUMNS[name]
    assert infer(cells) == expected


def test_dates_keep_type_and_zone() -> None:
    days = pa.array([0, 5, None], pa.date32())
    assert infer(days) == DateTime("c", "date32[day]", missing=1, resolution="day")
    moments = pa.array([0, 5, None], pa.timestamp("us", tz="Europe/Berlin"))
    assert infer(moments) == DateTime(
        "c", "timestamp[us, tz=Europe/Berlin]", None, "Europe/Berlin", 1
    )
    assert infer(pa.array([5, 5], pa.date32())) == Constant("c", "date32[day]", "1970-01-06", 0, 2)


def test_rare_categories_are_merged() -> None:
    cells = [f"{i:02}" for i in range(60) for _ in range(60 - i)]
    found = infer([f"k{c}" for c in cells])
    assert isinstance(found, Categorical)
    assert found.levels == (*(f"k{i:02}" for i in range(49)), "other")
    assert found.merged == 11
    with_other = infer(["other"] * 100 + [f"k{c}" for c in cells])
    assert isinstance(with_other, Categorical)
    assert (with_other.levels[0], with_other.levels[-1]) == ("other", "(other)")


@pytest.mark.parametrize(
    ("cells", "most"), [(["red", "blue"], 1), (["a1", "b2"], 8), (["5 kg", "7 kg"], 15)]
)
def test_a_short_column_of_text_compiles_few_and_small_expressions(
    cells: list[str], most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table of 80 kB can have thousands of such columns: pyarrow compiles one in each call."""
    patterns = []

    def recorded(call: Callable[..., pa.Array]) -> Callable[..., pa.Array]:
        return lambda cells, pattern, *rest: (
            patterns.append(pattern) or call(cells, pattern, *rest)
        )

    for name in ("match_substring_regex", "extract_regex", "replace_substring_regex"):
        monkeypatch.setattr(pc, name, recorded(getattr(pc, name)))
    infer(cells * 5)
    assert 0 < len(patterns) <= most
    assert not any("\\p" in pattern for pattern in patterns)  # 100 times slower to compile


def test_the_user_overrules() -> None:
    codes = [10115, 10117, 10115, None]
    assert infer(codes, categorical=True) == Categorical(
        "c", "int64", ("10115", "10117"), False, 0, 1
    )
    floats = [1.0, 2.5, 1.0]
    assert infer(floats, categorical=True) == Categorical("c", "double", ("1", "2.5"))
    for different in (list(range(20)), SHUFFLED, [20240229, 20230821, 20230822]):
        assert infer(different, numeric=True) == integers()
    codes = ["02139", "10001", "60601"]
    assert infer(codes, numeric=True) == integers("string")
    flags = ["True", "False", "NA"] * 3
    assert infer(flags, numeric=True) == Numeric("c", "bool", True, (0, 1), 3, 0, 0)
    assert infer(["1", "a", "b", "c", "2"], numeric=True) == Numeric(
        "c", "string", True, None, 3, 3, 0
    )
    assert infer([True, False] * 3, numeric=True) == integers("bool", levels=(0, 1))
    assert isinstance(infer(WORDS, categorical=True), Categorical)
    assert isinstance(infer([[1], [2]], categorical=True), Ignored)
    with pytest.raises(DataError, match=r"'c' is given as numeric, but none .* 'word 0'"):
        infer(WORDS, numeric=True)
