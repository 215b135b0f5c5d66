"""Tests of arrays in numpy's formats."""

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch

from paper.data import Array, DataError, ImageArray
from paper.data.files.arrays import MAX_HEADER, read_ndim

from .. import file_cases

VALUES = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)


def test_arrays_are_tables(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", VALUES)
    np.savez(tmp_path / "one.npz", x=VALUES)
    np.savez_compressed(tmp_path / "two.npz", x=VALUES, y=VALUES[:3])
    order = np.random.RandomState(0).permutation(40)
    for path, key in (("a.npy", None), ("one.npz", None), ("two.npz", "x")):
        data = Array(tmp_path / path, key).load()
        assert torch.equal(data.train, torch.from_numpy(VALUES[order[:32]]).double())
        assert data.columns == ["0", "1", "2"]
        assert data.record["rows"] == {"train": 32, "validation": 4, "test": 4}
    with pytest.raises(DataError, match=r"has the arrays 'x', 'y'\. Select one with key=\.\.\."):
        Array(tmp_path / "two.npz").load()
    with pytest.raises(DataError, match=r"'x', 'y', but not 'z'\. Select one"):
        Array(tmp_path / "two.npz", "z").load()


def test_columns_of_arrays_may_be_categorical_or_ignored(tmp_path: Path) -> None:
    values = np.stack([np.arange(40) ** 2, np.arange(40) % 3, VALUES[:, 0]], 1)
    np.save(tmp_path / "a.npy", values)
    data = Array(tmp_path / "a.npy", categorical=("1",), ignore=("0",)).load()
    assert data.schema is not None
    assert (data.columns, data.schema.num_levels) == (["1", "2"], (3, 0))


def test_new_arrays_are_read_with_the_schema(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", VALUES)
    schema = Array(tmp_path / "a.npy").load().schema
    new = np.array([[1.0, np.nan, 3.0], [np.inf, 2.0, 3.0]])
    np.save(tmp_path / "new.npy", new)
    codes, problems, frame = Array(tmp_path / "new.npy", schema=schema).read_codes()
    np.testing.assert_array_equal(codes, [[1, np.nan, 3], [np.nan, 2, 3]])
    assert problems == {1: [("0", "'inf' is too large a number")]}
    assert frame.column_names == ["0", "1", "2"]
    with pytest.raises(ValueError, match="Array has no schema"):
        Array(tmp_path / "new.npy").read_codes()
    np.save(tmp_path / "new.npy", new[:, :2])
    with pytest.raises(DataError, match=r"(?s)new\.npy: the columns differ.*'2' is missing"):
        Array(tmp_path / "new.npy", schema=schema).read_codes()


def test_all_types_of_images_are_converted_to_bytes(tmp_path: Path) -> None:
    path, levels = tmp_path / "a.npy", file_cases.random_bytes(20, 3, 8, 6)
    forms = {
        "bytes": levels,
        "integers": levels.astype(np.int64),
        "floats": levels / 255,
        "float32": (levels / 255).astype(np.float32),
    }
    for form in forms.values():
        np.save(path, form)
        rows = ImageArray(path).rows()
        assert rows.dtype == torch.uint8
        assert torch.equal(rows, torch.from_numpy(levels))
    np.save(path, levels[:, 0])
    assert torch.equal(ImageArray(path).rows(), torch.from_numpy(levels[:, :1]))
    assert ImageArray(path).load().record["rows"] == {"train": 16, "validation": 2, "test": 2}
    between = np.random.default_rng(0).uniform(size=(20, 4, 4))
    np.save(path, between)
    rows = ImageArray(path).rows()
    torch.testing.assert_close(
        rows[:, 0].double(), torch.from_numpy(255 * between), rtol=1e-6, atol=0
    )


def test_unusable_arrays_raise(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"

    def assert_refuses(value: np.ndarray, message: str, source: type = Array) -> None:
        np.save(path, value, allow_pickle=True)
        with pytest.raises(DataError, match=message):
            source(path).load()

    assert_refuses(np.array([{}, "x"], object), "numbers and not as objects")
    assert_refuses(np.array(["a", "b"]), "has the type <U1, but real numbers are needed")
    assert_refuses(np.ones((20, 2)) + 1j, "has the type complex128")
    assert_refuses(np.ones(20), r"shape \(20,\), but Array needs \(N, C\)")
    assert_refuses(np.full((20, 2), np.nan), r"no column can be used: 2 empty \(0, 1\)")
    assert_refuses(np.ones((20, 2)), r"no column can be used: 2 constant \(0, 1\)")
    assert_refuses(np.ones((20, 2)), r"shape \(20, 2\), but ImageArray needs", ImageArray)
    assert_refuses(np.ones((20, 8, 8, 3)), r"Put the channels first: x\.transpose", ImageArray)
    assert_refuses(np.full((20, 8, 8), 1.5), "from 1.5 to 1.5, but images need", ImageArray)
    assert_refuses(np.full((20, 8, 8), -1), "int64 values from -1 to -1", ImageArray)
    assert_refuses(np.full((20, 8, 8), np.nan), "from nan to nan", ImageArray)
    assert_refuses(np.ones((20, 8, 8), np.uint8), "Save images of 0 and 1 as floating", ImageArray)
    assert_refuses(
        file_cases.random_bytes(9, 8, 8), "has 9 images, but at least 10 are needed", ImageArray
    )


def test_damaged_arrays_raise(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", VALUES)
    np.savez(tmp_path / "a.npz", VALUES)
    for name in ("a.npy", "a.npz"):
        path = tmp_path / name
        whole = path.read_bytes()
        for content in (b"", b"<html>", whole[:-100], whole[:50]):
            path.write_bytes(content)
            with pytest.raises(DataError, match="cannot be read as a numpy array"):
                Array(path).load()


def test_the_number_of_dimensions_is_read_from_the_header(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((2, 3, 4)))
    np.savez_compressed(tmp_path / "a.npz", x=np.zeros(3), y=np.zeros((2, 2)))
    assert read_ndim(tmp_path / "a.npy") == 3
    assert read_ndim(tmp_path / "a.npz", "x") == 1
    assert read_ndim(tmp_path / "a.npz", "y") == 2
    (tmp_path / "a.npy").write_bytes((tmp_path / "a.npy").read_bytes()[:128])
    assert read_ndim(tmp_path / "a.npy") == 3


def test_declared_length_of_a_header_is_not_allocated(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.zeros((4, 3)))
    content = path.read_bytes()
    path.write_bytes(content[:6] + b"\x02\x00" + b"\xff" * 4 + content[12:])
    tracemalloc.start()
    with pytest.raises(DataError, match=r"x\.npy cannot be read as a numpy array"):
        read_ndim(path)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 10 * MAX_HEADER
