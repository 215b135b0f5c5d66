"""Tests of the digits of scikit-learn."""

import pytest
import torch

from paper.data import Digits


def test_digits_are_integers_from_0_to_16() -> None:
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


def test_labels_are_those_of_the_images() -> None:
    datasets = pytest.importorskip("sklearn.datasets")
    found = datasets.load_digits()
    known = {
        image.tobytes(): label for image, label in zip(found.images, found.target, strict=True)
    }
    data = Digits(seed=3).load()
    assert data.labels is not None
    for row, label in zip(data.test.double(), data.labels[2], strict=True):
        assert known[row[0].numpy().tobytes()] == label
