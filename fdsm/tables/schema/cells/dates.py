"""Cells of a column as seconds since 1970."""

import math
import re
from datetime import UTC, datetime
from functools import cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from .text import DistinctText, Floats, distinct_text, without_gaps

_ISO = r"^\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?)?"
_ISO_ZONE = _ISO + r"(Z|[+-]\d\d(:?\d\d)?)$"
_ISO_TIME = re.compile(r"\d{4}-\d\d-\d\d([T ])\d\d:\d\d(:\d\d)?(?:\.\d+)?(Z|[+-]\d\d(?::?\d\d)?)?")
ISO = "ISO 8601"
"""Name of the format of text such as `2024-02-29T12:30:00.5Z`."""
INTEGER_DAY = "%Y%m%d"
"""Format of integers such as 20240229."""

_DATES = (
    "%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%d-%m-%Y", "%d %b %Y",
    "%d-%b-%Y", "%d-%b-%y", "%b %d, %Y", "%d %B %Y", "%B %d, %Y", "%d.%m.%y", "%m/%d/%y",
    "%d/%m/%y",
)  # fmt: skip
_TIMES = ("", " %H:%M", " %H:%M:%S", "T%H:%M", "T%H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
FORMATS = tuple(date + time for date in _DATES for time in _TIMES)
"""Formats of dates in order of precedence. The month is first if both orders are possible."""

_BEGINNING = re.compile(r"\d{1,4}[-/. ][\dA-Za-z]|[A-Za-z]{3,9} \d")
"""How a date begins in any of the formats."""

_PARTS = {
    "%Y": r"\d{4}", "%b": "[A-Za-z]{3}", "%B": "[A-Za-z]{3,9}", "%y": r"\d\d",
    "%p": "[AaPp][Mm]",
}  # fmt: skip


def times_of_text(column: pa.ChunkedArray, ticks: int) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Return a column of text as times of day.

    Args:
        column: The column, with cells such as `12:30` or `12:30:15`.
        ticks: Number of ticks of the result in a second.

    Returns:
        The times in ticks, NaN where a cell is missing or not a time, and which cells are not
        missing but unreadable.
    """
    distinct = without_gaps(distinct_text(column))
    seconds = np.full(len(distinct.values), np.nan)
    for text_format in ("%H:%M", "%H:%M:%S"):
        parsed = seconds_of_text(distinct.values, text_format) % 86_400
        seconds = np.where(np.isnan(seconds), parsed, seconds)
    times = distinct.spread(seconds * ticks)
    return times, np.isnan(times) & (distinct.indices >= 0)


def seconds_of_text(values: pa.Array, text_format: str) -> Floats:
    """Return texts as seconds since 1970, NaN where the text does not have the format."""
    if text_format == ISO:
        return _iso_seconds(values)
    matches = pc.match_substring_regex(values, _pattern(text_format))
    chosen = pc.if_else(matches, values, None)
    return seconds_of_dates(pc.strptime(chosen, format=text_format, unit="s", error_is_null=True))


def seconds_of_integers(numbers: Floats) -> Floats:
    """Return integers such as 20240229 as seconds since 1970.

    Args:
        numbers: The integers.

    Returns:
        The seconds. NaN where the number is not a day from 1900 to 2100.
    """
    inside = (numbers >= 19_000_101) & (numbers <= 21_001_231) & (numbers % 1 == 0)
    digits = np.where(inside, numbers, 19_700_101).astype(np.int64)
    years, months, days = digits // 10_000, digits // 100 % 100, digits % 100
    month = ((years - 1970) * 12 + months - 1).astype("datetime64[M]")
    next_month = month + np.timedelta64(1, "M")
    first, following = (m.astype("datetime64[D]").astype(np.int64) for m in (month, next_month))
    valid = inside & (months >= 1) & (months <= 12) & (days >= 1) & (days <= following - first)
    return np.where(valid, (first + days - 1) * 86_400.0, np.nan)


def iso_format(text: str) -> str | None:
    """Return the format of an ISO 8601 time, as for `strftime`, or `None` if it has another one.

    Example:
        >>> iso_format("2013-01-01T05:00:00Z"), iso_format("2013-01-01 05:00")
        ('%Y-%m-%dT%H:%M:%SZ', '%Y-%m-%d %H:%M')
    """
    match = _ISO_TIME.fullmatch(text.strip())
    if match is None:
        return None
    middle, seconds, zone = match.groups("")
    utc = re.sub(r"\d", "0", zone).replace("-", "+")
    return f"%Y-%m-%d{middle}%H:%M{':%S' if seconds else ''}{utc}"


def find_date_format(distinct: DistinctText, unreadable: float) -> str | None:
    """Return the format of a column of dates.

    Args:
        distinct: The distinct texts of the column.
        unreadable: Largest accepted fraction of cells that do not have the format.

    Returns:
        The first format that fits, or `None`.
    """
    counts = distinct.counts()
    frequent = np.argsort(-counts, kind="stable")[:50]
    head = distinct.values.take(pa.array(frequent)).to_pylist()
    head = [text for text in head if _BEGINNING.match(text)]  # to save time
    for text_format in (*FORMATS, ISO) if head else ():
        pattern = re.compile(_ISO if text_format == ISO else _pattern(text_format))
        if not any(pattern.match(text) for text in head):
            continue
        readable = ~np.isnan(seconds_of_text(distinct.values, text_format))
        if counts[readable].sum() >= (1 - unreadable) * counts.sum():
            return text_format
    return None


def seconds_of_dates(column: pa.ChunkedArray | pa.Array) -> Floats:
    """Return dates or timestamps as seconds since 1970, NaN where a cell is missing."""
    if pa.types.is_date(column.type):
        column = column.cast(pa.timestamp("s"))
    scale = UNITS[column.type.unit]
    ticks = column.cast(pa.int64()).cast(pa.float64(), safe=False)
    values = ticks.to_numpy() if isinstance(ticks, pa.ChunkedArray) else ticks.to_numpy(False)
    return np.asarray(values) / scale


UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
"""Number of ticks of a unit in a second."""


@cache
def _pattern(text_format: str) -> str:
    parts = re.split(r"(%[A-Za-z])", text_format)
    inner = [_PARTS.get(p, r"\d{1,2}") if p[:1] == "%" else re.escape(p) for p in parts]
    return f"^{''.join(inner)}$"


def _iso_seconds(values: pa.Array) -> Floats:
    seconds = np.full(len(values), np.nan)
    for pattern, zone in ((_ISO + "$", None), (_ISO_ZONE, "UTC")):
        rows = pc.match_substring_regex(values, pattern).to_numpy(zero_copy_only=False)
        chosen = values.filter(pa.array(rows))
        try:
            seconds[rows] = seconds_of_dates(pc.cast(chosen, pa.timestamp("us", tz=zone)))
        except pa.ArrowInvalid:  # a day or an hour that does not exist
            seconds[rows] = [_iso_second(text) for text in chosen.to_pylist()]
    return seconds


def _iso_second(text: str) -> float:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return math.nan
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
