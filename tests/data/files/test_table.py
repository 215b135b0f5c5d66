"""Tests of Table."""

import hashlib
from pathlib import Path

import numpy as np
import pytest
import torch

from fdsm.data import DataError, Table, Whiten

VALUES = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a.csv"
    np.savetxt(path, VALUES, delimiter=",", header="a,b,c", comments="", fmt="%.9g")
    return path


def test_rows_are_read_exactly(path: Path) -> None:
    rows = Table(path).rows()
    assert rows.dtype == torch.float32
    assert torch.equal(rows, torch.from_numpy(VALUES))
    assert torch.equal(Table(path, columns=("c",)).rows(), torch.from_numpy(VALUES[:, [2]]))


def test_a_table_is_split_and_standardized(path: Path) -> None:
    data = Table(path).load()
    assert data.record == {
        "name": "Table",
        "rows": {"train": 32, "validation": 4, "test": 4},
        "files": [{"file": "a.csv", "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}],
        "columns": ["a", "b", "c"],
    }
    order = np.random.RandomState(0).permutation(40)
    assert torch.equal(data.train, torch.from_numpy(VALUES[order[:32]]))
    z = data.transform.deterministic(data.train).double()
    torch.testing.assert_close(z.mean(0), torch.zeros(3), atol=1e-6, rtol=0)
    torch.testing.assert_close(z.var(0, correction=0), torch.ones(3), atol=1e-5, rtol=0)


def test_a_table_can_be_whitened(path: Path) -> None:
    white = Table(path, transform=Whiten()).load()
    z = white.transform.deterministic(white.train).double()
    torch.testing.assert_close(z.T @ z / 32, torch.eye(3), atol=1e-5, rtol=0)


def test_the_file_is_read_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []
    original = Path.open
    monkeypatch.setattr(Path, "open", lambda p, *a, **k: opened.append(p) or original(p, *a, **k))
    Table(path).load()
    assert opened == [path]


def test_bad_rows_are_read_with_their_problems_or_raise(path: Path) -> None:
    path.write_text(path.read_text() + "1,n/a,3\n")
    rows, problems = Table(path).rows_with_problems()
    assert torch.equal(rows[:40], torch.from_numpy(VALUES))
    assert problems == {40: "column 'b': 'n/a' is not a number"}
    for read in (Table(path).rows, Table(path).load):
        with pytest.raises(DataError, match=r"a\.csv cannot be used.* first in row 41: 'n/a'"):
            read()
