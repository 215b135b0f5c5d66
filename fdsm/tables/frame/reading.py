"""Text, JSON, parquet and arrow files as `pyarrow.Table`, whole or in blocks."""

import io
from collections.abc import Collection, Generator, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from ...untrusted import Decompressed, InputError, expansion_limit, quote, require_file
from ..errors import DataError
from .arrow_messages import decompressed_size
from .json_file import JSON_SUFFIXES, json_names, parse_json_table, parse_rows, text_frame
from .plain_types import plain_types
from .text_file import Frame, iter_text, parse_text
from .text_format import require_names

if TYPE_CHECKING:
    from pyarrow import parquet

TEXT_SUFFIXES = frozenset({".csv", ".tsv", ".txt", ".data"})
PARQUET_SUFFIXES = frozenset({".parquet", ".pq"})
ARROW_SUFFIXES = frozenset({".feather", ".arrow"})
TABLE_SUFFIXES = TEXT_SUFFIXES | JSON_SUFFIXES | PARQUET_SUFFIXES | ARROW_SUFFIXES

GZIP = b"\x1f\x8b"
"""How a gzip file begins."""
MAX_CELL = 2**20
"""Largest number of bytes of a cell of text: 1 MiB."""
LARGE_PARQUET = 2**26
"""Text of larger parquet files, of more than 64 MiB, is read without a limit of its size."""


def table_suffix(path: Path) -> str:
    """Return the suffix of a file in lower case, without `.gz`.

    Example:
        >>> table_suffix(Path("a.CSV.gz"))
        '.csv'
    """
    inner = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    return inner.suffix.lower()


def parse_frame(
    content: bytes, path: Path, column_names: Collection[str] = (), as_text: Collection[str] = ()
) -> Frame:
    """Parse the content of a table file.

    Args:
        content: Content of the file.
        path: Path of the file. The suffix is that of the format.
        column_names: Names that the columns may have.
        as_text: Names of columns of a text file that are text even if all cells are numbers.

    Returns:
        The table, and the rows that have a wrong number of cells.

    Raises:
        DataError: If the file is not a table, has no rows, or has two columns of the same name.
    """
    if not content:
        raise DataError(f"{path} is empty. Add rows")
    suffix = table_suffix(path)
    if suffix in JSON_SUFFIXES:
        table = parse_json_table(io.BytesIO(_decompress(content, path)), path)
        require_short_cells(table, path)
        return Frame(table, {}, table)
    if suffix not in PARQUET_SUFFIXES | ARROW_SUFFIXES:
        frame = parse_text(_decompress(content, path), path, column_names, as_text)
        require_short_cells(frame.table, path)
        return frame
    table = plain_types(_parse_binary(content, path, suffix))
    require_names(table.column_names, path)
    if not table.num_rows:
        raise DataError(f"{path} has {table.num_columns} columns but no rows. Add rows")
    return Frame(table, {}, table)


def iter_frames(path: Path, rows: int, column_names: Collection[str] = ()) -> Iterator[Frame]:
    """Read a table in blocks, for files that are larger than memory.

    Args:
        path: A text, JSON, parquet or arrow file. Text may be compressed with gzip.
        rows: Largest number of rows of a block.
        column_names: Names that the columns may have.

    Yields:
        The blocks in the order of the file. All columns of a text or JSON file are text;
        `TableSchema` converts them.

    Raises:
        DataError: If the file is not a table or has two columns of the same name.
    """
    size = require_file(path, DataError)
    suffix = table_suffix(path)
    if suffix in JSON_SUFFIXES:
        yield from _iter_json(path, rows, column_names)
        return
    if suffix not in PARQUET_SUFFIXES | ARROW_SUFFIXES:
        with _open_text(path) as file:
            for frame in iter_text(file, path, rows, column_names):
                require_short_cells(frame.table, path)
                yield frame
        return
    with _readable(path, suffix):
        if suffix in PARQUET_SUFFIXES:
            with _open_parquet(path, path, size) as file:
                for batch in file.iter_batches(rows):
                    table = _expand(pa.Table.from_batches([batch]), file, size)
                    table.validate(full=True)
                    require_short_cells(table, path)
                    yield Frame(plain_types(table), {}, table)
            return
        table = _read_arrow(pa.memory_map(str(path)), size)
        require_names(table.column_names, path)
        require_short_cells(table, path)
        for start in range(0, table.num_rows, rows):
            part = table.slice(start, rows)
            yield Frame(plain_types(part), {}, part)


def _iter_json(path: Path, rows: int, column_names: Collection[str]) -> Iterator[Frame]:
    """Read a JSON file twice: for the keys of all rows, and in blocks with these columns."""
    with _open_text(path) as file:
        names = json_names(parse_rows(file, path), path)
    with _open_text(path) as file:
        parsed = parse_rows(file, path)
        while block := list(islice(parsed, rows)):
            frame = text_frame(block, names, path, column_names)
            require_short_cells(frame.table, path)
            yield frame


def count_cells(path: Path) -> int | None:
    """Return the number of cells of a parquet file, and `None` for files that do not say it.

    Args:
        path: A table file.

    Returns:
        The number of rows times the number of columns.

    Raises:
        DataError: If the parquet file is damaged, or has too many cells.
    """
    suffix = table_suffix(path)
    if suffix not in PARQUET_SUFFIXES:
        return None
    with _readable(path, suffix), _open_parquet(path, path, require_file(path, DataError)) as file:
        return int(file.metadata.num_rows * file.metadata.num_columns)


def _parse_binary(content: bytes, path: Path, suffix: str) -> pa.Table:
    with _readable(path, suffix):
        source = pa.BufferReader(content)
        if suffix in ARROW_SUFFIXES:
            table = _read_arrow(source, len(content))
        else:
            with _open_parquet(source, path, len(content)) as file:
                table = _expand(file.read(), file, len(content))
                table.validate(full=True)
        require_short_cells(table, path)
        return table


def _open_parquet(source: Path | pa.NativeFile, path: Path, size: int) -> "parquet.ParquetFile":
    """Open a parquet file. Text of a small file is read as dictionaries, to know its size."""
    from pyarrow import parquet

    file = parquet.ParquetFile(source)
    require_names(file.schema_arrow.names, path)
    metadata = file.metadata  # do not ask for its columns: damaged ones end the process
    unpacked = sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups))
    values, most = metadata.num_rows * metadata.num_columns, expansion_limit(size)
    if values > most or unpacked > most:
        raise DataError(
            f"{path} has {values:,} cells and expands to {unpacked:,} bytes, more than {most:,}. "
            "Write a part of its rows or columns to another file"
        )
    if size > LARGE_PARQUET:
        return file
    text = [field.name for field in file.schema_arrow if is_plain_text(field.type)]
    return parquet.ParquetFile(source, metadata=file.metadata, read_dictionary=text)


def _expand(table: pa.Table, file: "parquet.ParquetFile", size: int) -> pa.Table:
    """Return a table with text in place of the dictionaries that `_open_parquet` asked for."""
    _require_short_dictionaries(table, size)
    stored = file.metadata.schema.to_arrow_schema()
    if table.schema.types == stored.types:
        return table
    pairs = zip(table.columns, stored.types, strict=True)
    columns = [column if column.type == kind else column.cast(kind) for column, kind in pairs]
    return pa.Table.from_arrays(columns, table.column_names)


def _require_short_dictionaries(table: pa.Table, size: int) -> None:
    """Raise `DataError` if the texts of dictionaries, one for each row, are too large."""
    total = 0
    for column in table.columns:
        if not pa.types.is_dictionary(column.type) or not is_plain_text(column.type.value_type):
            continue
        for part in column.chunks:
            lengths = pc.binary_length(part.dictionary).cast(pa.int64())
            total += pc.sum(lengths.take(part.indices)).as_py() or 0
    if total > expansion_limit(size):
        raise DataError(
            f"its text expands to more than {expansion_limit(size):,} bytes. Remove columns with "
            "long text"
        )


def is_plain_text(kind: pa.DataType) -> bool:
    """Return whether an arrow type is text that is not in a dictionary."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _read_arrow(source: pa.NativeFile, size: int) -> pa.Table:
    """Read an arrow file. The file format is the stream format between two marks."""
    start = source.read(6)
    if start[:4] == b"FEA1":
        raise ValueError("it has version 1 of the feather format. Version 2 is needed")
    position, total = 8 if start == b"ARROW1" else 0, 0
    source.seek(position)
    while True:
        try:
            total += decompressed_size(pa.ipc.read_message(source))
        except EOFError:
            break
        if total > expansion_limit(size):
            raise DataError(
                f"it expands to more than {expansion_limit(size):,} bytes. If this is right, "
                "write it without compression"
            )
    source.seek(position)
    table = pa.ipc.open_stream(source).read_all()
    table.validate(full=True)  # pyarrow trusts offsets and would read outside the file
    _require_short_dictionaries(table, size)
    return table


def require_short_cells(table: pa.Table, path: Path) -> None:
    """Raise `DataError` if a cell of text has more than `MAX_CELL` bytes."""
    text = [field.name for field in table.schema if is_plain_text(field.type)]
    for name, column in ((name, table.column(name)) for name in text):
        if column.nbytes > MAX_CELL:
            longest = pc.max(pc.binary_length(column)).as_py() or 0
            if longest > MAX_CELL:
                raise DataError(
                    f"{path}: a cell of column {quote(name)} has {longest:,} bytes, more than "
                    f"{MAX_CELL:,}. Shorten it, or remove the column from the file"
                )


@contextmanager
def _readable(path: Path, suffix: str) -> Generator[None]:
    """Name the file in errors. pyarrow raises many types of errors for damaged files."""
    try:
        yield
    except ImportError:
        raise
    except DataError as error:
        if str(path) in str(error):
            raise
        raise DataError(f"{path} cannot be used: {error}") from error
    except Exception as error:
        kind = "parquet" if suffix in PARQUET_SUFFIXES else "arrow"
        raise DataError(
            f"{path} is not a readable {kind} file: {str(error).rstrip('.')}. Write or download "
            "it again"
        ) from error


def _decompress(content: bytes, path: Path) -> bytes:
    if content[:2] != GZIP:
        return content
    with _named(path):
        limit = expansion_limit(len(content))
        return io.BufferedReader(Decompressed(io.BytesIO(content), limit)).read()


def expands_beyond(content: bytes, size: int, path: Path) -> bool:
    """Return whether the content of a file is compressed text of more than `size` bytes."""
    if content[:2] != GZIP:
        return False
    with _named(path):
        file = Decompressed(io.BytesIO(content), expansion_limit(len(content)))
        while size >= 0 and (block := file.read(2**20)):
            size -= len(block)
    return size < 0


@contextmanager
def _open_text(path: Path) -> Generator[IO[bytes]]:
    with path.open("rb") as file:
        if file.read(2) != GZIP:
            file.seek(0)
            yield file
            return
        file.seek(0)
        limit = expansion_limit(path.stat().st_size)
        with _named(path):
            yield io.BufferedReader(Decompressed(file, limit))


@contextmanager
def _named(path: Path) -> Generator[None]:
    """Put the path of a compressed file before the text of an error about its compression."""
    try:
        yield
    except DataError:
        raise
    except InputError as error:
        raise DataError(f"{path} {error}. Write or download it again") from error
