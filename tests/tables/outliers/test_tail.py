"""Tail probabilities against order statistics and known laws."""

import math

import pytest
import torch
from torch import Generator, Tensor

from fdsm.tables.outliers.tail import POINTS, UpperTails


def probability(sample: Tensor, z: Tensor) -> Tensor:
    """Return the estimate of P(Z ≥ z) from a sample."""
    return 10 ** UpperTails.fit([sample]).log10(z[:, None])[:, 0]


def test_probability_of_a_value_of_the_sample_is_its_rank(generator: Generator) -> None:
    """The i-th largest of n values has the probability i / (n + 1)."""
    sample = torch.randn(300, generator=generator).double()
    expected = torch.tensor([float((sample >= z).sum()) / 301 for z in sample])
    torch.testing.assert_close(probability(sample, sample).float(), expected.float())


def test_logarithm_is_linear_between_values() -> None:
    sample = torch.tensor([0.0, 1.0, 3.0, 10.0])
    z = torch.tensor([0.5, 2.5, 4.4])
    expected = [(0.8 * 0.6) ** 0.5, 0.6**0.25 * 0.4**0.75, 0.4**0.8 * 0.2**0.2]
    assert probability(sample, z).tolist() == pytest.approx(expected)


def test_values_below_the_sample_are_as_likely_as_the_smallest() -> None:
    sample = torch.arange(9.0)
    assert probability(sample, torch.tensor([-1.0, -1e9])).tolist() == pytest.approx([0.9, 0.9])


@pytest.mark.parametrize(("n", "error"), [(500, 0.1), (5000, 0.01)])
def test_tail_beyond_an_exponential_sample_is_exponential(n: int, error: float) -> None:
    """P(Z ≥ z) = exp(-z). The sample has the quantiles i / (n + 1) of the law."""
    sample = -(torch.arange(1, n + 1).double() / (n + 1)).log()
    z = torch.tensor([1.0, 3.0, 12.0, 30.0])
    log = UpperTails.fit([sample]).log10(z[:, None])[:, 0] * math.log(10)
    torch.testing.assert_close(log, -z.double(), rtol=error, atol=0)


def test_slope_beyond_the_sample_is_the_mean_excess_of_the_largest_tenth(
    generator: Generator,
) -> None:
    sample = torch.rand(200, generator=generator).double().square()
    largest = sample.sort(descending=True).values[:20]
    excess = (largest - largest[-1]).mean()
    z = sample.max() + torch.tensor([0.01, 0.5, 4.0]).double()
    expected = torch.exp(-(z - sample.max()) / excess) / 201
    torch.testing.assert_close(probability(sample, z), expected)


def test_the_largest_values_of_a_large_sample_are_kept_exactly(generator: Generator) -> None:
    """Thinning keeps every one of the 100 largest of a million, and the others to 0.5 %."""
    n = 1_000_000
    sample = torch.randn(n, generator=generator).double()
    tails, ordered = UpperTails.fit([sample]), sample.sort(descending=True).values
    assert tails.values.shape == (1, POINTS)
    assert set(ordered[:100].tolist()) <= set(tails.values[0].tolist())
    ranks = torch.tensor([1, 2, 10, 100, 1000, 31_417, 500_000, n])
    found = 10 ** tails.log10(ordered[ranks - 1][:, None])[:, 0]
    expected = ranks.double() / (n + 1)
    torch.testing.assert_close(found[:4], expected[:4], rtol=1e-9, atol=0)
    torch.testing.assert_close(found, expected, rtol=5e-3, atol=0)


@pytest.mark.parametrize("n", [100, 50_000])
def test_equal_values_have_the_probability_of_all_of_them(n: int) -> None:
    """A tenth of the values are 3, half are 2 and the others 1, also if the sample is thinned."""
    sample = torch.tensor([3.0] * (n // 10) + [2.0] * (n // 2) + [1.0] * (2 * n // 5))
    p = probability(sample, torch.tensor([1.0, 2.0, 3.0]))
    torch.testing.assert_close(p * (n + 1), torch.tensor([n, 0.6 * n, 0.1 * n]).double())
    between = probability(sample, torch.tensor([2.5]))
    assert between.item() == pytest.approx((0.06 * n * n) ** 0.5 / (n + 1))
    beyond = 0.1 * n / (n + 1) * math.exp(-0.1 / 0.01)  # the smallest mean excess
    assert probability(sample, torch.tensor([3.1])).item() == pytest.approx(beyond, rel=1e-4)


def test_a_constant_sample_has_no_tail() -> None:
    p = probability(torch.full((20,), 7.0), torch.tensor([6.9, 7.0, 8.0]))
    assert p.tolist() == pytest.approx([20 / 21, 20 / 21, 0.0])


def test_variables_have_their_own_tails_and_missing_values_stay(generator: Generator) -> None:
    first, second = torch.randn(40, generator=generator), torch.rand(90, generator=generator)
    z = torch.tensor([[0.1, 0.2], [3.0, torch.nan]])
    together = UpperTails.fit([first, second]).log10(z)
    torch.testing.assert_close(together[:, 0], UpperTails.fit([first]).log10(z[:, :1])[:, 0])
    torch.testing.assert_close(
        together[:, 1], UpperTails.fit([second]).log10(z[:, 1:])[:, 0], equal_nan=True
    )
    assert together.isnan().tolist() == [[False, False], [False, True]]
