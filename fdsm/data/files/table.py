"""A table of numbers in the user's file."""

from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from ..dataset import Dataset, build_dataset
from ..download import checksums, resolve_path
from ..transforms import Standardize, Transform
from .csv import parse_csv
from .numeric_table import NumericTable
from .parquet import parse_parquet

PARQUET_SUFFIXES = {".parquet", ".pq"}


@dataclass(frozen=True)
class Table:
    """The numbers of a text or parquet file, one example per row: `(N, D)` float32.

    Columns are standardized by default. Whitening also removes correlations, but it amplifies
    rounding errors if columns are nearly dependent, which is common in tables. Choose it with
    `transform=Whiten()`.

    Attributes:
        path: Path of the file: absolute, or relative to the working directory or the data
            directory.
        columns: Names of the columns to read, in this order. Default: all. Without a header the
            names are `"0"`, `"1"` and so on.
        validation: Fraction of the rows for validation.
        test: Fraction of the rows for the test.
        seed: Random seed of the split.
        transform: Transform from stored rows to model inputs.
    """

    path: str | Path
    columns: tuple[str, ...] | None = None
    validation: float = 0.1
    test: float = 0.1
    seed: int = 0
    transform: Transform = Standardize()

    def rows(self) -> Tensor:
        """Return all rows in the order of the file, shape `(N, D)`. No row may have a problem."""
        path, _, table = self._read()
        return table.rows(path)

    def rows_with_problems(self) -> tuple[Tensor, dict[int, str]]:
        """Return all rows, including those with problems, for example to score the others.

        Returns:
            The rows in the order of the file, shape `(N, D)`, with NaN in each cell that cannot
            be read, and the problem of each such row by its index.

        Raises:
            DataError: If the file cannot be read or lacks a column.
        """
        path, _, table = self._read()
        return table.rows_with_problems(path)

    def load(self) -> Dataset:
        """Read and split the table. Raises `DataError` with all problems of the file."""
        path, sha256, table = self._read()
        rows = table.split(path, validation=self.validation, test=self.test, seed=self.seed)
        return build_dataset(
            self,
            rows,
            files=[{"file": path.name, "sha256": sha256}],
            columns=list(table.columns),
        )

    def _read(self) -> tuple[Path, str, NumericTable]:
        path = resolve_path(self.path)
        content = path.read_bytes()
        (sha256,) = checksums(content, "sha256")
        parse = parse_parquet if path.suffix.lower() in PARQUET_SUFFIXES else parse_csv
        return path, sha256, parse(content, path, self.columns)
