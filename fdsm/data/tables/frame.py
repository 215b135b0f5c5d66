"""Read tables from files as `pyarrow.Table`."""

import gzip
import zlib
from collections.abc import Collection, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

import numpy as np

from ..errors import DataError
from .plain_types import plain_types
from .text_format import require_different

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

    from .text_file import Frame

TEXT_SUFFIXES = frozenset({".csv", ".tsv", ".txt", ".data"})
PARQUET_SUFFIXES = frozenset({".parquet", ".pq"})
ARROW_SUFFIXES = frozenset({".feather", ".arrow"})
TABLE_SUFFIXES = TEXT_SUFFIXES | PARQUET_SUFFIXES | ARROW_SUFFIXES

MAX_SHOWN = 5
"""Largest number of rows that an error lists."""


def table_suffix(path: Path) -> str:
    """Return the suffix of a file in lower case, without `.gz`.

    Example:
        >>> table_suffix(Path("a.CSV.gz"))
        '.csv'
    """
    inner = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    return inner.suffix.lower()


def read_frame(path: str | Path, known: Collection[str] = ()) -> "pa.Table":
    """Read a table.

    Args:
        path: A text, parquet or arrow file. Text may be compressed with gzip.
        known: Names that the columns may have. They help to recognize the header of a text file.

    Returns:
        The table.

    Raises:
        DataError: If the file is not a table, has no rows, has two columns of the same name, or
            has rows with a wrong number of cells.
    """
    path = Path(path)
    return require_rectangular(parse_frame(path.read_bytes(), path, known), path)


def parse_frame(
    content: bytes, path: Path, known: Collection[str] = (), as_text: Collection[str] = ()
) -> "Frame":
    """Parse the content of a table file.

    Args:
        content: Content of the file.
        path: Path of the file. The suffix is that of the format.
        known: Names that the columns may have.
        as_text: Names of columns of a text file that are text even if all cells are numbers.

    Returns:
        The table, and the rows that have a wrong number of cells.

    Raises:
        DataError: If the file is not a table, has no rows, or has two columns of the same name.
    """
    from .text_file import Frame, parse_text

    if not content:
        raise DataError(f"{path} is empty. Add rows")
    suffix = table_suffix(path)
    if suffix not in PARQUET_SUFFIXES | ARROW_SUFFIXES:
        return parse_text(_decompress(content, path), path, known, as_text)
    table = plain_types(_parse_binary(content, path, suffix))
    require_different(table.column_names, path)
    if not table.num_rows:
        raise DataError(f"{path} has {table.num_columns} columns but no rows. Add rows")
    return Frame(table, {}, table)


def require_rectangular(frame: "Frame", path: Path) -> "pa.Table":
    """Return the table of a frame. Raises `DataError` if rows have a wrong number of cells."""
    if frame.ragged:
        first = [f"row {row + 1:,} {text}" for row, text in list(frame.ragged.items())[:MAX_SHOWN]]
        more = len(frame.ragged) - MAX_SHOWN
        raise DataError(
            f"{path} cannot be used as it is: {len(frame.ragged):,} of {frame.table.num_rows:,} "
            f"rows {'has' if len(frame.ragged) == 1 else 'have'} a wrong number of cells: "
            f"{', '.join(first)}{f' and {more:,} more' if more > 0 else ''}. Correct these rows, "
            "and quote cells that contain the delimiter"
        )
    return frame.table


def iter_frames(path: str | Path, rows: int, known: Collection[str] = ()) -> Iterator["Frame"]:
    """Read a table in blocks, for files that are larger than memory.

    Args:
        path: A text, parquet or arrow file. Text may be compressed with gzip.
        rows: Largest number of rows of a block.
        known: Names that the columns may have.

    Yields:
        The blocks in the order of the file. All columns of a text file are text; `TableSchema`
        converts them.

    Raises:
        DataError: If the file is not a table or has two columns of the same name.
    """
    from .text_file import Frame, iter_text

    path = Path(path)
    suffix = table_suffix(path)
    if suffix not in PARQUET_SUFFIXES | ARROW_SUFFIXES:
        with _open_text(path) as file:
            yield from iter_text(file, path, rows, known)
        return
    import pyarrow as pa
    from pyarrow import parquet

    with _readable(path, suffix):
        if suffix in PARQUET_SUFFIXES:
            with parquet.ParquetFile(path) as file:
                require_different(file.schema_arrow.names, path)
                for batch in file.iter_batches(rows):
                    table = pa.Table.from_batches([batch])
                    yield Frame(plain_types(table), {}, table)
            return
        table = _open_arrow(pa.memory_map(str(path)))
        require_different(table.column_names, path)
        for start in range(0, table.num_rows, rows):
            part = table.slice(start, rows)
            yield Frame(plain_types(part), {}, part)


def count_cells(path: Path) -> int | None:
    """Return the number of cells of a parquet file, and `None` for files that do not say it.

    Args:
        path: A table file.

    Returns:
        The number of rows times the number of columns.

    Raises:
        DataError: If the parquet file is damaged.
    """
    suffix = table_suffix(path)
    if suffix not in PARQUET_SUFFIXES:
        return None
    from pyarrow import parquet

    with _readable(path, suffix):
        metadata = parquet.read_metadata(path)
        return int(metadata.num_rows * metadata.num_columns)


def sample_frame(
    path: Path, limit: int, seed: int, known: Collection[str] = (), block: int = 50_000
) -> "pa.Table":
    """Read a random sample of the rows of a table that is larger than memory.

    Every row is kept with the same probability 1, 1/2, 1/4, …: the largest one with which the
    sample has at most `limit` rows.

    Args:
        path: A text, parquet or arrow file.
        limit: Largest number of rows of the sample.
        seed: Random seed.
        known: Names that the columns may have.
        block: Number of rows that are read at once.

    Returns:
        The sample, in the order of the file. All columns of a text file are text.

    Raises:
        DataError: If the file is not a table, has no rows, or rows of different lengths.
    """
    import pyarrow as pa

    generator, share = np.random.default_rng(seed), 1.0
    kept: list[pa.Table] = []
    for frame in iter_frames(path, block, known):
        table = require_rectangular(frame, path)
        kept.append(table.filter(generator.random(table.num_rows) < share))
        while sum(part.num_rows for part in kept) > limit:
            share /= 2
            kept = [part.filter(generator.random(part.num_rows) < 0.5) for part in kept]
    if not kept:
        raise DataError(f"{path} has no rows. Add rows")
    return pa.concat_tables(kept)


def _parse_binary(content: bytes, path: Path, suffix: str) -> "pa.Table":
    import pyarrow as pa
    from pyarrow import parquet

    with _readable(path, suffix):
        source = pa.BufferReader(content)
        if suffix in ARROW_SUFFIXES:
            return _open_arrow(source)
        with parquet.ParquetFile(source) as file:
            return file.read()


def _open_arrow(source: "pa.NativeFile") -> "pa.Table":
    """Read an arrow file, which may have the file format or the stream format."""
    import pyarrow as pa

    if source.read(4) == b"FEA1":
        raise pa.ArrowInvalid("it has version 1 of the feather format. Version 2 is needed")
    source.seek(0)
    try:
        return pa.ipc.open_file(source).read_all()
    except pa.ArrowInvalid:
        source.seek(0)
        return pa.ipc.open_stream(source).read_all()


@contextmanager
def _readable(path: Path, suffix: str) -> Generator[None]:
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError) as error:
        kind = "parquet" if suffix in PARQUET_SUFFIXES else "arrow"
        raise DataError(
            f"{path} is not a readable {kind} file: {str(error).rstrip('.')}. Write or download "
            "it again"
        ) from error


def _decompress(content: bytes, path: Path) -> bytes:
    if content[:2] != b"\x1f\x8b":
        return content
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} is damaged: {error}. Write or download it again") from error


@contextmanager
def _open_text(path: Path) -> Generator[IO[bytes]]:
    with path.open("rb") as file:
        if file.read(2) != b"\x1f\x8b":
            file.seek(0)
            yield file
            return
    try:
        with gzip.open(path, "rb") as file:
            yield cast(IO[bytes], file)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} is damaged: {error}. Write or download it again") from error
