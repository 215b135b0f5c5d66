"""Table files of all formats: to train on, or in blocks to score."""

import hashlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from ...untrusted import MAX_JSON_BYTES, read_file, require_file
from ..errors import DataError
from ..schema.training_rows import MIN_ROWS
from .array_file import ARRAY_SUFFIXES, parse_array
from .json_file import JSON_SUFFIXES
from .reading import (
    TABLE_SUFFIXES,
    count_cells,
    expands_beyond,
    iter_frames,
    parse_frame,
    table_suffix,
)
from .text_file import Frame

IMAGE_SUFFIXES = frozenset({
    ".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp", ".zip",
})  # fmt: skip
LARGE_FILE = 2**29
"""Larger files are read in blocks, and a random sample of the rows is used: 512 MiB."""
MAX_CELLS = 50_000_000
"""Parquet files, which are compressed, are large if they have more cells than this."""
FEW_CELLS = 12_000_000
"""A table with at most this number of cells, or one for each byte of its file, is never large. A
cell takes about 50 bytes of memory until it is a model input."""
MAX_TEXT_EXPANSION, SMALL_TEXT = 3, 2**25
"""Compressed text is large if it expands to more than 3 times its size and 32 MiB."""
MAX_ROWS = 1_000_000
"""Largest number of rows of this sample."""
BLOCK_ROWS = 50_000
"""Number of rows of a large file that are read at once."""
MAX_SHOWN = 5
"""Largest number of rows that an error lists."""


@dataclass(frozen=True)
class TableFile:
    """A table file to train on.

    Attributes:
        table: The rows.
        name: Name of the file.
        sha256: SHA-256 of the file.
        sampled_rows: Number of rows of the random sample, if the file is too large to use all.
    """

    table: pa.Table
    name: str
    sha256: str
    sampled_rows: int | None


def read_table(
    path: str | Path,
    *,
    columns: Sequence[str] = (),
    as_text: Collection[str] = (),
    seed: int = 0,
    key: str | None = None,
) -> TableFile:
    """Read a table to train on. A large file is read in blocks, and a sample of its rows is used.

    Args:
        path: A text file (`.csv`, `.tsv`, `.txt`, `.data`), objects in a `.json`, `.jsonl` or
            `.ndjson` file, both also as `.gz`, a `.parquet`, `.feather` or `.arrow` file, or an
            array `(N, C)` in a `.npy` or `.npz` file.
        columns: Names that the columns may have. They help to recognize the header of a text file.
        as_text: Names of columns of a text file that are text even if all cells are numbers.
        seed: Random seed of the sample.
        key: Name of the array in a `.npz` file with several arrays.

    Returns:
        The table, and what identifies the file.

    Raises:
        DataError: If the file is not a table, has no rows, has two columns of the same name, or
            has rows with a wrong number of cells.
    """
    path = _require_table(path)
    content = None if _is_large(path) else read_file(path, DataError)
    if content is None or _expands_to_large(content, path):
        cells = max(FEW_CELLS, require_file(path, DataError))
        table = sample_table(path, MAX_ROWS, seed, columns, cells=cells)
        return TableFile(table, path.name, _sha256(path, content), table.num_rows)
    if path.suffix.lower() in ARRAY_SUFFIXES:
        table = parse_array(content, path, key)
    else:
        table = _require_rectangular(parse_frame(content, path, columns, as_text), path)
    table, sampled_rows = _limit_cells(table, len(content), seed)
    return TableFile(table, path.name, _sha256(path, content), sampled_rows)


def iter_table(
    path: str | Path, rows: int, columns: Sequence[str] = (), *, key: str | None = None
) -> Iterator[Frame]:
    """Read a table in blocks, to score files that are larger than memory.

    Args:
        path: A file as `read_table` takes it. An array is read at once.
        rows: Largest number of rows of a block.
        columns: Names that the columns may have.
        key: Name of the array in a `.npz` file with several arrays.

    Yields:
        The blocks in the order of the file. All columns of a text or JSON file are text;
        `TableSchema` converts them.

    Raises:
        DataError: If the file is not a table or has two columns of the same name.
    """
    path = _require_table(path)
    if path.suffix.lower() not in ARRAY_SUFFIXES:
        yield from iter_frames(path, rows, columns)
        return
    table = parse_array(read_file(path, DataError), path, key)
    for start in range(0, table.num_rows, rows):
        part = table.slice(start, rows)
        yield Frame(part, {}, part)


def sample_table(
    path: Path,
    limit: int,
    seed: int,
    columns: Sequence[str] = (),
    *,
    block: int = BLOCK_ROWS,
    cells: int | None = None,
) -> pa.Table:
    """Read a random sample of the rows of a table that is larger than memory.

    Every row is kept with the same probability 1, 1/2, 1/4, …: the largest one with which the
    sample has at most `limit` rows.

    Args:
        path: A text, parquet or arrow file.
        limit: Largest number of rows of the sample.
        seed: Random seed.
        columns: Names that the columns may have.
        block: Number of rows that are read at once.
        cells: Largest number of cells of the sample.

    Returns:
        The sample, in the order of the file. All columns of a text file are text.

    Raises:
        DataError: If the file is not a table, has no rows, or rows of different lengths.
    """
    generator, share = np.random.default_rng(seed), 1.0
    kept: list[pa.Table] = []
    for frame in iter_frames(path, block, columns):
        table = _require_rectangular(frame, path)
        if cells is not None:
            limit = min(limit, max(cells // max(table.num_columns, 1), MIN_ROWS))
        kept.append(table.filter(generator.random(table.num_rows) < share))
        while sum(part.num_rows for part in kept) > limit:
            share /= 2
            kept = [part.filter(generator.random(part.num_rows) < 0.5) for part in kept]
    if not kept:
        raise DataError(f"{path} has no rows. Add rows")
    return pa.concat_tables(kept)


def _require_table(path: str | Path) -> Path:
    """Return the path of a file whose name is that of a table."""
    try:
        path = Path(path).expanduser()
        exists, is_folder = path.exists(), path.is_dir()
    except (OSError, RuntimeError) as error:  # a name is too long, or ~name is nobody's home
        raise DataError(f"{path} cannot be read: {error}") from error
    if not exists:
        raise DataError(
            f"{path} does not exist. Give an absolute path, or one relative to {Path.cwd()}"
        )
    if is_folder:
        raise DataError(f"{path} is a folder. Give a file, such as {path / 'table.csv'}")
    if path.suffix.lower() in IMAGE_SUFFIXES:
        raise DataError(
            f"{path} holds images, which are not a table. The reproduction trains on them: "
            "`python -m paper train` in a clone of the repository"
        )
    if path.suffix.lower() in {".xlsx", ".xls", ".ods"}:
        raise DataError(f"{path} is a workbook. Save the sheet as csv, and give that file")
    if table_suffix(path) not in TABLE_SUFFIXES and path.suffix.lower() not in ARRAY_SUFFIXES:
        raise DataError(
            f"{path} has an unsupported format. Supported are .csv, .tsv, .txt, .data, .json, "
            ".jsonl, .ndjson, .parquet, .feather, .arrow, .npy and .npz. Convert it to one of "
            "these"
        )
    return path


def _is_large(path: Path) -> bool:
    """Return whether a file is read in blocks, by its size or the number of its cells."""
    size, cells = require_file(path, DataError), count_cells(path)
    if path.suffix.lower() in ARRAY_SUFFIXES:
        return False
    if table_suffix(path) in JSON_SUFFIXES:  # rows of Python objects take ten times their text
        return size > MAX_JSON_BYTES
    return size > LARGE_FILE if cells is None else cells > min(MAX_CELLS, max(FEW_CELLS, size))


def _expands_to_large(content: bytes, path: Path) -> bool:
    """Return whether a file is read in blocks because it is compressed text."""
    return expands_beyond(content, max(SMALL_TEXT, MAX_TEXT_EXPANSION * len(content)), path)


def _sha256(path: Path, content: bytes | None) -> str:
    if content is not None:
        return hashlib.sha256(content).hexdigest()
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _require_rectangular(frame: Frame, path: Path) -> pa.Table:
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


def _limit_cells(table: pa.Table, size: int, seed: int) -> tuple[pa.Table, int | None]:
    """Return a random sample of the rows if a table has too many cells for a file of `size` bytes.

    Returns:
        The table and `None`, or the sample and its number of rows.
    """
    most = max(FEW_CELLS, size) // max(table.num_columns, 1)
    if table.num_rows <= most:
        return table, None
    generator, share = np.random.default_rng(seed), most / table.num_rows
    parts = []
    for start in range(0, table.num_rows, MAX_ROWS):  # random numbers of all rows take memory
        part = table.slice(start, MAX_ROWS)
        parts.append(part.filter(generator.random(part.num_rows) < share))
    sample = pa.concat_tables(parts)
    return sample, sample.num_rows
