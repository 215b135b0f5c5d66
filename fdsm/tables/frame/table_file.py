"""A table in the user's file."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt
import torch

from ...serialize import Json
from ...untrusted import read_file, require_file
from paper.data.dataset import Dataset, build_dataset
from paper.data.download import checksums, resolve_path
from paper.data.errors import DataError, problems_of
from paper.data.split import MIN_ROWS, index_splits, train_val_test_split
from paper.data.tables import TableSchema, iter_frames
from ..schema.columns import Problems
from ..schema.copies import without_copies
from .reading import (
    count_cells,
    expands_beyond,
    parse_frame,
    require_rectangular,
    sample_frame,
)
from paper.data.transforms import Chain, EncodeColumns, Transform

if TYPE_CHECKING:
    import pyarrow as pa

    from .text_file import Frame

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
ROW = "row"
"""Name in place of a column for problems of a whole row."""


@dataclass(frozen=True)
class Table:
    """The rows of a text, parquet or arrow file: numbers, categories and dates, or missing cells.

    Stored rows are codes, shape `(N, C)`, float64: see `TableSchema`. By default `EncodeColumns`
    maps them to model inputs. Other transforms, such as `Whiten()`, need numeric columns without
    missing cells; then stored rows are float32.

    Attributes:
        path: Path of the file: absolute, or relative to the working directory or the data
            directory.
        columns: Names of the columns to read, in this order. Default: all. Without a header the
            names are `"0"`, `"1"` and so on.
        validation: Fraction of the rows for validation.
        test: Fraction of the rows for the test.
        seed: Random seed of the split.
        transform: Transform from stored rows to model inputs.
        categorical: Names of columns to take as categorical.
        numeric: Names of columns to take as numeric.
        ignore: Names of columns that the model must not see.
        schema: Types of the columns. Default: inferred from the file.
    """

    path: str | Path
    columns: tuple[str, ...] | None = None
    validation: float = 0.1
    test: float = 0.1
    seed: int = 0
    transform: Transform = EncodeColumns()
    categorical: tuple[str, ...] = ()
    numeric: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    schema: TableSchema | None = None

    def load(self) -> Dataset:
        """Read and split the table. Raises `DataError` with all problems of the file."""
        path = resolve_path(self.path)
        record: dict[str, Json] = {"file": path.name}
        content = None if _is_large(path) else read_file(path, DataError)
        if content is None or _expands_to_large(content, path):
            (record["sha256"],) = checksums(path, "sha256")
            cells = max(FEW_CELLS, require_file(path, DataError))
            frame = sample_frame(path, MAX_ROWS, self.seed, self._column_names(), cells=cells)
            record["sampled_rows"] = frame.num_rows
        else:
            (record["sha256"],) = checksums(content, "sha256")
            frame = require_rectangular(self._parse(content, path), path)
            frame, sampled = limit_cells(frame, len(content), self.seed)
            record |= sampled
            del content
        with problems_of(path):
            schema = self.schema or TableSchema.infer(
                frame,
                columns=self.columns,
                categorical=self.categorical,
                numeric=self.numeric,
                ignore=self.ignore,
            )
            return split_frame(self, frame, schema, record)

    def read_codes(self) -> "tuple[npt.NDArray[np.float64], Problems, pa.Table]":
        """Read the table to score its rows with a model that was trained on another one.

        Returns:
            The codes, shape `(N, C)`, the problems of the rows, and the table itself. A row with a
            wrong number of cells is a row of missing cells with a problem of the column `"row"`.

        Raises:
            DataError: If the file is not a table, or lacks columns of the schema.
            ValueError: If there is no schema.
        """
        path = resolve_path(self.path)
        return self._encode(path, self._parse(read_file(path, DataError), path))

    def iter_codes(
        self, rows: int
    ) -> "Iterator[tuple[npt.NDArray[np.float64], Problems, pa.Table]]":
        """Read the table in blocks, for files that are larger than memory.

        Args:
            rows: Largest number of rows of a block.

        Yields:
            The codes, problems and table of each block, as `read_codes` returns them. Rows are
            counted from the beginning of the block. The table has the cells as they are in the
            file: the cells of a text file are text.

        Raises:
            DataError: If the file is not a table, or lacks columns of the schema.
            ValueError: If there is no schema.
        """
        path = resolve_path(self.path)
        for frame in iter_frames(path, rows, self._column_names()):
            yield self._encode(path, frame)

    def _parse(self, content: bytes, path: Path) -> "Frame":
        as_text = self.categorical if self.schema is None else self.schema.text
        return parse_frame(content, path, self._column_names(), as_text)

    def _column_names(self) -> Sequence[str]:
        return (self.columns or ()) if self.schema is None else self.schema.names

    def _encode(
        self, path: Path, frame: "Frame"
    ) -> "tuple[npt.NDArray[np.float64], Problems, pa.Table]":
        if self.schema is None:
            raise ValueError("Table has no schema: give the one of the training data, schema=...")
        with problems_of(path):
            codes, problems = self.schema.encode(frame.table)
        for row, text in frame.ragged.items():
            problems[row] = [(ROW, text)]
        return codes, problems, frame.original


def _is_large(path: Path) -> bool:
    """Return whether a file is read in blocks, by its size or the number of its cells."""
    size, cells = require_file(path, DataError), count_cells(path)
    return size > LARGE_FILE if cells is None else cells > min(MAX_CELLS, max(FEW_CELLS, size))


def _expands_to_large(content: bytes, path: Path) -> bool:
    """Return whether a file is read in blocks because it is compressed text."""
    return expands_beyond(content, max(SMALL_TEXT, MAX_TEXT_EXPANSION * len(content)), path)


def limit_cells(frame: "pa.Table", size: int, seed: int) -> "tuple[pa.Table, dict[str, Json]]":
    """Return a random sample of the rows of a table that has too many cells for its file.

    Args:
        frame: The table.
        size: Number of bytes of the file.
        seed: Random seed.

    Returns:
        The table or the sample, and the entry `sampled_rows` of the record for a sample.
    """
    import pyarrow as pa

    most = max(FEW_CELLS, size) // max(frame.num_columns, 1)
    if frame.num_rows <= most:
        return frame, {}
    generator, share = np.random.default_rng(seed), most / frame.num_rows
    parts = []
    for start in range(0, frame.num_rows, MAX_ROWS):  # random numbers of all rows take memory
        part = frame.slice(start, MAX_ROWS)
        parts.append(part.filter(generator.random(part.num_rows) < share))
    sample = pa.concat_tables(parts)
    return sample, {"sampled_rows": sample.num_rows}


class TableSource(Protocol):
    """A source of a table that is split at random."""

    @property
    def transform(self) -> Transform:
        """Transform from stored rows to model inputs, before it is fitted."""
        ...

    @property
    def validation(self) -> float:
        """Fraction of the rows for validation."""
        ...

    @property
    def test(self) -> float:
        """Fraction of the rows for the test."""
        ...

    @property
    def seed(self) -> int:
        """Random seed of the split."""
        ...

    def load(self) -> Dataset:
        """Read the data set."""
        ...


def split_frame(
    source: TableSource, frame: "pa.Table", schema: TableSchema, file: dict[str, Json]
) -> Dataset:
    """Split a table at random into training, validation and test.

    Rows whose used cells are all missing, and copies of other rows, are dropped.

    Args:
        source: The source of the table.
        frame: The table.
        schema: Types of its columns.
        file: Record of the file.

    Returns:
        The data set.

    Raises:
        DataError: If no column can be used, there are too few rows, or the transform needs numbers
            and the table has categories or missing cells.
    """
    if frame.num_rows < MIN_ROWS:
        raise DataError(f"{frame.num_rows} rows, but at least {MIN_ROWS} are needed")
    if not schema.used:
        raise DataError(
            f"no column can be used: {schema.describe()}. A model needs numbers, categories or "
            "dates that vary",
            setting="columns",
        )
    codes, _ = schema.encode(frame)
    empty = np.isnan(codes).all(1)
    if dropped := int(empty.sum()):
        codes = codes[~empty]
    codes, copies, equal_rows = without_copies(codes)
    if len(codes) < MIN_ROWS:
        raise DataError(
            f"{len(codes)} different rows with values, but at least {MIN_ROWS} are needed"
        )
    transform = _for_columns(source.transform, schema.num_levels)
    if transform is None:
        _require_complete_numbers(source.transform, schema, codes)
    rows = torch.from_numpy(codes).to(torch.float32 if transform is None else torch.float64)
    order = train_val_test_split(
        len(rows), validation=source.validation, test=source.test, seed=source.seed
    )
    splits = index_splits(rows, order)
    data = build_dataset(
        source,
        splits,
        fitted=(transform or source.transform).fit(splits[0]),
        files=[file],
        columns=[column.name for column in schema.used],
        dropped_rows=dropped,
        copies=copies,
        equal_rows=equal_rows,
    )
    return replace(data, schema=schema)


def _for_columns(transform: Transform, num_levels: tuple[int, ...]) -> Transform | None:
    """Return the transform with the numbers of categories, or `None` if it cannot use them."""
    if isinstance(transform, EncodeColumns):
        return replace(transform, num_levels=num_levels)
    if isinstance(transform, Chain) and transform.steps:
        first = _for_columns(transform.steps[0], num_levels)
        return None if first is None else Chain((first, *transform.steps[1:]))
    return None


def _require_complete_numbers(
    transform: Transform, schema: TableSchema, codes: npt.NDArray[np.float64]
) -> None:
    missing = np.isnan(codes).sum(0).tolist()
    problems = []
    for column, levels, count in zip(schema.used, schema.num_levels, missing, strict=True):
        if levels:
            problems.append(f"column {column.name!r} has {levels} categories")
        elif count:
            problems.append(f"column {column.name!r} has {count:,} missing cells")
    if problems:
        lines = "".join(f"\n- {line}" for line in problems)
        raise DataError(
            f"{type(transform).__name__}() needs numbers without missing cells:{lines}\n"
            "Use EncodeColumns(), or select other columns with columns=(...)",
            setting="columns",
        )
