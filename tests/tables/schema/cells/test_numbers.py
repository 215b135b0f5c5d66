"""Tests of cells as numbers, with and without units."""

import numpy as np
import pyarrow as pa
import pytest

from fdsm.tables.schema.cells import (
    NO_UNIT,
    Unit,
    distinct_text,
    find_unit,
    has_codes,
    numbers_of_column,
    numbers_of_text,
)


def text(*cells: str | None) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(cells, pa.string())])


NUMBERS = {
    "1": 1.0, "-2.5": -2.5, "+3": 3.0, ".5": 0.5, "7.": 7.0, "1e3": 1000.0, " 4 ": 4.0,
    "1,234": 1234.0, "-1,234,567.5": -1234567.5, "12 345": 12345.0, "1'000": 1000.0,
    "1\u202f000": 1000.0,
}  # fmt: skip
UNREADABLE = ["12 kg", "5%", "error", "1_000", "1,5", "1,2345", "inf", "-Infinity", "1e39", "0x1F"]


def test_numbers_are_read_and_other_cells_are_unreadable() -> None:
    numbers, bad = numbers_of_text(text(*NUMBERS, *UNREADABLE, None, "NA", "-"))
    n, m = len(NUMBERS), len(UNREADABLE)
    assert numbers[:n].tolist() == list(NUMBERS.values())
    assert np.isnan(numbers[n:]).all()
    assert np.flatnonzero(bad).tolist() == list(range(n, n + m))


def test_clean_numbers_are_read_exactly_and_too_large_ones_are_unreadable() -> None:
    values = np.random.default_rng(0).normal(size=100)
    numbers, bad = numbers_of_text(text(*map(repr, values.tolist()), "nan", "1e39", None))
    assert np.array_equal(numbers[:100], values)
    assert np.isnan(numbers[100:]).all()
    assert np.flatnonzero(bad).tolist() == [101]


def test_numeric_types_are_numbers() -> None:
    columns = [
        pa.chunked_array([pa.array([1, None, 3], pa.uint8())]),
        pa.chunked_array([pa.array([1, np.nan, 3], pa.float32())]),
        pa.chunked_array([pa.array([1, None, 3], pa.duration("ms"))]),
        pa.chunked_array([pa.array([1, None, 3], pa.time32("s"))]),
        pa.chunked_array([pa.array([1, np.inf, 3])]),
        pa.chunked_array([pa.array([1, None, 3], pa.int64()).cast(pa.decimal128(30, 2))]),
    ]
    for column in columns:
        np.testing.assert_array_equal(numbers_of_column(column), [1, np.nan, 3])


def test_words_for_a_gap_are_missing_numbers() -> None:
    cells = text("1.5", "#N/A", "none", "NA", "n.a.", "--", "Missing", " . ", "twelve")
    numbers, bad = numbers_of_text(cells)
    assert numbers[:1].tolist() == [1.5]
    assert np.isnan(numbers[1:]).all()
    assert np.flatnonzero(bad).tolist() == [8]


UNITS = {
    "$1,200.00": (Unit("$", ""), 1200.0),
    "£983": (Unit("£", ""), 983.0),
    "-£983": (Unit("£", ""), -983.0),
    "£-983": (Unit("£", ""), -983.0),
    "US$5": (Unit("US$", ""), 5.0),
    "EUR 983": (Unit("EUR ", ""), 983.0),
    "620.32 €": (Unit("", " €"), 620.32),
    "620.32\u00a0€": (Unit("", "\u00a0€"), 620.32),
    "($983.47)": (Unit("$", ""), -983.47),
    "$(983.47)": (Unit("$", ""), -983.47),
    "(5 kg)": (Unit("", " kg"), -5.0),
    "9.8%": (Unit("", "%"), 9.8),
    "12 kg": (Unit("", " kg"), 12.0),
    "-3.5 °C": (Unit("", " °C"), -3.5),
    "1 234.5 km/h": (Unit("", " km/h"), 1234.5),
    "5 m/s2": (Unit("", " m/s2"), 5.0),
    "1 000 ₽": (Unit("", " ₽"), 1000.0),
    "5 мг/л": (Unit("", " мг/л"), 5.0),
    "12 m²": (Unit("", " m²"), 12.0),
    "5eV": (Unit("", "eV"), 5.0),
}


@pytest.mark.parametrize("cell", UNITS)
def test_the_unit_is_found_and_the_number_is_read(cell: str) -> None:
    unit, number = UNITS[cell]
    assert find_unit(distinct_text(text(cell))) == unit
    numbers, bad = numbers_of_text(text(cell, "7", "none", "5 parsec"), unit)
    assert numbers[:2].tolist() == [number, 7]
    assert np.isnan(numbers[2:]).all()
    assert bad.tolist() == [False, False, False, True]


def test_brackets_are_negative_numbers() -> None:
    numbers, bad = numbers_of_text(text("(983.47)", "(1,200)", "(-5)", "(a)", "()"))
    assert numbers[:2].tolist() == [-983.47, -1200]
    assert bad.tolist() == [False, False, True, True, True]


def test_identifiers_dates_and_plain_numbers_have_no_unit() -> None:
    for cells in (
        ("K1", "K2"), ("SEA-001", "SEA-002"), ("item 1", "item 2"), ("1", "2.5", "1e3"),
        ("2024-01-05", "2024-01-06"), ("12:30", "13:30"), ("1,234", "5,678"), ("word", "none"),
        ("5 kg", "5 lb", "7", "8", "9"), ("1st", "2nd", "3rd"), ("5 ½", "7 ½"), ("5\u2003kg",),
        ("EUR\u20035",), ("A$5½",), ("- 5 kg",), ("(5 )",), ("ABC 5",), ("½5",),
    ):  # fmt: skip
        assert find_unit(distinct_text(text(*cells))) == NO_UNIT


def test_spaces_before_the_unit_may_differ() -> None:
    cells = text("12 kg", "12 kg", "7kg", "8")
    unit = find_unit(distinct_text(cells))
    assert unit == Unit("", " kg")
    assert numbers_of_text(cells, unit)[0].tolist() == [12, 12, 7, 8]


def test_leading_zeros_are_codes() -> None:
    assert has_codes(text("10001", "02139", None))
    assert has_codes(text(" 007 "))
    assert not has_codes(text("10001", "0", "0.5", "-0", "0e5", "a01", None))
