from pathlib import Path

import numpy as np
import pytest

from benchmarks.outliers.tables import Table


@pytest.fixture
def table() -> Table:
    """Normal rows near the origin; anomalies at a distance of ten."""
    random = np.random.default_rng(0)
    train, normal = random.standard_normal((60, 3)), random.standard_normal((30, 3))
    anomalies = random.standard_normal((6, 3)) + 10
    label = np.repeat([0, 1], [30, 6]).astype(np.uint8)
    return Table("made_up", train, np.concatenate([normal, anomalies]), label)


@pytest.fixture
def folder(table: Table, tmp_path: Path) -> Path:
    """A folder with the same table under two names."""
    folder = tmp_path / "tables"
    folder.mkdir()
    for name in ("a_one", "b_two"):
        arrays = {"train": table.train, "test": table.test, "label": table.label}
        np.savez(folder / f"{name}.npz", names=np.array(["x", "y", "z"]), **arrays)
    return folder
