"""Ancestral sampling has the moments that its recursion predicts."""

from itertools import pairwise

import pytest
import torch
from torch import Generator

from fdsm.noise import Geometric
from fdsm.samplers import ancestral_sampling

CHAINS = 40_000


def predicted_variance(variance: float, levels: tuple[float, ...]) -> float:
    """Return the variance before denoising, for Gaussian data, from the discrete recursion."""
    v = variance + levels[0] ** 2
    for here, following in pairwise(levels):
        factor = 1 - (here**2 - following**2) / (variance + here**2)
        v = factor**2 * v + following**2 * (1 - (following / here) ** 2)
    return v


def sample(
    variance: float, count: int, *, denoise: bool
) -> tuple[torch.Tensor, tuple[float, ...]]:
    levels = Geometric(3.0, 0.1, count).levels
    generator = Generator().manual_seed(0)
    start = torch.randn(CHAINS, 1, generator=generator, dtype=torch.float64)
    noisy = lambda x, sigma: -x / (variance + sigma.square())[:, None]
    x = ancestral_sampling(
        noisy, start * (variance + 9) ** 0.5, levels, denoise=denoise, generator=generator
    )
    return x, levels


@pytest.mark.parametrize("variance", [0.04, 1.0, 9.0])
@pytest.mark.parametrize("count", [5, 50])
def test_variance_follows_the_recursion(variance: float, count: int) -> None:
    x, levels = sample(variance, count, denoise=False)
    expected = predicted_variance(variance, levels)
    error = expected * (2 / CHAINS) ** 0.5
    assert abs(x.var().item() - expected) < 5 * error
    assert abs(x.mean().item()) < 5 * (expected / CHAINS) ** 0.5


@pytest.mark.parametrize("variance", [0.04, 1.0, 9.0])
def test_many_levels_give_the_noisy_data_and_denoising_their_conditional_mean(
    variance: float,
) -> None:
    count = 1000
    assert predicted_variance(variance, Geometric(3.0, 0.1, count).levels) == pytest.approx(
        variance + 0.01, rel=0.01
    )
    x, _ = sample(variance, 100, denoise=True)
    noisy, _ = sample(variance, 100, denoise=False)
    torch.testing.assert_close(x, noisy * variance / (variance + 0.01))


def test_levels_must_decrease() -> None:
    with pytest.raises(ValueError, match="levels"):
        ancestral_sampling(lambda x, sigma: -x, torch.zeros(2, 1), (0.1, 0.2))
