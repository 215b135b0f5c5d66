"""Write tables in blocks as csv or parquet files."""

import csv
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from ...atomic_io import require_writable
from ..errors import DataError
from ..schema import Column, DateTime, Numeric, TableSchema
from ..schema.cells import GAPS, MISSING
from ..schema.decoding import arrow_type
from ..schema.inference import is_text

if TYPE_CHECKING:
    from pyarrow import parquet

WRITTEN_SUFFIXES = (".csv", ".parquet")
MAX_HEADER = 2**20
"""Largest number of characters of the first line in which the names of columns are looked for."""


def write_frames(path: Path, suffix: str, frames: Iterable[pa.Table], mark: str = "") -> None:
    """Write blocks of a table into a file.

    Args:
        path: The file.
        suffix: The format, `".csv"` or `".parquet"`.
        frames: The blocks, with the same columns.
        mark: Metadata of a parquet file, by which `is_marked` recognizes it.

    Raises:
        DataError: If a column has a type that parquet files cannot hold.
    """
    if suffix == ".csv":
        _write_csv(path, frames)
        return
    writer = None
    try:
        for frame in frames:
            if writer is None:
                writer = _parquet_writer(path, frame.schema.with_metadata({"fdsm": mark}))
            writer.write_table(pa.Table.from_arrays(frame.columns, schema=writer.schema))
    finally:
        if writer is not None:
            writer.close()


def _parquet_writer(path: Path, schema: pa.Schema) -> "parquet.ParquetWriter":
    from pyarrow import parquet

    try:
        return parquet.ParquetWriter(path, schema)
    except pa.ArrowNotImplementedError as error:
        raise DataError(f"the table cannot be written as .parquet: {error}. Use .csv") from error


def _write_csv(path: Path, frames: Iterable[pa.Table]) -> None:
    """Write csv with quotes only where they are needed, unlike pyarrow's writer."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        for number, frame in enumerate(frames):
            if number == 0:
                writer.writerow(frame.column_names)
            writer.writerows(csv_rows(frame))


def csv_rows(frame: pa.Table) -> Iterator[tuple[object, ...]]:
    """Yield the rows of a table as cells of a csv file."""
    yield from zip(*(csv_cells(column) for column in frame.columns), strict=True)


def csv_cells(column: pa.ChunkedArray) -> list[object]:
    """Return cells as text: missing ones empty, `true` and `false`, whole numbers without `.0`."""
    try:
        cells: list[object] = column.to_pylist()
    except (OverflowError, ValueError):  # dates and durations that Python cannot represent
        cells = column.cast(pa.string()).to_pylist()
    if str(column.type) == "bool":
        words = {None: "", True: "true", False: "false"}
        return [words[cell] for cell in column.to_pylist()]
    if str(column.type) in {"double", "float", "halffloat"}:
        return ["" if cell is None else repr(cell).removesuffix(".0") for cell in cells]
    return cells


def as_text(column: Column, cells: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return decoded cells as a text file like that of the training data has them.

    Args:
        column: The column.
        cells: Cells with the type of the column.

    Returns:
        The cells as text: numbers with all decimals of the column, and times in its format.

    Example:
        >>> as_text(Numeric("x", decimals=2), pa.chunked_array([[0.5, None]])).to_pylist()
        ['0.50', None]
    """
    if is_text(cells.type):
        return cells
    if isinstance(column, DateTime) and column.written and pa.types.is_timestamp(cells.type):
        unit = cells.type.unit if column.resolution is None else "s"
        moments = cells.cast(pa.timestamp(cells.type.unit)).cast(pa.timestamp(unit))
        return pc.strftime(moments, format=column.written)
    if isinstance(column, Numeric) and column.decimals and pa.types.is_floating(cells.type):
        shown = [None if x is None else f"{x:.{column.decimals}f}" for x in cells.to_pylist()]
    else:
        shown = [None if x is None or x == "" else str(x) for x in csv_cells(cells)]
    return pa.chunked_array([pa.array(shown, pa.string())])


def is_marked(path: Path, mark: str, columns: Iterable[str]) -> bool:
    """Return whether a file was written by `write_frames`.

    Args:
        path: The file.
        mark: The metadata of a parquet file.
        columns: Names of columns that a csv file or the first JSON line must have.

    Returns:
        Whether the mark or the columns are there.
    """
    if not path.is_file():
        return False
    if path.suffix == ".parquet":
        from pyarrow import parquet

        try:
            metadata = parquet.read_schema(path).metadata or {}
        except (pa.ArrowException, OSError):
            return False
        return metadata.get(b"fdsm") == mark.encode()
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        line = file.readline(MAX_HEADER)
    try:
        header = (
            list(json.loads(line)) if path.suffix == ".jsonl" else next(csv.reader([line]), [])
        )
    except (csv.Error, ValueError, TypeError, RecursionError):
        return False
    return {str(name).removeprefix("fdsm_") for name in header}.issuperset(columns)


def require_replaceable(
    path: Path,
    mark: str,
    columns: Iterable[str],
    data: Path | None = None,
    suffixes: Sequence[str] = WRITTEN_SUFFIXES,
) -> None:
    """Check that a file can be written, before its content is computed.

    Args:
        path: The file to write. An existing file is only replaced if it was written by
            `write_frames`.
        mark: The metadata of a parquet file.
        columns: Names of columns that a csv file must have.
        data: The file that the content is computed from, if any.
        suffixes: The supported formats.

    Raises:
        FileExistsError: If the file exists and has another content, or is the data.
        NotADirectoryError: If the folder is a file.
        PermissionError: If the folder is read-only.
        ValueError: If the format is not supported.
    """
    if path.suffix not in suffixes:
        allowed = " or ".join(suffixes)
        raise ValueError(f"{mark} can be written as {allowed}, not {path.suffix!r}")
    if data is not None and path.exists() and data.exists() and path.samefile(data):
        raise FileExistsError(f"{path} is the file to score. Choose another file for the {mark}")
    if path.is_dir() or (path.exists() and not is_marked(path, mark, columns)):
        raise FileExistsError(f"{path} exists and does not hold {mark} of fdsm")
    require_writable(path)


def uncastable(frame: pa.Table, schema: TableSchema) -> set[str]:
    """Return the columns of a table of text that do not have the types of the training data.

    Args:
        frame: The table.
        schema: The columns of the training data.

    Returns:
        The names of columns with cells that cannot be read.
    """
    names = set()
    for name, kind in _types(frame, schema).items():
        try:
            _cast(frame.column(name), kind)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            names.add(name)
    return names


def cast_text(frame: pa.Table, schema: TableSchema, as_text: set[str]) -> pa.Table:
    """Return a table of text with the types of the training data.

    Args:
        frame: The table.
        schema: The columns of the training data.
        as_text: Names of columns that stay text: `uncastable` in any block of the file.

    Returns:
        The table.
    """
    types = {n: kind for n, kind in _types(frame, schema).items() if n not in as_text}
    columns = [
        _cast(column, types[name]) if name in types else column
        for name, column in zip(frame.column_names, frame.columns, strict=True)
    ]
    return pa.Table.from_arrays(columns, frame.column_names)


def _types(frame: pa.Table, schema: TableSchema) -> dict[str, pa.DataType]:
    """Return the types of the columns that are not text in the training data."""
    names = set(frame.column_names)
    types = {column.name: arrow_type(column.type) for column in schema.columns}
    return {n: kind for n, kind in types.items() if n in names and not is_text(kind)}


def _cast(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Return a column of text in another type. Texts that mean a missing cell are missing."""
    trimmed = pc.utf8_trim_whitespace(column)
    if pa.types.is_boolean(kind):
        missing = pc.is_in(trimmed, value_set=pa.array(MISSING))
    else:
        missing = pc.is_in(pc.utf8_lower(trimmed), value_set=pa.array(GAPS))
    return pc.if_else(missing, None, trimmed).cast(kind)
