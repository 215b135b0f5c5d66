"""What is inside a data set once it is loaded."""

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from fdsm.data import (
    CIFAR10,
    MNIST,
    SVHN,
    Affine,
    Array,
    CelebA,
    Chain,
    Digits,
    FashionMNIST,
    GaussianRing,
    ImageArray,
    ImageFolder,
    Pad,
    Parkinsons,
    RedWine,
    Source,
    SyntheticData,
    Table,
    ToFloat,
    WhiteWine,
)
from fdsm.serialize import to_json

SOURCES: list[Source] = [
    Array("a.npy"), CIFAR10(), CelebA(), Digits(), FashionMNIST(), ImageArray("a.npy"),
    ImageFolder("a"), MNIST(), Parkinsons(), RedWine(), SVHN(), Table("a.csv"),
    SyntheticData(GaussianRing()), WhiteWine(),
]  # fmt: skip


@pytest.mark.parametrize("source", SOURCES, ids=lambda s: type(s).__name__)
def test_sources_can_be_recorded_compared_and_changed(source: Source) -> None:
    record = to_json(source)
    assert isinstance(record, dict)
    assert record["class"] == type(source).__name__
    assert "transform" in record
    assert source == replace(source)  # type: ignore[type-var]
    assert source != replace(source, transform=Affine(3.0))  # type: ignore[type-var]
    assert hash(source) == hash(replace(source))  # type: ignore[type-var]


def test_digits_are_levels_up_to_sixteen() -> None:
    data = Digits().load()
    rows = torch.cat([data.train, data.validation, data.test])
    assert rows.shape == (1797, 1, 8, 8)
    assert rows.dtype == torch.uint8
    assert (int(rows.min()), int(rows.max())) == (0, 16)
    assert data.labels is not None
    # Counts of the classes in the description of the data set.
    counts = [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    assert torch.cat(data.labels).bincount().tolist() == counts
    y = data.transform.deterministic(rows)
    assert 0 < y.min() < y.max() < 1


def test_digits_and_labels_belong_together() -> None:
    datasets = pytest.importorskip("sklearn.datasets")
    found = datasets.load_digits()
    known = {
        image.tobytes(): label for image, label in zip(found.images, found.target, strict=True)
    }
    data = Digits(seed=3).load()
    assert data.labels is not None
    for row, label in zip(data.test.double(), data.labels[2], strict=True):
        assert known[row[0].numpy().tobytes()] == label


def test_samples_become_stored_rows_again() -> None:
    data = Digits(transform=Chain((ToFloat(16), Pad(12), Affine(2.0, -1.0)))).load()
    assert data.shape == (1, 12, 12)
    y = data.transform.deterministic(data.test)
    assert torch.equal(data.stored(y), data.test)
    assert data.stored(y + 100).unique().tolist() == [16]
    assert data.stored(y - 100).unique().tolist() == [0]
    table = SyntheticData(GaussianRing(), 20).load()
    assert torch.equal(table.stored(table.test), table.test)


@pytest.mark.parametrize(
    ("read", "package", "extra"),
    [
        (Digits().load, "sklearn.datasets", "digits"),
        (Table("a.parquet").rows, "pyarrow", "parquet"),
    ],
)
def test_a_missing_package_is_named(
    read: Callable[[], object],
    package: str,
    extra: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    (tmp_path / "a.parquet").write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ImportError, match=rf"pip install 'fdsm\[{extra}\]'"):
        read()
