"""Convert tables to codes and back, by the types of their columns."""

import re
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from ..errors import DataError
from .cells import (
    ISO,
    UNITS,
    Floats,
    distinct_text,
    numbers_of_column,
    numbers_of_text,
    parse_numbers,
    seconds_of_dates,
    seconds_of_text,
    times_of_text,
)
from .columns import Categorical, Column, Constant, DateTime, Numeric, Problems, UsedColumn
from .inference import distinct_categories, is_date, is_numeric, is_supported, is_text

MIN_CELLS = 10
"""Smallest number of cells that must all be unreadable for a column to have another type."""

FIRST_SECOND, LAST_SECOND = -62_135_596_800.0, 253_402_300_799.0
"""The years 1 to 9999, in seconds since 1970. Samples outside are clipped."""


class _OtherType(Exception):
    """A column has another type than the training data."""


def encode_frame(
    columns: Sequence[Column], used: Sequence[UsedColumn], frame: pa.Table
) -> tuple[Floats, Problems]:
    """Convert a table to codes.

    Args:
        columns: All columns of the training data.
        used: The columns that the model sees.
        frame: The table.

    Returns:
        Codes, shape `(N, C)`, and the problems of the rows.

    Raises:
        DataError: If used columns are missing or have another type.
    """
    names = _match_names(columns, frame.column_names)
    missing = [column.name for column in used if column.name not in names]
    codes, problems, wrong = np.empty((frame.num_rows, len(used)), order="F"), Problems(), []
    for i, column in enumerate(used):
        if column.name in names:
            cells = frame.column(names[column.name])
            try:
                codes[:, i], bad = _encode(column, cells)
            except _OtherType as error:
                wrong.append(f"column {column.name!r} {error}")
            else:
                _report(problems, column, cells, bad)
    _require_columns(missing, wrong, frame.column_names)
    for constant in columns:
        if isinstance(constant, Constant) and constant.name in names:
            cells = frame.column(names[constant.name])
            _report(problems, constant, cells, _differs(constant, cells))
    return codes, problems


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


def _match_names(columns: Sequence[Column], found: Sequence[str]) -> dict[str, str]:
    """Return the name in a new table of each known column that it has."""
    known = [column.name for column in columns]
    positions = [str(i) for i in range(len(found))]
    if len(known) == len(found) and positions in (list(found), known):
        return dict(zip(known, found, strict=True))
    return {name: name for name in set(known) & set(found)}


def _encode(column: UsedColumn, cells: pa.ChunkedArray) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Return the codes of a column and which cells have a problem."""
    if not is_supported(cells.type):
        raise _OtherType(f"has the type {cells.type}")
    match column:
        case Numeric():
            return _encode_numbers(column, cells)
        case DateTime():
            return _encode_dates(column, cells)
        case Categorical():
            return _encode_categories(column, cells)


def _encode_numbers(
    column: Numeric, cells: pa.ChunkedArray
) -> tuple[Floats, npt.NDArray[np.bool_]]:
    if is_numeric(cells.type) or pa.types.is_boolean(cells.type):
        codes = numbers_of_column(cells)
        bad = np.isnan(codes)
        return codes, bad & ~cells.is_null(nan_is_null=True).to_numpy() if bad.any() else bad
    if is_date(cells.type):
        raise _OtherType(f"has the type {cells.type}, but was numeric")
    kind = arrow_type(column.type)
    if pa.types.is_time(kind):
        numbers, bad = times_of_text(cells, UNITS[kind.unit])
    else:
        numbers, bad = numbers_of_text(cells)
    if bad.sum() >= MIN_CELLS and np.isnan(numbers).all():
        raise _OtherType(f"is text such as {_example(cells, bad)!r}, but was numeric")
    return numbers, bad


def _encode_dates(
    column: DateTime, cells: pa.ChunkedArray
) -> tuple[Floats, npt.NDArray[np.bool_]]:
    if is_date(cells.type):
        codes = seconds_of_dates(cells)
        return codes, np.zeros(len(codes), bool)
    if not is_text(cells.type) and not pa.types.is_null(cells.type):
        raise _OtherType(f"has the type {cells.type}, but was a date")
    distinct = distinct_text(cells)
    seconds = seconds_of_text(distinct.values, column.format or ISO)
    seconds = np.where(np.isnan(seconds), seconds_of_text(distinct.values, ISO), seconds)
    codes = distinct.spread(seconds)
    bad = np.isnan(codes) & (distinct.indices >= 0)
    if bad.sum() >= MIN_CELLS and np.isnan(codes).all():
        example, expected = _example(cells, bad), column.format or ISO
        raise _OtherType(f"is text such as {example!r}, but was a date in the format {expected}")
    return codes, bad


def _example(cells: pa.ChunkedArray, bad: npt.NDArray[np.bool_]) -> str:
    return str(cells[int(bad.argmax())].as_py())


def _encode_categories(
    column: Categorical, cells: pa.ChunkedArray
) -> tuple[Floats, npt.NDArray[np.bool_]]:
    distinct = distinct_categories(cells)
    values = pc.utf8_lower(distinct.values) if column.boolean else distinct.values
    position = {level: i for i, level in enumerate(column.levels)}
    if column.boolean:
        position |= _BOOLEANS
    unknown = len(position) - 1 if column.merged else np.nan
    per_value = np.array([position.get(v, unknown) for v in values.to_pylist()], np.float64)
    codes = distinct.spread(per_value)
    return codes, np.isnan(codes) & (distinct.indices >= 0)


_BOOLEANS = {"0": 0, "f": 0, "no": 0, "1": 1, "t": 1, "yes": 1}
"""Other spellings of the categories `"false"` and `"true"`."""


def _differs(column: Constant, cells: pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    """Return which cells are present and have another value than a constant column."""
    if not is_supported(cells.type):
        return np.asarray(cells.is_valid().to_numpy())
    distinct, kind = distinct_categories(cells), arrow_type(column.type)
    found = distinct.values
    known = pa.array([column.value], pa.large_string())
    if pa.types.is_boolean(kind):
        found = pc.utf8_lower(found)
    same = pc.equal(found, column.value).to_numpy(zero_copy_only=False)
    if is_date(kind):
        same = same | (seconds_of_text(found, ISO) == seconds_of_text(known, ISO))
    else:
        same = same | (parse_numbers(found) == parse_numbers(known))
    return np.equal(distinct.spread(np.where(same, 0.0, 1.0)), 1)


def _report(
    problems: Problems, column: Column, cells: pa.ChunkedArray, bad: npt.NDArray[np.bool_]
) -> None:
    """Add the problems of a column to those of the rows."""
    rows = np.flatnonzero(bad)
    if not len(rows):
        return
    text = _PROBLEMS[type(column)]
    chosen = cells.take(pa.array(rows))
    if not is_supported(cells.type):
        chosen = pa.chunked_array([pa.array([str(cell) for cell in chosen.to_pylist()])])
    values = distinct_categories(chosen)
    messages = [f"{value!r} {text(column, value)}" for value in values.values.to_pylist()]
    for row, i in zip(rows.tolist(), values.indices.tolist(), strict=True):
        problems.setdefault(row, []).append((column.name, messages[i]))


def _number_problem(column: Numeric, value: str) -> str:
    try:
        float(value)
    except ValueError:
        return "is not a number"
    return "is too large a number"


_PROBLEMS: dict[type, Callable[..., str]] = {
    Numeric: _number_problem,
    DateTime: lambda column, value: f"is not a date in the format {column.format or ISO}",
    Categorical: lambda column, value: "does not occur in the training data",
    Constant: lambda column, value: f"differs from {column.value!r}, the only value in training",
}


def _require_columns(missing: list[str], wrong: list[str], found: Sequence[str]) -> None:
    if missing:
        shown = ", ".join(map(repr, found[:20])) + (", …" if len(found) > 20 else "")
        wrong = [f"column {name!r} is missing" for name in missing] + wrong
        wrong[-1] += f". The table has {shown}"
    if wrong:
        lines = "".join(f"\n- {line}" for line in wrong)
        raise DataError(f"the columns differ from those of the training data:{lines}")


def _decode(column: UsedColumn, codes: Floats) -> pa.Array:
    missing = np.isnan(codes)
    kind = arrow_type(column.type)
    if isinstance(column, Categorical):
        known = np.where(missing, 0, codes).round().clip(0, len(column.levels) - 1)
        indices = pa.array(known.astype(np.int32), mask=missing)
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
    return _cast_numbers(values, missing, kind)


def _decode_dates(
    column: DateTime, kind: pa.DataType, seconds: Floats, missing: npt.NDArray[np.bool_]
) -> pa.Array:
    unit = kind.unit if pa.types.is_timestamp(kind) else "s" if column.format != ISO else "us"
    limit = 2.0**62 / UNITS[unit]
    seconds = seconds.clip(max(FIRST_SECOND, -limit), min(LAST_SECOND, limit))
    ticks = np.rint(seconds * UNITS[unit]).astype(np.int64)
    moments = pa.array(ticks, pa.int64(), mask=missing).cast(pa.timestamp(unit))
    if column.format is not None:
        shown = "%Y-%m-%dT%H:%M:%S" if column.format == ISO else column.format
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
    return pa.repeat(value, n)
