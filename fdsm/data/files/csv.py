"""Tables of numbers in text files and parquet files."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..errors import DataError

DELIMITERS = (";", "\t", ",")
"""What may stand between the cells, tried in this order: a comma may be part of a number."""

CHOOSE = "choose columns with columns=(…), on the command line `--set data.columns=a,b`"
REMEDY = f"Correct or delete the row, or {CHOOSE}"


@dataclass(frozen=True)
class Numbers:
    """A table that has been read.

    Attributes:
        columns: The names of the columns; `"0", "1", …` if the file has none.
        values: The numbers, shape `(N, D)`, float64.
    """

    columns: tuple[str, ...]
    values: npt.NDArray[np.float64]


def read_csv(path: Path, columns: Sequence[str] | None = None) -> Numbers:
    """Read a text file of numbers.

    The delimiter is a semicolon, a tab or a comma, whichever the first line has. That line
    names the columns if none of its cells is a number.

    Args:
        path: The file.
        columns: Which columns to take; all by default.

    Returns:
        The table.

    Raises:
        DataError: If a cell is not a number, with its column and row, or a column is missing.
    """
    lines = _lines(path)
    delimiter = next((d for d in DELIMITERS if d in lines[0]), ",")
    first = [cell.strip() for cell in next(csv.reader(lines, delimiter=delimiter))]
    header = not any(map(_is_number, first))
    names = tuple(first) if header else tuple(map(str, range(len(first))))
    chosen = names if columns is None else tuple(columns)
    numbers, body = _positions(path, names, chosen), lines[int(header) :]
    if not body:
        raise DataError(f"{path} has a header but no rows")
    if any(len(cells) != len(names) for cells in csv.reader(body, delimiter=delimiter)):
        raise DataError(f"{path}{_fault(body, delimiter, names, numbers)}")
    try:
        values = np.loadtxt(
            body, delimiter=delimiter, usecols=numbers, ndmin=2, comments=None, quotechar='"'
        )
    except ValueError as error:
        fault = _fault(body, delimiter, names, numbers) or f": {error}"
        raise DataError(f"{path}{fault}") from error
    return Numbers(chosen, finite(path, chosen, values))


def read_parquet(path: Path, columns: Sequence[str] | None = None) -> Numbers:
    """Read a parquet file of numbers.

    Args:
        path: The file.
        columns: Which columns to take; all by default.

    Returns:
        The table.

    Raises:
        DataError: If a column is missing or does not hold numbers, or a number is missing.
        ImportError: If pyarrow is missing.
    """
    try:
        import pyarrow as pa  # type: ignore[import-untyped]
        from pyarrow import parquet
    except ImportError as error:
        raise ImportError("parquet files need pyarrow: pip install 'fdsm[parquet]'") from error
    try:
        with parquet.ParquetFile(path) as file:
            names = tuple(file.schema_arrow.names)
            chosen = names if columns is None else tuple(columns)
            _positions(path, names, chosen)
            table = file.read(columns=list(chosen))
    except DataError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DataError(f"{path} is not a readable parquet file: {error}") from error
    values = np.empty((table.num_rows, len(chosen)))
    for i, name in enumerate(chosen):
        column = table.column(name)
        if not (pa.types.is_primitive(column.type) or pa.types.is_decimal(column.type)):
            raise DataError(
                f"{path}, column {name!r}: {column.type} is not a number. Leave it out: {CHOOSE}"
            )
        values[:, i] = column.cast(pa.float64(), safe=False).to_numpy()
    return Numbers(chosen, finite(path, chosen, values))


def finite(
    path: Path, columns: Sequence[str], values: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Return the values if all are numbers that float32 can hold.

    Args:
        path: The file, for the error.
        columns: The names of the columns.
        values: The numbers, shape `(N, D)`.

    Returns:
        The values.

    Raises:
        DataError: If one is NaN, infinite or too large, with its column and row.
    """
    bad = np.argwhere(~(np.abs(values) <= np.finfo(np.float32).max))
    if len(bad):
        row, column = bad[0]
        raise DataError(
            f"{path}, column {columns[column]!r}, row {row + 1}: {values[row, column]} is not a "
            f"finite float32 number. {REMEDY}"
        )
    return values


def _lines(path: Path) -> list[str]:
    try:
        lines = path.read_bytes().decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not a text file in UTF-8: {error}") from error
    lines = [line for line in lines if line.strip()]
    if not lines:
        raise DataError(f"{path} is empty")
    return lines


def _positions(path: Path, names: Sequence[str], chosen: Sequence[str]) -> list[int]:
    missing = [name for name in chosen if name not in names]
    if missing or not chosen:
        raise DataError(
            f"{path} has no column {', '.join(map(repr, missing)) or 'to read'}: it has "
            f"{', '.join(map(repr, names[:30])) or 'none'}"
        )
    twice = [name for name in chosen if list(names).count(name) > 1]
    if twice:
        raise DataError(f"{path} has more than one column called {twice[0]!r}: rename them")
    return [list(names).index(name) for name in chosen]


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _fault(
    body: Sequence[str], delimiter: str, names: Sequence[str], numbers: Sequence[int]
) -> str | None:
    """Return what is wrong with the first row that is."""
    for row, line in enumerate(csv.reader(body, delimiter=delimiter), 1):
        if len(line) != len(names):
            return f", row {row}: {len(line)} cells instead of {len(names)}. Correct the row"
        for i in numbers:
            if not _is_number(line[i]):
                return f", column {names[i]!r}, row {row}: {line[i]!r} is not a number. {REMEDY}"
    return None
