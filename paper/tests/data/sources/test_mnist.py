"""Tests of MNIST, Fashion-MNIST and the idx format."""

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
import torch

from paper.data import MNIST, DataError, FashionMNIST, Source
from paper.data.sources.mnist import parse_idx

from .. import file_cases
from ..conftest import Home

TRAIN = "train-images-idx3-ubyte"


@pytest.mark.parametrize(
    ("source", "folder"),
    [
        (MNIST(), "mnist"),
        (MNIST(), "MNIST/raw"),
        (FashionMNIST(), "fashion_mnist"),
        (FashionMNIST(), "FashionMNIST/raw"),
    ],
)
def test_images_and_labels_are_read_and_split(home: Home, source: Source, folder: str) -> None:
    arrays = file_cases.write_mnist(home.data / folder)
    data = source.load()
    order = np.random.RandomState(2020).permutation(30)
    images, labels = torch.from_numpy(arrays[TRAIN]), arrays["train-labels-idx1-ubyte"]
    assert data.labels is not None
    assert torch.equal(data.train[:, 0], images[order[:27]])
    assert torch.equal(data.validation[:, 0], images[order[27:]])
    assert data.labels[0].tolist() == labels[order[:27]].tolist()
    assert data.labels[1].tolist() == labels[order[27:]].tolist()
    assert torch.equal(data.test[:, 0], torch.from_numpy(arrays["t10k-images-idx3-ubyte"]))
    assert data.labels[2].tolist() == arrays["t10k-labels-idx1-ubyte"].tolist()
    assert data.shape == (1, 28, 28)
    assert data.record["rows"] == {"train": 27, "validation": 3, "test": 10}
    assert isinstance(files := data.record["files"], list)
    assert [file["official"] for file in files] == [False] * 4


def test_decompressed_files_are_read(home: Home) -> None:
    arrays = file_cases.write_mnist(home.data / "mnist")
    for path in list((home.data / "mnist").iterdir()):
        path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
        path.unlink()
    data = MNIST(validation=0.0).load()
    assert len(data.validation) == 0
    assert sorted(data.train.sum((1, 2, 3)).tolist()) == sorted(arrays[TRAIN].sum((1, 2)).tolist())


def test_different_numbers_of_images_and_labels_raise(home: Home) -> None:
    file_cases.write_mnist(home.data / "mnist")
    path = home.data / "mnist" / "train-labels-idx1-ubyte.gz"
    path.write_bytes(gzip.compress(file_cases.idx(file_cases.random_bytes(29))))
    with pytest.raises(DataError, match=r"has 30 images, but .* has 29 labels"):
        MNIST().load()


def header(n: int, height: int = 28, magic: bytes = b"\0\0\x08\x03") -> bytes:
    return magic + struct.pack(">3I", n, height, 28)


WHOLE = file_cases.idx(file_cases.random_bytes(4, 28, 28))
DAMAGED = {
    "empty": (b"", "starts with '', expected '00000803'"),
    "text": (b"<html>404</html>", "starts with '3c68746d'"),
    "labels": (file_cases.idx(file_cases.random_bytes(9)), "starts with '00000801'"),
    "header": (WHOLE[:9], "ends within its header"),
    "short": (WHOLE[:-1], "its header gives 3,136 bytes, but it has only 3,135"),
    "long": (WHOLE + b"\0", "its header gives 3,136 bytes, but it has more"),
    "size": (header(4, 27) + WHOLE[16:], r"4 rows of shape \(27, 28\), expected \(28, 28\)"),
    "huge": (header(2**32 - 1), "has 4,294,967,295 rows"),
    "cut": (gzip.compress(WHOLE)[:-20], "is damaged: Compressed file ended"),
    "flipped": (gzip.compress(WHOLE, 0)[:-9] + b"\x55" + gzip.compress(WHOLE, 0)[-8:], "CRC"),
    "bomb": (gzip.compress(header(4) + bytes(50_000_000)), "but it has more"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_files_raise(tmp_path: Path, name: str) -> None:
    content, message = DAMAGED[name]
    path = tmp_path / "file"
    with pytest.raises(DataError, match=message) as caught:
        parse_idx(content, path, (28, 28))
    assert str(path) in str(caught.value)


def test_the_error_of_a_damaged_file_says_where_to_get_it(home: Home) -> None:
    file_cases.write_mnist(home.data / "mnist")
    path = home.data / "mnist" / f"{TRAIN}.gz"
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(
        DataError, match=f"Delete {path} to download it again.*https://.*{TRAIN}.gz"
    ):
        MNIST().load()
    assert path.stat().st_size == 1000


@pytest.mark.parametrize(
    ("source", "folder", "mean"),
    [(MNIST(), "mnist", 0.1307), (FashionMNIST(), "fashion_mnist", 0.2860)],
)
def test_the_real_images_have_the_known_mean(
    real: Path, source: Source, folder: str, mean: float
) -> None:
    file_cases.require_real(real, folder)
    data = source.load()
    assert data.record["rows"] == {"train": 54_000, "validation": 6_000, "test": 10_000}
    assert isinstance(files := data.record["files"], list)
    assert all(file["official"] for file in files)
    images = torch.cat([data.train, data.validation])
    assert images.float().mean().item() / 255 == pytest.approx(mean, abs=1e-4)
