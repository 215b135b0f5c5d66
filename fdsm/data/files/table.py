"""Your own table of numbers."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ..dataset import Dataset, build_dataset, taken
from ..download import checksum, resolved
from ..errors import DataError
from ..split import train_val_test_split
from ..transforms import Standardize, Transform
from .csv import CHOOSE, Numbers, read_csv, read_parquet

MIN_ROWS = 10
"""With fewer rows there is nothing to split."""

PARQUET = {".parquet", ".pq"}


@dataclass(frozen=True)
class Table:
    """The numbers of a `.csv` or `.parquet` file, one event per row: `(N, D)` float32.

    Columns are standardised by default. Whitening would remove correlations too, but it turns
    nearly dependent columns, common in tables, into nearly pure rounding error; choose
    `transform=Whiten()` if yours are not.

    Attributes:
        path: The file; absolute, or relative to here or to the folder of the data.
        columns: The names of the columns to take, in this order; all by default. Without a
            header they are called `"0"`, `"1"` and so on.
        validation: The share of the rows for validation.
        test: The share for the test.
        seed: Decides which.
        transform: From the numbers to what the model sees.
    """

    path: str | Path
    columns: tuple[str, ...] | None = None
    validation: float = 0.1
    test: float = 0.1
    seed: int = 0
    transform: Transform = Standardize()

    def rows(self) -> Tensor:
        """Return all rows in the order of the file, say to score them, shape `(N, D)`."""
        return torch.from_numpy(self._numbers().values).to(torch.float32)

    def load(self) -> Dataset:
        """Read and split the table; raises `DataError` if that is impossible."""
        numbers, path = self._numbers(), resolved(self.path)
        rows = split_rows(
            numbers, path, validation=self.validation, test=self.test, seed=self.seed
        )
        return build_dataset(
            self,
            rows,
            files=[{"file": path.name, "sha256": checksum(path)}],
            columns=list(numbers.columns),
        )

    def _numbers(self) -> Numbers:
        path = resolved(self.path)
        reader = read_parquet if path.suffix.lower() in PARQUET else read_csv
        return reader(path, self.columns)


def split_rows(
    numbers: Numbers, path: Path, *, validation: float, test: float, seed: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Split a table into rows for training, validation and test.

    Args:
        numbers: The table.
        path: Where it came from, for the errors.
        validation: The share for validation.
        test: The share for the test.
        seed: Decides which rows go where.

    Returns:
        The rows of each, float32.

    Raises:
        DataError: If there are too few rows, or a column hardly varies.
    """
    if len(numbers.values) < MIN_ROWS:
        raise DataError(
            f"{path} has {len(numbers.values)} rows: at least {MIN_ROWS} are needed to split them "
            "into training, validation and test"
        )
    order = train_val_test_split(len(numbers.values), validation=validation, test=test, seed=seed)
    _require_variation(numbers, path, order[0])
    return taken(torch.from_numpy(numbers.values).to(torch.float32), order)


def _require_variation(numbers: Numbers, path: Path, train: Tensor) -> None:
    values = numbers.values[train.numpy()]
    spread, size = values.std(0), np.abs(values).max(0)
    for name, s, a in zip(numbers.columns, spread, size, strict=True):
        if s == 0:
            raise DataError(
                f"{path}, column {name!r}: the same number in all rows to train on. A constant "
                f"has no density: leave the column out; {CHOOSE}"
            )
        if a * np.finfo(np.float32).eps > s / 10:
            raise DataError(
                f"{path}, column {name!r}: numbers near {a:.3g} that vary by {s:.3g} only, too "
                "little for float32. Subtract a constant from the column first"
            )
