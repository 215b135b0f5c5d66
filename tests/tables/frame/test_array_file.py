"""Tests of arrays in numpy's formats as tables."""

import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from fdsm.tables.errors import DataError
from fdsm.tables.frame import iter_table, read_table
from fdsm.tables.frame.array_file import MAX_HEADER
from fdsm.tables.schema import TableSchema

VALUES = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)


def test_arrays_are_tables(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", VALUES)
    np.savez(tmp_path / "one.npz", x=VALUES)
    np.savez_compressed(tmp_path / "two.npz", x=VALUES, y=VALUES[:3])
    for name, key in (("a.npy", None), ("one.npz", None), ("two.npz", "x")):
        table = read_table(tmp_path / name, key=key).table
        assert table.column_names == ["0", "1", "2"]
        np.testing.assert_array_equal(np.stack([c.to_numpy() for c in table.columns], 1), VALUES)
        blocks = list(iter_table(tmp_path / name, 15, key=key))
        assert [block.table.num_rows for block in blocks] == [15, 15, 10]
        assert pa.concat_tables([block.original for block in blocks]).equals(table)
    with pytest.raises(
        DataError, match=r"has the arrays 'x', 'y'\. Select one with key=.* save it"
    ):
        read_table(tmp_path / "two.npz")
    with pytest.raises(DataError, match=r"'x', 'y', but not 'z'\. Select one"):
        read_table(tmp_path / "two.npz", key="z")


def test_columns_of_arrays_may_be_categorical_or_ignored(tmp_path: Path) -> None:
    values = np.stack([np.arange(40) ** 2, np.arange(40) % 3, VALUES[:, 0]], 1)
    np.save(tmp_path / "a.npy", values)
    table = read_table(tmp_path / "a.npy").table
    schema = TableSchema.infer(table, categorical=("1",), ignore=("0",))
    assert [column.name for column in schema.used] == ["1", "2"]
    assert schema.num_levels == (3, 0)


def test_new_arrays_are_read_with_the_schema(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", VALUES)
    schema = TableSchema.infer(read_table(tmp_path / "a.npy").table)
    new = np.array([[1.0, np.nan, 3.0], [np.inf, 2.0, 3.0]])
    np.save(tmp_path / "new.npy", new)
    (frame,) = iter_table(tmp_path / "new.npy", 10, schema.names)
    codes, problems = schema.encode(frame.table)
    np.testing.assert_array_equal(codes, [[1, np.nan, 3], [np.nan, 2, 3]])
    assert problems == {1: [("0", "'inf' is too large a number")]}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.array([{}, "x"], object), "numbers and not as objects"),
        (np.array(["a", "b"]), "has the type <U1, but real numbers are needed"),
        (np.ones((20, 2)) + 1j, "has the type complex128"),
        (np.ones(20), r"has shape \(20,\), but a table needs \(N, C\)\. Reshape it\.$"),
        (np.ones((20, 8, 8)), r"shape \(20, 8, 8\), .* see the repository's paper/ folder$"),
    ],
    ids=["objects", "text", "complex", "vector", "images"],
)
def test_unusable_arrays_raise(tmp_path: Path, value: np.ndarray, message: str) -> None:
    path = tmp_path / "a.npy"
    np.save(path, value, allow_pickle=True)
    for read in (read_table, lambda path: list(iter_table(path, 10))):
        with pytest.raises(DataError, match=rf"a\.npy .*{message}"):
            read(path)


def test_damaged_arrays_raise(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", VALUES)
    np.savez(tmp_path / "a.npz", VALUES)
    for name in ("a.npy", "a.npz"):
        path = tmp_path / name
        whole = path.read_bytes()
        for content in (b"", b"<html>", whole[:-100], whole[:50]):
            path.write_bytes(content)
            with pytest.raises(DataError, match="cannot be read as a numpy array"):
                read_table(path)


def test_declared_length_of_a_header_is_not_allocated(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.zeros((4, 3)))
    content = path.read_bytes()
    path.write_bytes(content[:6] + b"\x02\x00" + b"\xff" * 4 + content[12:])
    tracemalloc.start()
    with pytest.raises(DataError, match=r"x\.npy cannot be read as a numpy array"):
        read_table(path)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 10 * MAX_HEADER


def test_an_array_that_declares_more_than_it_has(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    with path.open("wb") as file:
        header = {"descr": "<f8", "fortran_order": False, "shape": (10**12, 2)}
        np.lib.format.write_array_header_1_0(file, header)
        file.write(bytes(1000))
    with pytest.raises(DataError, match=r"a\.npy cannot .*declares 16,000,000,000,000 bytes"):
        read_table(path)


def test_an_npz_file_with_a_junk_member(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, x=VALUES)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("junk", b"not an array")
    with pytest.raises(DataError, match=r"a\.npz has the arrays 'x', 'junk'. Select one with key"):
        read_table(path)
    assert read_table(path, key="x").table.num_rows == 40
    with pytest.raises(DataError, match=r"a\.npz cannot be read as a numpy array"):
        read_table(path, key="junk")


def test_members_that_take_much_memory_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.save(tmp_path / "x.npy", VALUES)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        archive.write(tmp_path / "x.npy", "x.npy")
    with pytest.raises(DataError, match=r"a\.npz: x\.npy is compressed with a method that is not"):
        read_table(path)
    np.savez_compressed(path, x=np.zeros(2**24))
    with pytest.raises(DataError, match=r"a\.npz: array 'x' expands to 134,217,856 bytes, more"):
        read_table(path)
