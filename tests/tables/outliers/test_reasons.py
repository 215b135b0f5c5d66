"""The columns that make a row unusual, where the wrong value is known."""

import pytest
import torch
from torch import Generator

from fdsm.tables.outliers.reasons import distance_shares

BLOCKS = (slice(0, 1), slice(1, 2), slice(2, 5))
"""Two numeric columns and a category of three levels."""


def test_distance_is_shared_among_columns(generator: Generator) -> None:
    """By loops over the five nearest rows. The inputs of a category are one column."""
    rows, x = (torch.randn(n, 5, generator=generator) for n in (30, 4))
    found, nearest = distance_shares(x, rows, BLOCKS)
    assert found.shape == (4, 3)
    for i in range(4):
        distances = (rows - x[i]).abs()
        order = distances.sum(1).argsort()
        mean = distances[order[:5]].mean(0)
        expected = [mean[0].item(), mean[1].item(), mean[2:].sum().item()]
        assert found[i].tolist() == pytest.approx(expected)
        assert torch.equal(nearest[i], rows[order[0]])


def test_a_training_row_is_not_near_itself(generator: Generator) -> None:
    """Otherwise its own values would be expected. The row occurs twice."""
    rows = torch.randn(30, 5, generator=generator)
    rows[7] = rows[3]
    others = [i for i in range(30) if i not in {3, 7}]
    found, expected = (distance_shares(rows[3:4], r, BLOCKS) for r in (rows, rows[others]))
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b)
