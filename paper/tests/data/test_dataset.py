"""Tests of data sets and sources."""

import subprocess
import sys
from dataclasses import replace

import pytest
import torch

import paper
from fdsm.serialize import from_json, to_json
from paper.data import (
    CIFAR10,
    MNIST,
    SVHN,
    Affine,
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
    ToFloat,
    WhiteWine,
)

SOURCES: list[Source] = [
    CIFAR10(), CelebA(), Digits(), FashionMNIST(), ImageArray("a.npy"),
    ImageFolder("a"), MNIST(), Parkinsons(), RedWine(), SVHN(),
    SyntheticData(GaussianRing()), WhiteWine(),
]  # fmt: skip


@pytest.mark.parametrize("source", SOURCES, ids=lambda s: type(s).__name__)
def test_sources_can_be_serialized_compared_and_changed(source: Source) -> None:
    record = to_json(source)
    assert isinstance(record, dict)
    assert record["class"] == f"paper.data.{type(source).__name__}"
    assert from_json(record, paper) == source
    assert "transform" in record
    assert source == replace(source)  # type: ignore[type-var]
    assert source != replace(source, transform=Affine(3.0))  # type: ignore[type-var]
    assert hash(source) == hash(replace(source))  # type: ignore[type-var]


def test_inverse_transform_restores_the_stored_rows() -> None:
    data = Digits(transform=Chain((ToFloat(16), Pad(12), Affine(2.0, -1.0)))).load()
    assert data.shape == (1, 12, 12)
    y = data.transform.deterministic(data.test)
    assert torch.equal(data.inverse_transform(y), data.test)
    assert data.inverse_transform(y + 100).unique().tolist() == [16]
    assert data.inverse_transform(y - 100).unique().tolist() == [0]
    table = SyntheticData(GaussianRing(), 20).load()
    assert torch.equal(table.inverse_transform(table.test), table.test)


def test_importing_the_data_sets_does_not_load_pyarrow() -> None:
    code = "import paper.data, sys; print([name for name in sys.modules if 'pyarrow' in name])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
