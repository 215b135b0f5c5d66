"""The columns that make a row unusual, where the wrong value is known."""

import pytest
import torch
from torch import Generator, Tensor

from fdsm.tables.outliers import OutlierDetector
from fdsm.tables.outliers.reasons import distance_shares, expected_inputs, score_gains

BLOCKS = (slice(0, 1), slice(1, 2), slice(2, 5))
"""Two numeric columns and a category of three levels."""


def test_expected_value_is_the_median_of_the_rows_that_are_nearest_in_other_columns(
    generator: Generator,
) -> None:
    """By loops, for each row and numeric column."""
    rows = torch.randn(40, 3, generator=generator)
    x = torch.randn(6, 3, generator=generator)
    blocks = [slice(j, j + 1) for j in range(3)]
    found = expected_inputs(x, rows, blocks)
    assert found.shape == (3, 6, 3)
    for i in range(6):
        for j in range(3):
            others = [k for k in range(3) if k != j]
            distance = (rows[:, others] - x[i, others]).abs().sum(1)
            donors = distance.argsort()[:5]
            assert found[j, i, j] == rows[donors, j].median()
            assert torch.equal(found[j, i, others], x[i, others])


def test_expected_category_is_the_most_frequent_one_of_the_nearest_rows() -> None:
    """The nearest five rows have the categories 2, 0, 2, 1, 2. One-hot vectors stay one-hot."""
    categories = torch.eye(3)[[2, 0, 2, 1, 2, 1, 1, 1, 1, 1]]
    numbers = torch.arange(10.0)[:, None]
    rows = torch.cat([numbers, numbers, categories], 1)
    x = torch.cat([torch.tensor([[0.0, 0.0]]), torch.eye(3)[[1]]], 1)
    found = expected_inputs(x, rows, BLOCKS)
    assert found[2, 0].tolist() == [0.0, 0.0, 0.0, 0.0, 1.0]


def test_few_rows_are_all_donors() -> None:
    rows = torch.tensor([[0.0, 10.0], [1.0, 30.0]])
    found = expected_inputs(torch.tensor([[0.2, 99.0]]), rows, [slice(0, 1), slice(1, 2)])
    assert found[1, 0].tolist() == pytest.approx([0.2, 10.0])  # the lower of the two medians


def test_gain_is_the_decrease_of_the_score_and_zero_for_unknown_cells() -> None:
    score = lambda y: y.square().sum(1)
    x = torch.tensor([[3.0, 1.0, -2.0]])
    expected = torch.stack([
        torch.tensor([[0.0, 1.0, -2.0]]),
        torch.tensor([[3.0, 2.0, -2.0]]),  # worse than the value of the row
        torch.tensor([[3.0, 1.0, 0.5]]),
    ])
    known = torch.tensor([[True, True, True]])
    assert score_gains(score, score(x), expected, known).tolist() == [[9.0, 0.0, 3.75]]
    hidden = torch.tensor([[False, True, True]])
    assert score_gains(score, score(x), expected, hidden).tolist() == [[0.0, 0.0, 3.75]]


def correlated(n: int, generator: Generator) -> Tensor:
    """Four columns that are one number plus noise, so each is predicted by the others."""
    common = torch.randn(n, 1, generator=generator)
    return common + 0.1 * torch.randn(n, 4, generator=generator)


def test_wrong_value_in_one_of_correlated_columns_has_the_largest_gain(
    generator: Generator,
) -> None:
    """The value is not unusual alone: only the relation to the other columns is wrong."""
    rows = correlated(500, generator)
    covariance = torch.ones(4, 4) + 0.01 * torch.eye(4)
    log_density = lambda x: -torch.einsum("kni,ij,knj->kn", x, covariance.inverse(), x)[None]
    detector = OutlierDetector.fit(log_density, rows, torch.arange(500) % 4, rows)
    x = correlated(40, generator)
    wrong = torch.arange(40) % 4
    truth = x[torch.arange(40), wrong].clone()
    x[torch.arange(40), wrong] += torch.where(truth > 0, -1.5, 1.5)
    blocks = [slice(j, j + 1) for j in range(4)]
    expected = expected_inputs(x, rows, blocks)
    score = lambda y: detector.calibration.score(detector.measures(log_density, y))
    gains = score_gains(score, score(x), expected, torch.ones(40, 4).bool())
    assert torch.equal(gains.argmax(1), wrong)
    repaired = expected[wrong, torch.arange(40), wrong]
    assert (repaired - truth).abs().median() < 0.2
    assert (repaired - truth).abs().quantile(0.9) < 0.4  # the distance was 1.5


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
