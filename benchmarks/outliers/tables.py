"""Tables of the benchmark: normal rows for training, labeled rows for testing."""

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Table:
    """Training rows, test rows and labels.

    Attributes:
        name: Name of the file without its suffix.
        train: Normal rows, shape `(N, D)`. NaN marks a missing cell.
        test: Test rows, shape `(M, D)`.
        label: 1 for an anomaly, 0 for a normal row, shape `(M,)`.
    """

    name: str
    train: Array
    test: Array
    label: NDArray[np.uint8]

    @property
    def group(self) -> str:
        """The collection that the table comes from: its name before the first underscore."""
        return self.name.split("_", 1)[0]

    @property
    def digest(self) -> str:
        """A checksum of the arrays, by which a result recognizes its table."""
        arrays = (self.train, self.test, self.label)
        return hashlib.sha256(b"".join(a.tobytes() for a in arrays)).hexdigest()[:16]

    @property
    def held_out(self) -> Array:
        """The normal rows of the test set."""
        rows: Array = self.test[self.label == 0]
        return rows

    def facts(self) -> dict[str, Any]:
        """Return the sizes, for the record of a result."""
        return {
            "train_rows": len(self.train),
            "columns": self.train.shape[1],
            "test_normals": int((self.label == 0).sum()),
            "anomalies": int((self.label == 1).sum()),
            "digest": self.digest,
        }


def read_table(path: Path) -> Table:
    """Read a table from an `.npz` file.

    Args:
        path: The file.

    Returns:
        The table.

    Raises:
        ValueError: If arrays are missing or their shapes do not match.
    """
    with np.load(path, allow_pickle=False) as arrays:
        missing = {"train", "test", "label"} - set(arrays.files)
        if missing:
            raise ValueError(f"{path} has no array called {' or '.join(sorted(missing))}")
        train, test = (arrays[name].astype(np.float64) for name in ("train", "test"))
        label = arrays["label"].astype(np.uint8)
    if train.ndim != 2 or test.shape[1:] != train.shape[1:] or label.shape != test.shape[:1]:
        raise ValueError(
            f"{path}: expected train (N, D), test (M, D) and label (M,), "
            f"but got {train.shape}, {test.shape} and {label.shape}"
        )
    if not set(np.unique(label)) == {0, 1}:
        raise ValueError(f"{path}: label must contain 0 and 1, but contains {np.unique(label)}")
    return Table(path.stem, train, test, label)


def column_scales(rows: Array) -> Array:
    """Return the standard deviation of each column, and 1 for a constant column.

    NaN is ignored. The deviation of a constant is not compared with zero: rounding may make it
    positive.
    """
    constant = np.nanmin(rows, 0) == np.nanmax(rows, 0)
    return np.where(constant, 1.0, np.nanstd(rows, 0))


def delete_cells(table: Table, fraction: float, seed: int) -> Table:
    """Delete cells at random in the training and test rows.

    A row keeps at least one cell, so that there is something to score.

    Args:
        table: A table without missing cells.
        fraction: The probability with which a cell is deleted.
        seed: Random seed.

    Returns:
        The table with NaN in the deleted cells.
    """
    random = np.random.default_rng(seed)

    def delete(rows: Array) -> Array:
        deleted = random.random(rows.shape) < fraction
        keep = random.integers(rows.shape[1], size=len(rows))
        deleted[np.arange(len(rows)), keep] &= ~deleted.all(1)
        return np.where(deleted, np.nan, rows)

    return replace(table, train=delete(table.train), test=delete(table.test))
