"""The published files, where they are at hand: FDSM_DATA names their folder."""

import hashlib
import pickle
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from fdsm.data import CIFAR10, MNIST, SVHN, CelebA, FashionMNIST, ImageFolder, Source
from fdsm.data.formats.mat import read_mat
from fdsm.data.sources.cifar10 import parsed


def need(folder: Path, *names: str) -> None:
    for name in names:
        if not (folder / name).exists():
            pytest.skip(f"there is no {name}")


@pytest.mark.parametrize(
    ("source", "folder", "mean"),
    [(MNIST(), "mnist", 0.1307), (FashionMNIST(), "fashion_mnist", 0.2860)],
)
def test_the_mnists_have_their_known_mean(
    real: Path, source: Source, folder: str, mean: float
) -> None:
    need(real, folder)
    data = source.load()
    assert data.record["rows"] == {"train": 54_000, "validation": 6_000, "test": 10_000}
    assert isinstance(files := data.record["files"], list)
    assert all(file["official"] for file in files)
    images = torch.cat([data.train, data.validation])
    assert images.float().mean().item() / 255 == pytest.approx(mean, abs=1e-4)


def test_official_batches_are_read_as_python_reads_them(real: Path) -> None:
    need(real, "cifar-10-batches-py/test_batch")
    content = (real / "cifar-10-batches-py" / "test_batch").read_bytes()
    assert hashlib.md5(content).hexdigest() == "40351d587109b95175f43aff81a1287e"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = pickle.loads(content, encoding="latin1")
    images, labels = parsed(content, "test_batch")
    assert torch.equal(images.flatten(1), torch.from_numpy(expected["data"].copy()))
    assert labels.tolist() == expected["labels"]
    data = CIFAR10(batches=(1,)).load()
    assert data.record["rows"] == {"train": 9_000, "validation": 1_000, "test": 10_000}


def test_a_part_of_svhn_is_read(real: Path) -> None:
    need(real, "svhn/test_32x32_part10000.mat")
    found = read_mat(real / "svhn" / "test_32x32_part10000.mat")
    expected = pytest.importorskip("scipy.io").loadmat(real / "svhn" / "test_32x32_part10000.mat")
    assert all(np.array_equal(found[name], expected[name]) for name in ("X", "y"))
    data = SVHN(part="test_32x32_part10000.mat").load()
    assert data.record["rows"] == {"train": 8_000, "validation": 1_000, "test": 1_000}
    assert data.labels is not None
    assert torch.cat(data.labels).bincount().argmax() == 1  # the most frequent digit


def test_a_part_of_celeba_is_read(real: Path) -> None:
    need(real, "celeba/img_align_celeba_part.zip")
    data = CelebA(
        part="img_align_celeba_part.zip", limit=60, partition="list_eval_partition_part.txt"
    ).load()
    assert data.shape == (3, 64, 64)
    assert len(data.train) + len(data.validation) + len(data.test) == 60
    # Faces are redder than they are blue.
    red, _, blue = data.train.float().mean((0, 2, 3)).tolist()
    assert red > blue + 20


def test_tiny_imagenet_is_read_in_colour(real: Path) -> None:
    need(real, "tiny-imagenet/tiny-imagenet-200-val.zip")
    source = ImageFolder("tiny-imagenet/tiny-imagenet-200-val.zip", limit=100)
    assert len(source.names()) == 10_000
    data = source.load()
    assert data.train.shape == (80, 3, 32, 32)
    assert data.record["parts"] == ["100 of 10,000 images"]
