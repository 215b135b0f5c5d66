"""Tests of tables that are read to train on, or in blocks to score."""

import hashlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from fdsm.tables.errors import DataError
from fdsm.tables.frame import TableFile, iter_table, read_table
from fdsm.tables.schema import TableSchema

VALUES = np.random.default_rng(0).normal(size=(40, 3))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a.csv"
    np.savetxt(path, VALUES, delimiter=",", header="a,b,c", comments="", fmt="%.17g")
    return path


def numbers(table: pa.Table) -> np.ndarray:
    """Return a table of numbers, also as text, as an array."""
    return np.stack([column.cast(pa.float64()).to_numpy() for column in table.columns], 1)


def test_a_file_is_read_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []
    original = Path.open
    monkeypatch.setattr(Path, "open", lambda p, *a, **k: opened.append(p) or original(p, *a, **k))
    found = read_table(str(path))
    assert opened == [path]
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    assert found == TableFile(found.table, "a.csv", sha256, sampled_rows=None)
    assert found.table.column_names == ["a", "b", "c"]
    np.testing.assert_array_equal(numbers(found.table), VALUES)


def test_names_help_to_recognize_the_header_and_text_keeps_zeros(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("zip,kind\n" + "10115,x\n10117,y\n")
    table = read_table(path, as_text=("zip",)).table
    assert table["zip"].to_pylist() == ["10115", "10117"]
    path.write_text("x,y\nu,v\nx,y\n")
    assert read_table(path).table.column_names == ["0", "1"]
    assert read_table(path, columns=("y",)).table.column_names == ["x", "y"]
    assert [f.table.column_names for f in iter_table(path, 9, ("y",))] == [["x", "y"]]


def test_new_rows_are_encoded_in_blocks_as_in_one_piece(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    zips = random.choice(["02139", "10001"], 60)
    lines = [
        f"{1000 * x:.2f} €;{x:.1f};{code};{x:.2f} kg"
        for x, code in zip(random.gamma(2, size=60), zips, strict=True)
    ]
    lines[3], lines[5] = "620.32 €;2;02139;5 lb", "620.32 €;none;02139;5kg"
    path = tmp_path / "shop.csv"
    content = "\n".join(["price;size;zip;weight", *lines]).replace(".", ",")
    path.write_bytes(content.encode("cp1252"))
    table = read_table(path).table
    schema = TableSchema.infer(table)
    assert schema.describe() == "3 numeric (price, size, weight), 1 categorical (zip)"
    codes, problems = schema.encode(table)
    assert problems == {3: [("weight", "'5 lb' is not a number with the unit 'kg'")]}
    blocks = [schema.encode(frame.table)[0] for frame in iter_table(path, 7, schema.names)]
    np.testing.assert_array_equal(np.concatenate(blocks), codes)
    row = schema.decode(codes[5:6]).to_pylist()[0]
    assert row == {"price": "620.32 €", "size": None, "zip": "02139", "weight": "5.00 kg"}


def test_ragged_rows_are_refused_in_training_and_reported_in_scoring(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a,b\n1,2\n3\n4,5\n")
    with pytest.raises(DataError, match=r"1 of 3 rows has a wrong number of cells: row 2 has 1"):
        read_table(path)
    first, second = iter_table(path, 2)
    assert first.ragged == {1: "has 1 cells instead of 2"}
    assert first.table["a"].to_pylist() == ["1", None]
    assert first.original["a"].to_pylist() == ["1", "3"]
    assert (second.ragged, second.table["a"].to_pylist()) == ({}, ["4"])


def test_large_files_are_read_in_blocks(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = read_table(path)
    monkeypatch.setattr("fdsm.tables.frame.table_file.LARGE_FILE", 100)
    blocks = read_table(path)
    np.testing.assert_array_equal(numbers(blocks.table), VALUES)
    assert (blocks.name, blocks.sha256) == (whole.name, whole.sha256)
    assert blocks.sampled_rows == 40
    types = [TableSchema.infer(found.table).describe() for found in (whole, blocks)]
    assert types[0] == types[1] == "3 numeric (a, b, c)"


def test_large_files_are_sampled(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fdsm.tables.frame.table_file.LARGE_FILE", 100)
    monkeypatch.setattr("fdsm.tables.frame.table_file.MAX_ROWS", 30)
    found = read_table(path)
    assert found.sampled_rows == found.table.num_rows
    assert 10 <= found.table.num_rows <= 30
    assert all((row == VALUES).all(1).any() for row in numbers(found.table))
    assert read_table(path).table.equals(found.table)
    assert not read_table(path, seed=1).table.equals(found.table)


def test_parquet_files_of_many_cells_are_sampled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The size of the file on the disk does not count: it is compressed."""
    values = np.random.default_rng(0).normal(size=100)
    parquet.write_table(pa.table({"a": values, "b": values}), tmp_path / "a.parquet")
    monkeypatch.setattr("fdsm.tables.frame.table_file.LARGE_FILE", 100)
    monkeypatch.setattr("fdsm.tables.frame.table_file.MAX_ROWS", 30)
    assert read_table(tmp_path / "a.parquet").sampled_rows is None
    monkeypatch.setattr("fdsm.tables.frame.table_file.MAX_CELLS", 199)
    sampled_rows = read_table(tmp_path / "a.parquet").sampled_rows
    assert sampled_rows is not None
    assert 10 <= sampled_rows <= 30


def test_images_and_other_formats_are_refused(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    for name in ("a.PNG", "a.zip", "a.xlsx", "a"):
        (tmp_path / name).write_text("1,2")
    images = "holds images, which are not a table. The reproduction trains on them"
    problems = {
        "photos": r"photos is a folder\. Give a file, such as .*photos/table\.csv",
        "a.PNG": rf"a\.PNG {images}",
        "a.zip": rf"a\.zip {images}",
        "a.xlsx": r"a\.xlsx is a workbook\. Save the sheet as csv, and give that file",
        "a": r"a has an unsupported format\. Supported are .*Convert it",
        "nothing.csv": r"nothing\.csv does not exist\. Give an absolute path",
        "n" * 300: "cannot be read: .*File name too long",
    }
    for name, message in problems.items():
        for read in (read_table, lambda path: list(iter_table(path, 10))):
            with pytest.raises(DataError, match=message):
                read(tmp_path / name)
