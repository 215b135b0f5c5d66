"""Convert codes to a table like the training data."""

import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from .cells import ISO, UNITS, Floats
from .columns import Categorical, Column, Constant, DateTime, Numeric, UsedColumn
from .inference import RESOLUTIONS, is_date, is_text

FIRST_SECOND, LAST_SECOND = -62_135_596_800.0, 253_402_300_799.0
"""The years 1 to 9999, in seconds since 1970. Samples outside are clipped."""


def decode_columns(columns: Sequence[Column], codes: Floats) -> pa.Table:
    """Convert codes to a table with all columns.

    Args:
        columns: All columns of the training data.
        codes: Codes of the used columns, shape `(N, C)`.

    Returns:
        The table.
    """
    remaining = iter(codes.T)
    decoded = {
        column.name: _decode(column, next(remaining))
        if isinstance(column, UsedColumn)
        else _repeat(column, len(codes))
        for column in columns
    }
    return pa.table(decoded)


def arrow_type(text: str) -> pa.DataType:
    """Return the arrow type with a given text, for the types that a column can have.

    Args:
        text: The type as `str` shows it.

    Returns:
        The type. Dictionaries are replaced by text, and types that no column can hold by null.

    Example:
        >>> arrow_type("timestamp[us, tz=Europe/Berlin]"), arrow_type("decimal128(10, 2)")
        (TimestampType(timestamp[us, tz=Europe/Berlin]), Decimal128Type(decimal128(10, 2)))
    """
    if zoned := re.fullmatch(r"timestamp\[(\w+), tz=(.+)\]", text):
        return pa.timestamp(*zoned.groups())
    if decimal := re.fullmatch(r"decimal(\d+)\((\d+), (-?\d+)\)", text):
        bits, precision, scale = map(int, decimal.groups())
        return pa.decimal256(precision, scale) if bits == 256 else pa.decimal128(precision, scale)
    if text.startswith("dictionary<values=") or "string" in text.split("<")[0]:
        return pa.string()
    try:
        return pa.type_for_alias(text)
    except ValueError:
        return pa.null()


def _decode(column: UsedColumn, codes: Floats) -> pa.Array:
    missing = np.isnan(codes)
    kind = arrow_type(column.type)
    if isinstance(column, Categorical):
        levels_or_zero = np.where(missing, 0, codes).round().clip(0, len(column.levels) - 1)
        indices = pa.array(levels_or_zero.astype(np.int32), mask=missing)
        levels: list[str | None] = list(column.levels)
        if column.merged and not is_text(kind):
            levels[-1] = None
        return pa.array(levels, pa.string()).take(indices).cast(kind)
    values = np.where(missing, 0.0, codes)
    if isinstance(column, DateTime):
        return _decode_dates(column, kind, values, missing)
    if column.levels is not None:
        values = _nearest(values, np.array(column.levels))
    elif column.integer:
        values = np.rint(values)
    elif column.decimals is not None:
        values = np.round(values, column.decimals)
    values = values + 0.0  # not -0.0
    if column.prefix or column.suffix:
        return _with_unit(column, values, missing)
    return _cast_numbers(values, missing, kind)


def _with_unit(column: Numeric, values: Floats, missing: npt.NDArray[np.bool_]) -> pa.Array:
    """Return numbers as text, with the unit and all decimals of the column."""
    shown = ".15g" if column.decimals is None else f".{column.decimals}f"
    before, after = column.prefix, column.suffix
    cells = [f"{'-' * (v < 0)}{before}{abs(v):{shown}}{after}" for v in values.tolist()]
    return pa.array(cells, arrow_type(column.type), mask=missing)


def _decode_dates(
    column: DateTime, kind: pa.DataType, seconds: Floats, missing: npt.NDArray[np.bool_]
) -> pa.Array:
    in_microseconds = column.format == ISO and column.resolution is None
    unit = kind.unit if pa.types.is_timestamp(kind) else "us" if in_microseconds else "s"
    if column.resolution is not None:
        size = RESOLUTIONS[column.resolution]
        seconds = np.rint(seconds / size) * size
    limit = 2.0**62 / UNITS[unit]
    seconds = seconds.clip(max(FIRST_SECOND, -limit), min(LAST_SECOND, limit))
    ticks = np.rint(seconds * UNITS[unit]).astype(np.int64)
    moments = pa.array(ticks, pa.int64(), mask=missing).cast(pa.timestamp(unit))
    if column.format is not None:
        iso = column.written or "%Y-%m-%dT%H:%M:%S"
        shown = iso if column.format == ISO else column.format
        return pc.strftime(moments, format=shown).cast(kind)
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return moments.cast(pa.int64()).cast(kind)
    return moments.cast(kind, safe=False)


def _cast_numbers(values: Floats, missing: npt.NDArray[np.bool_], kind: pa.DataType) -> pa.Array:
    """Return numbers as an array of the type of the training data."""
    if pa.types.is_floating(kind):
        return pa.array(values, mask=missing).cast(kind, safe=False)
    if pa.types.is_boolean(kind):
        return pa.array(values >= 0.5, mask=missing)
    if is_text(kind):
        return pc.cast(pa.array(values, mask=missing), kind)
    if pa.types.is_decimal(kind):
        limit = 10.0 ** (kind.precision - kind.scale) * (1 - 1e-15) - 10.0**-kind.scale
        rounded = np.round(values.clip(-limit, limit), kind.scale)
        return pa.array(rounded, mask=missing).cast(kind, safe=False)
    stored = kind if pa.types.is_integer(kind) else _STORED[kind.bit_width]
    info = np.iinfo(stored.to_pandas_dtype())
    low, high = float(info.min), float(info.max)
    if high > info.max:  # 2^63 - 1 is not a float64
        high = float(np.nextafter(high, 0))
    if pa.types.is_time(kind):
        low, high = 0.0, 86_400.0 * UNITS[kind.unit] - 1
    integers = pa.array(np.rint(values).clip(low, high), mask=missing).cast(stored, safe=False)
    return integers.cast(kind)


_STORED = {32: pa.int32(), 64: pa.int64()}
"""Integer types of durations and times of day by their number of bits."""


def _nearest(values: Floats, levels: Floats) -> Floats:
    """Return the nearest of the sorted levels for each number."""
    middles = (levels[1:] + levels[:-1]) / 2
    return levels[np.searchsorted(middles, values)]


def _repeat(column: Column, n: int) -> pa.Array:
    kind = arrow_type(column.type)
    if not isinstance(column, Constant):
        return pa.nulls(n, kind)
    if is_text(kind) or is_date(kind) or pa.types.is_boolean(kind):
        value = pa.scalar(column.value).cast(kind)
    else:
        value = _cast_numbers(np.array([float(column.value)]), np.array([False]), kind)[0]
    cells = pa.repeat(value, n)
    if not column.missing or not column.rows:
        return cells
    gaps = np.random.default_rng(0).random(n) < column.missing / column.rows
    return pc.if_else(pa.array(gaps), pa.scalar(None, kind), cells)
