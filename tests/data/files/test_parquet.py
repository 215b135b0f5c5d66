"""Tests of parquet files."""

import datetime
from pathlib import Path

import numpy as np
import pytest
import torch

from fdsm.data import DataError, Table

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

VALUES = np.random.default_rng(0).normal(size=(40, 2)).astype(np.float32)


def test_selected_columns_are_read_exactly(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    columns = {"x": VALUES[:, 0], "n": np.arange(40), "flag": np.arange(40) % 2 == 1}
    parquet.write_table(pa.table(columns | {"word": ["w"] * 40}), path)
    rows = Table(path, columns=("n", "x", "flag")).rows()
    expected = np.stack([np.arange(40), VALUES[:, 0], np.arange(40) % 2], 1).astype(np.float32)
    assert torch.equal(rows, torch.from_numpy(expected))


def test_all_columns_of_other_types_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    days = [datetime.date(2024, 1, 1)] * 3
    parquet.write_table(pa.table({"word": ["w"] * 3, "x": [1.0, 2.0, 3.0], "day": days}), path)
    with pytest.raises(DataError) as caught:
        Table(path).rows()
    assert "column 'word' has the type string, which is not a number" in str(caught.value)
    assert "column 'day' has the type date32" in str(caught.value)


def test_missing_values_are_empty_cells(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"x": [1.0, None, 3.0], "n": [1, 2, None]}), path)
    with pytest.raises(DataError) as caught:
        Table(path).rows()
    assert "column 'x': 1 of 3 cells is empty, first in row 2" in str(caught.value)
    assert "column 'n': 1 of 3 cells is empty, first in row 3" in str(caught.value)
    rows, problems = Table(path).rows_with_problems()
    assert rows[0].tolist() == [1.0, 1.0]
    assert problems == {1: "column 'x': '' is empty", 2: "column 'n': '' is empty"}


def test_damaged_files_raise(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"x": [1.0, 2.0]}), path)
    whole = path.read_bytes()
    for content in (b"", b"<html>", whole[:-10], whole[:20]):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"a\.parquet is not a readable parquet file"):
            Table(path).rows()
