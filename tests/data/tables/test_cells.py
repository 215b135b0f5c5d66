"""Tests of cells as text, numbers and dates."""

from datetime import UTC, date, datetime

import numpy as np
import pyarrow as pa
import pytest

from fdsm.data.tables.cells import (
    FORMATS,
    ISO,
    distinct_text,
    find_date_format,
    numbers_of_column,
    numbers_of_text,
    seconds_of_dates,
    seconds_of_text,
)


def text(*cells: str | None) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(cells, pa.string())])


def test_distinct_texts_have_no_spaces_and_no_missing_markers() -> None:
    distinct = distinct_text(text("b", " b", "NA", None, "a ", "b", "?", "Na"))
    assert distinct.values.to_pylist() == ["b", "a", "Na"]
    assert distinct.indices.tolist() == [0, 0, -1, -1, 1, 0, -1, 2]
    assert distinct.counts().tolist() == [3, 1, 1]
    spread = distinct.spread(np.array([10.0, 20.0, 30.0]))
    np.testing.assert_array_equal(spread, [10, 10, np.nan, np.nan, 20, 10, np.nan, 30])


def test_dictionaries_and_several_chunks_are_read() -> None:
    parts = [pa.array(["x", "y"]).dictionary_encode(), pa.array(["y"]).dictionary_encode()]
    distinct = distinct_text(pa.chunked_array(parts))
    assert [distinct.values[i].as_py() for i in distinct.indices.tolist()] == ["x", "y", "y"]
    assert len(distinct_text(pa.chunked_array([], pa.string())).indices) == 0


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


MOMENT = datetime(2024, 2, 28, 15, 45, 30, tzinfo=UTC)


@pytest.mark.parametrize("text_format", FORMATS)
def test_each_format_of_dates_is_found_and_read(text_format: str) -> None:
    days = [MOMENT.replace(day=day) for day in (13, 28, 29)]
    cells = text(*(moment.strftime(text_format) for moment in days))
    found = find_date_format(distinct_text(cells), 0.05)
    assert found == text_format
    expected = [
        datetime.strptime(c, found).replace(tzinfo=UTC).timestamp() for c in cells.to_pylist()
    ]
    assert seconds_of_text(distinct_text(cells).values, found).tolist() == expected


def test_the_month_is_first_if_both_orders_are_possible() -> None:
    assert find_date_format(distinct_text(text("01/02/2024", "03/04/2024")), 0) == "%m/%d/%Y"
    assert find_date_format(distinct_text(text("01/02/2024", "13/04/2024")), 0) == "%d/%m/%Y"


def test_iso_dates_with_fractions_and_zones_are_read() -> None:
    cells = text(
        "2024-02-28T15:45:30.5Z",
        "2024-02-28T16:45:30+01:00",
        "2024-02-28 15:45",
        "2024-02-30",
        "x",
    )
    values = distinct_text(cells).values
    second = MOMENT.timestamp()
    np.testing.assert_array_equal(
        seconds_of_text(values, ISO), [second + 0.5, second, second - 30, np.nan, np.nan]
    )
    assert find_date_format(distinct_text(cells), 0.4) == ISO


def test_other_text_is_not_a_date() -> None:
    for cells in (("a", "b"), ("1.5", "2.5"), ("2024-13-45", "2024-99-99"), ("v1.2.2024",)):
        assert find_date_format(distinct_text(text(*cells)), 0.05) is None
    mostly = text(*["2024-02-28"] * 18, "soon", "later")
    assert find_date_format(distinct_text(mostly), 0.05) is None
    assert find_date_format(distinct_text(mostly), 0.1) == "%Y-%m-%d"


@pytest.mark.parametrize(
    "kind",
    [
        pa.date32(), pa.date64(), pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("us"),
        pa.timestamp("ns"), pa.timestamp("us", tz="Europe/Berlin"),
    ],
)  # fmt: skip
def test_all_types_of_dates_are_seconds_since_1970(kind: pa.DataType) -> None:
    days = [date(1969, 12, 31), None, date(2024, 2, 29)]
    column = pa.chunked_array([pa.array(days, pa.date32()).cast(pa.timestamp("s"))])
    column = column.cast(pa.int64()).cast(pa.timestamp("s", tz=getattr(kind, "tz", None)))
    expected = [-86400.0, np.nan, 19782 * 86400.0]
    np.testing.assert_array_equal(seconds_of_dates(column.cast(kind)), expected)
