"""Convert tables to codes, by the types of their columns."""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import DataError
from .cells import (
    INTEGER_DAY,
    ISO,
    UNITS,
    Floats,
    Unit,
    distinct_text,
    numbers_of_column,
    numbers_of_text,
    parse_numbers,
    seconds_of_dates,
    seconds_of_integers,
    seconds_of_text,
    times_of_text,
    without_gaps,
)
from .columns import Categorical, Column, Constant, DateTime, Numeric, Problems, UsedColumn
from .decoding import arrow_type
from .inference import distinct_categories, is_date, is_numeric, is_supported, is_text

MIN_CELLS = 10
"""Smallest number of cells that must all be unreadable for a column to have another type."""


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
    names = match_names(columns, frame.column_names)
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


def match_names(columns: Sequence[Column], new_names: Sequence[str]) -> dict[str, str]:
    """Return the name in a new table of each known column that it has."""
    names = [column.name for column in columns]
    positions = [str(i) for i in range(len(new_names))]
    if len(names) == len(new_names) and positions in (list(new_names), names):
        return dict(zip(names, new_names, strict=True))
    return {name: name for name in set(names) & set(new_names)}


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
    numbers, bad = _numbers_from_text(column, cells)
    if bad.sum() >= MIN_CELLS and np.isnan(numbers).all():
        raise _OtherType(f"is text such as {_example(cells, bad)!r}, but was numeric")
    return numbers, bad


def _numbers_from_text(
    column: Numeric, cells: pa.ChunkedArray
) -> tuple[Floats, npt.NDArray[np.bool_]]:
    kind = arrow_type(column.type)
    if pa.types.is_time(kind):
        return times_of_text(cells, UNITS[kind.unit])
    if pa.types.is_boolean(kind):
        return _encode_categories(Categorical(column.name, "bool", (), boolean=True), cells)
    return numbers_of_text(cells, Unit(column.prefix, column.suffix))


def _encode_dates(
    column: DateTime, cells: pa.ChunkedArray
) -> tuple[Floats, npt.NDArray[np.bool_]]:
    if is_date(cells.type):
        codes = seconds_of_dates(cells)
        return codes, np.zeros(len(codes), bool)
    if column.format == INTEGER_DAY:
        return _encode_integer_days(cells)
    if not is_text(cells.type) and not pa.types.is_null(cells.type):
        raise _OtherType(f"has the type {cells.type}, but was a date")
    distinct = without_gaps(distinct_text(cells))
    seconds = seconds_of_text(distinct.values, column.format or ISO)
    seconds = np.where(np.isnan(seconds), seconds_of_text(distinct.values, ISO), seconds)
    codes = distinct.spread(seconds)
    bad = np.isnan(codes) & (distinct.indices >= 0)
    if bad.sum() >= MIN_CELLS and np.isnan(codes).all():
        example, expected = _example(cells, bad), column.format or ISO
        raise _OtherType(f"is text such as {example!r}, but was a date in the format {expected}")
    return codes, bad


def _encode_integer_days(cells: pa.ChunkedArray) -> tuple[Floats, npt.NDArray[np.bool_]]:
    if is_numeric(cells.type):
        numbers = numbers_of_column(cells)
        bad = np.zeros(len(numbers), bool)
    else:
        numbers, bad = numbers_of_text(cells.cast(pa.string()))
    codes = seconds_of_integers(numbers)
    bad = bad | (np.isnan(codes) & ~np.isnan(numbers))
    if bad.sum() >= MIN_CELLS and np.isnan(codes).all():
        raise _OtherType(
            f"has cells such as {_example(cells, bad)!r}, but was a date in the format "
            f"{INTEGER_DAY}"
        )
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
        position = _BOOLEANS
    unknown = len(position) - 1 if column.merged else np.nan
    per_value = np.array([position.get(v, unknown) for v in values.to_pylist()], np.float64)
    codes = distinct.spread(per_value)
    return codes, np.isnan(codes) & (distinct.indices >= 0)


_BOOLEANS = {
    "false": 0, "0": 0, "f": 0, "no": 0, "true": 1, "1": 1, "t": 1, "yes": 1,
}  # fmt: skip
"""Codes of the spellings of false and true in lower case."""


def _differs(column: Constant, cells: pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    """Return which cells are present and have another value than a constant column."""
    if not is_supported(cells.type):
        return np.asarray(cells.is_valid().to_numpy())
    distinct, kind = distinct_categories(cells), arrow_type(column.type)
    texts = distinct.values
    constant = pa.array([column.value], pa.large_string())
    value = column.value
    if pa.types.is_boolean(kind) or value.lower() in {"false", "true"}:
        texts, value = pc.utf8_lower(texts), value.lower()
    same = pc.equal(texts, value).to_numpy(zero_copy_only=False)
    if is_date(kind):
        same = same | (seconds_of_text(texts, ISO) == seconds_of_text(constant, ISO))
    else:
        same = same | (parse_numbers(texts) == parse_numbers(constant))
    return np.equal(distinct.spread(np.where(same, 0.0, 1.0)), 1)


def _report(
    problems: Problems, column: Column, cells: pa.ChunkedArray, bad: npt.NDArray[np.bool_]
) -> None:
    """Add the problems of a column to those of the rows."""
    if not bad.any():
        return
    rows = np.flatnonzero(bad)
    text = _PROBLEMS[type(column)]
    chosen = cells.take(pa.array(rows))
    if not is_supported(cells.type):
        chosen = pa.chunked_array([pa.array([str(cell) for cell in chosen.to_pylist()])])
    values = distinct_categories(chosen)
    messages = [f"{value!r} {text(column, value)}" for value in values.values.to_pylist()]
    for row, i in zip(rows.tolist(), values.indices.tolist(), strict=True):
        problems.setdefault(row, []).append((column.name, messages[i]))


def _number_problem(column: Numeric, value: str) -> str:
    if column.type.startswith("time"):
        return "is not a time"
    try:
        float(value)
    except ValueError:
        unit = f"{column.prefix}{column.suffix}".strip()
        return f"is not a number with the unit {unit!r}" if unit else "is not a number"
    return "is too large a number"


_PROBLEMS: dict[type, Callable[..., str]] = {
    Numeric: _number_problem,
    DateTime: lambda column, value: f"is not a date in the format {column.format or ISO}",
    Categorical: lambda column, value: "does not occur in the training data",
    Constant: lambda column, value: f"differs from {column.value!r}, the only value in training",
}


def _require_columns(missing: list[str], wrong: list[str], names: Sequence[str]) -> None:
    if missing:
        shown = ", ".join(map(repr, names[:20])) + (", …" if len(names) > 20 else "")
        listed = ", ".join(map(repr, missing))
        plural = f"columns {listed} are" if len(missing) > 1 else f"column {listed} is"
        wrong = [f"{plural} missing", *wrong]
        wrong[-1] += f". The table has {shown}"
    if wrong:
        lines = "".join(f"\n- {line}" for line in wrong)
        raise DataError(f"the columns differ from those of the training data:{lines}")
