"""Tests of cells as dates and times."""

from datetime import UTC, date, datetime

import numpy as np
import pyarrow as pa
import pytest

from fdsm.tables.schema.cells import (
    FORMATS,
    ISO,
    distinct_text,
    find_date_format,
    seconds_of_dates,
    seconds_of_integers,
    seconds_of_text,
    times_of_text,
)


def text(*cells: str | None) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(cells, pa.string())])


MOMENT = datetime(2024, 2, 28, 15, 45, 30, tzinfo=UTC)
SPELLED = {
    "21-Aug-23": "%d-%b-%y",
    "21 Aug 2023": "%d %b %Y",
    "21 August 2023": "%d %B %Y",
    "Aug 21, 2023": "%b %d, %Y",
    "August 21, 2023": "%B %d, %Y",
    "2023/08/21": "%Y/%m/%d",
    "21.08.2023 00:00": "%d.%m.%Y %H:%M",
}


@pytest.mark.parametrize("cell", SPELLED)
def test_the_same_day_is_read_in_many_formats(cell: str) -> None:
    values = distinct_text(text(cell)).values
    assert find_date_format(distinct_text(text(cell)), 0) == SPELLED[cell]
    day = datetime(2023, 8, 21, tzinfo=UTC).timestamp()
    assert seconds_of_text(values, SPELLED[cell]).tolist() == [day]


def test_integers_of_eight_digits_are_days_from_1900_to_2100() -> None:
    numbers = np.array([20240229, 19000101, 21001231, 19691231])
    days = [datetime.strptime(str(n), "%Y%m%d").replace(tzinfo=UTC) for n in numbers.tolist()]
    assert seconds_of_integers(numbers.astype(float)).tolist() == [d.timestamp() for d in days]
    others = [20230229, 20230431, 20231301, 20230100, 20230001, 18991231, 21010101, 5, 2e7 + 0.5]
    assert np.isnan(seconds_of_integers(np.array([*others, np.nan]))).all()


def test_times_of_day_are_read() -> None:
    times, bad = times_of_text(text("12:30", "00:00:15", "25:70:33", "none", None), 10)
    assert times[:2].tolist() == [450_000, 150]
    assert np.isnan(times[2:]).all()
    assert bad.tolist() == [False, False, True, False, False]


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
