"""Cells of a column as clean text, numbers or seconds since 1970."""

import math
import re
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from .text_format import MISSING

Floats = npt.NDArray[np.float64]

_MISSING = pa.array(MISSING, pa.large_string())

LARGEST = float(np.finfo(np.float32).max)
"""Numbers above this size cannot be inputs of a model."""

_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
_THOUSANDS = r"^[+-]?\d{1,3}([ ,'\x{a0}\x{202f}]\d{3})+(\.\d+)?$"
_SEPARATORS = r"[ ,'\x{a0}\x{202f}]"
_ISO = r"^\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?)?"
_ISO_ZONE = _ISO + r"(Z|[+-]\d\d(:?\d\d)?)$"
ISO = "ISO 8601"
"""Name of the format of text such as `2024-02-29T12:30:00.5Z`."""

_DATES = (
    "%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%d-%m-%Y", "%d %b %Y",
    "%d-%b-%Y", "%b %d, %Y", "%d.%m.%y", "%m/%d/%y", "%d/%m/%y",
)  # fmt: skip
_TIMES = ("", " %H:%M", " %H:%M:%S", "T%H:%M", "T%H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
FORMATS = tuple(date + time for date in _DATES for time in _TIMES)
"""Formats of dates in order of precedence. The month is first if both orders are possible."""

_PARTS = {"%Y": r"\d{4}", "%b": "[A-Za-z]{3}", "%y": r"\d\d", "%p": "[AaPp][Mm]"}


class DistinctText(NamedTuple):
    """The distinct texts of a column.

    Attributes:
        values: The distinct texts, without missing ones.
        indices: The position of the text of each row in `values`, shape `(N,)`. -1 if the cell is
            missing.
    """

    values: pa.Array
    indices: npt.NDArray[np.int64]

    def counts(self) -> npt.NDArray[np.int64]:
        """Return the number of cells with each text."""
        return np.bincount(self.indices[self.indices >= 0], minlength=len(self.values))

    def spread(self, per_value: Floats) -> Floats:
        """Return the number of each row from the number of each text. NaN for missing cells."""
        return np.append(per_value, np.nan)[self.indices]


def distinct_text(column: pa.ChunkedArray) -> DistinctText:
    """Return the distinct texts of a column, without surrounding spaces and missing markers."""
    encoded = _combined(_as_large_text(column)).dictionary_encode()
    trimmed = pc.utf8_trim_whitespace(encoded.dictionary)
    missing = pc.is_in(trimmed, value_set=_MISSING)
    cleaned = pc.if_else(missing, None, trimmed).dictionary_encode()
    inner = np.append(cleaned.indices.fill_null(-1).to_numpy(), -1).astype(np.int64)
    outer = encoded.indices.fill_null(-1).to_numpy()
    return DistinctText(cleaned.dictionary, inner[outer])


def numbers_of_text(column: pa.ChunkedArray) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Return a column of text as numbers.

    Args:
        column: The column.

    Returns:
        The numbers, NaN where a cell is missing or not a finite number, and which cells are not
        missing but unreadable. Numbers may have separators of thousands, such as `1,234.5`.
    """
    column = _as_large_text(column)
    try:
        numbers = column.cast(pa.float64()).to_numpy()
    except pa.ArrowInvalid:
        column = pc.if_else(pc.is_in(column, value_set=_MISSING), None, column)
        plain = pc.match_substring_regex(column, _NUMBER).fill_null(False)
        numbers = np.array(pc.if_else(plain, column, None).cast(pa.float64()).to_numpy())
        rows = np.flatnonzero(~plain.to_numpy())
        rest = distinct_text(column.take(pa.array(rows)))
        numbers[rows] = rest.spread(parse_numbers(rest.values))
        unreadable = np.isnan(finite(numbers))
        unreadable[rows] &= rest.indices >= 0
        return finite(numbers), unreadable
    missing = np.isnan(numbers)
    numbers = finite(numbers)
    return numbers, np.isnan(numbers) & ~missing


def parse_numbers(values: pa.Array) -> Floats:
    """Return texts without surrounding spaces as numbers, NaN where they are not finite ones."""
    plain = pc.match_substring_regex(values, _NUMBER)
    grouped = pc.match_substring_regex(values, _THOUSANDS)
    joined = pc.replace_substring_regex(values, _SEPARATORS, "")
    text = pc.case_when(pc.make_struct(plain, grouped), values, joined)
    return finite(text.cast(pa.float64()).to_numpy(zero_copy_only=False))


def times_of_text(column: pa.ChunkedArray, ticks: int) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Return a column of text as times of day.

    Args:
        column: The column, with cells such as `12:30` or `12:30:15`.
        ticks: Number of ticks of the result in a second.

    Returns:
        The times in ticks, NaN where a cell is missing or not a time, and which cells are not
        missing but unreadable.
    """
    distinct = distinct_text(column)
    seconds = np.full(len(distinct.values), np.nan)
    for text_format in ("%H:%M", "%H:%M:%S"):
        found = seconds_of_text(distinct.values, text_format) % 86_400
        seconds = np.where(np.isnan(seconds), found, seconds)
    times = distinct.spread(seconds * ticks)
    return times, np.isnan(times) & (distinct.indices >= 0)


def seconds_of_text(values: pa.Array, text_format: str) -> Floats:
    """Return texts as seconds since 1970, NaN where the text does not have the format."""
    if text_format == ISO:
        return _iso_seconds(values)
    matches = pc.match_substring_regex(values, _pattern(text_format))
    chosen = pc.if_else(matches, values, None)
    return seconds_of_dates(pc.strptime(chosen, format=text_format, unit="s", error_is_null=True))


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
    for text_format in (*FORMATS, ISO):
        pattern = re.compile(_ISO if text_format == ISO else _pattern(text_format))
        if not any(pattern.match(text) for text in head):  # to save time
            continue
        readable = ~np.isnan(seconds_of_text(distinct.values, text_format))
        if counts[readable].sum() >= (1 - unreadable) * counts.sum():
            return text_format
    return None


def numbers_of_column(column: pa.ChunkedArray) -> Floats:
    """Return a column of a numeric type as numbers, NaN where a cell is missing or not finite."""
    if pa.types.is_duration(column.type) or pa.types.is_time(column.type):
        width = pa.int32() if pa.types.is_time32(column.type) else pa.int64()
        column = column.cast(width)
    return finite(column.cast(pa.float64(), safe=False).to_numpy())


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


def finite(values: Floats) -> Floats:
    """Return the numbers with NaN instead of numbers that a model cannot use."""
    with np.errstate(invalid="ignore"):
        usable = np.abs(values) <= LARGEST
    return values if usable.all() else np.where(usable, values, np.nan)


def _as_large_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.cast(pa.large_string())


def _combined(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


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
