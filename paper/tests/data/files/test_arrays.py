"""Tests of arrays in numpy's formats."""

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch

from paper.data import DataError, ImageArray
from paper.data.files.arrays import MAX_HEADER

from .. import file_cases


def test_arrays_are_read_from_npy_and_npz(tmp_path: Path) -> None:
    images = file_cases.random_bytes(40, 4, 4)
    np.save(tmp_path / "a.npy", images)
    np.savez(tmp_path / "one.npz", x=images)
    np.savez_compressed(tmp_path / "two.npz", x=images, y=images[:3])
    order = np.random.RandomState(0).permutation(40)
    for path, key in (("a.npy", None), ("one.npz", None), ("two.npz", "x")):
        data = ImageArray(tmp_path / path, key).load()
        assert torch.equal(data.train[:, 0], torch.from_numpy(images[order[:32]]))
        assert data.record["rows"] == {"train": 32, "validation": 4, "test": 4}
    with pytest.raises(DataError, match=r"has the arrays 'x', 'y'\. Select one with key=\.\.\."):
        ImageArray(tmp_path / "two.npz").load()
    with pytest.raises(DataError, match=r"'x', 'y', but not 'z'\. Select one"):
        ImageArray(tmp_path / "two.npz", "z").load()


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

    def assert_refuses(value: np.ndarray, message: str) -> None:
        np.save(path, value, allow_pickle=True)
        with pytest.raises(DataError, match=message):
            ImageArray(path).load()

    assert_refuses(np.array([{}, "x"], object), "numbers and not as objects")
    assert_refuses(np.array(["a", "b"]), "has the type <U1, but real numbers are needed")
    assert_refuses(np.ones((20, 2)) + 1j, "has the type complex128")
    assert_refuses(np.ones((20, 2)), r"shape \(20, 2\), but ImageArray needs")
    assert_refuses(np.ones((20, 8, 8, 3)), r"Put the channels first: x\.transpose")
    assert_refuses(np.full((20, 8, 8), 1.5), "from 1.5 to 1.5, but images need")
    assert_refuses(np.full((20, 8, 8), -1), "int64 values from -1 to -1")
    assert_refuses(np.full((20, 8, 8), np.nan), "from nan to nan")
    assert_refuses(np.ones((20, 8, 8), np.uint8), "Save images of 0 and 1 as floating")
    assert_refuses(
        file_cases.random_bytes(9, 8, 8),
        "has 9 images, but at least 10 are needed",
    )


def test_damaged_arrays_raise(tmp_path: Path) -> None:
    values = file_cases.random_bytes(20, 8, 8)
    np.save(tmp_path / "a.npy", values)
    np.savez(tmp_path / "a.npz", values)
    for name in ("a.npy", "a.npz"):
        path = tmp_path / name
        whole = path.read_bytes()
        for content in (b"", b"<html>", whole[:-100], whole[:50]):
            path.write_bytes(content)
            with pytest.raises(DataError, match="cannot be read as a numpy array"):
                ImageArray(path).load()


def test_declared_length_of_a_header_is_not_allocated(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.zeros((4, 3)))
    content = path.read_bytes()
    path.write_bytes(content[:6] + b"\x02\x00" + b"\xff" * 4 + content[12:])
    tracemalloc.start()
    with pytest.raises(DataError, match=r"x\.npy cannot be read as a numpy array"):
        ImageArray(path).load()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 10 * MAX_HEADER
