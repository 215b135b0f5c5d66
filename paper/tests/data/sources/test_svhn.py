"""Tests of SVHN and its MATLAB files. The reference is scipy."""

from pathlib import Path

import numpy as np
import pytest
import torch

from paper.data import SVHN, DataError
from paper.data.sources.svhn import parse_images, parse_mat

from .. import file_cases
from ..conftest import Home

scipy_io = pytest.importorskip("scipy.io")


def write(path: Path, n: int, seed: int = 0) -> tuple[file_cases.Bytes, list[int]]:
    path.parent.mkdir(parents=True, exist_ok=True)
    x, y = file_cases.random_bytes(32, 32, 3, n, seed=seed), [1 + i % 10 for i in range(n)]
    scipy_io.savemat(path, {"X": x, "y": np.array(y, np.uint8)[:, None]}, do_compression=True)
    return x, y


@pytest.mark.parametrize("packed", [False, True])
def test_arrays_written_by_scipy_are_read(tmp_path: Path, packed: bool) -> None:
    kinds = ["i1", "u1", "i2", "u2", "i4", "u4", "f4", "f8", "i8", "u8"]
    arrays = {kind: file_cases.random_bytes(3, 4, 5).astype(kind) for kind in kinds}
    arrays |= {"a_long_name_of_an_array": np.ones((1, 2), np.uint8), "none": np.ones((0, 2))}
    others = {"text": "words", "structure": {"a": 1}, "cell": np.array([1, "a"], object)}
    path = tmp_path / "a.mat"
    scipy_io.savemat(path, arrays | others, do_compression=packed)
    found = parse_mat(path.read_bytes())
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        assert np.array_equal(found[name], array)


def test_the_official_files_are_read(home: Home) -> None:
    write(home.data / "svhn" / "train_32x32.mat", 30)
    x, y = write(home.data / "svhn" / "test_32x32.mat", 12, seed=1)
    data = SVHN().load()
    assert data.record["rows"] == {"train": 27, "validation": 3, "test": 12}
    assert data.test.shape == (12, 3, 32, 32)
    assert int(data.test[5, 2, 10, 20]) == x[10, 20, 2, 5]
    assert data.labels is not None
    assert data.labels[2].tolist() == [label % 10 for label in y]


def test_a_single_file_is_split_and_recorded(home: Home) -> None:
    x, _ = write(home.data / "svhn" / "some.mat", 20)
    data = SVHN(part="some.mat").load()
    assert data.record["rows"] == {"train": 16, "validation": 2, "test": 2}
    assert data.record["parts"] == ["the 20 images of some.mat, split at random"]
    assert data.labels is not None
    together = torch.cat([data.train, data.validation, data.test])
    labels = torch.cat(data.labels)
    for image, label in zip(together, labels, strict=True):
        i = int((label - 1) % 10)
        candidates = [torch.from_numpy(x[..., j].transpose(2, 0, 1)) for j in (i, i + 10)]
        assert any(torch.equal(image, candidate) for candidate in candidates)


def test_damaged_files_raise(tmp_path: Path) -> None:
    path = tmp_path / "a.mat"
    write(path, 3)
    whole = path.read_bytes()
    cut = [whole[:end] for end in (0, 6, 100, 130, 140, 1000, len(whole) - 1)]
    for content in (*cut, b"<html>" * 100, whole[:400] + bytes(50) + whole[450:]):
        with pytest.raises(DataError, match=r"a\.mat is not a readable MATLAB file"):
            parse_images(content, path)


def test_a_changed_byte_raises_or_is_read_but_never_crashes(tmp_path: Path) -> None:
    path = tmp_path / "a.mat"
    scipy_io.savemat(path, {"X": file_cases.random_bytes(32, 32, 3, 1), "y": np.ones((1, 1))})
    whole, rng = path.read_bytes(), np.random.default_rng(0)
    for position in [*range(100, 220), *rng.integers(0, len(whole), 50)]:
        for value in (0, 1, 127, 255):
            content = bytearray(whole)
            content[position] = value
            try:
                images, labels = parse_images(bytes(content), path)
            except DataError:
                continue
            assert images.shape == (1, 3, 32, 32)
            assert labels.shape == (1,)


def test_other_arrays_raise(tmp_path: Path) -> None:
    path = tmp_path / "a.mat"
    scipy_io.savemat(path, {"X": np.zeros((3, 3)), "y": np.zeros(3)})
    with pytest.raises(DataError, match=r"'X': 'float64 \(3, 3\)'"):
        parse_images(path.read_bytes(), path)
    scipy_io.savemat(path, {"Z": np.zeros(3)})
    with pytest.raises(DataError, match="expected X, bytes"):
        parse_images(path.read_bytes(), path)


def test_the_real_file_is_read_as_by_scipy(real: Path) -> None:
    file_cases.require_real(real, "svhn/test_32x32_part10000.mat")
    found = parse_mat((real / "svhn" / "test_32x32_part10000.mat").read_bytes())
    expected = scipy_io.loadmat(real / "svhn" / "test_32x32_part10000.mat")
    assert all(np.array_equal(found[name], expected[name]) for name in ("X", "y"))
    data = SVHN(part="test_32x32_part10000.mat").load()
    assert data.record["rows"] == {"train": 8_000, "validation": 1_000, "test": 1_000}
    assert data.labels is not None
    assert torch.cat(data.labels).bincount().argmax() == 1  # the most frequent digit
