"""Known densities are what they say they are."""

import math

import pytest
import torch
from torch import Generator

from fdsm.data import GaussianRing
from fdsm.derivatives import score_of

RING = GaussianRing()


def test_the_score_is_the_gradient_of_the_log_density(generator: Generator) -> None:
    x = 3 * torch.randn(100, 2, generator=generator)
    torch.testing.assert_close(RING.score(x), score_of(RING.log_density)(x))


def test_the_density_integrates_to_one() -> None:
    axis = torch.linspace(-5, 5, 401)
    density = RING.log_density(torch.cartesian_prod(axis, axis)).exp()
    assert density.sum() * (axis[1] - axis[0]) ** 2 == pytest.approx(1, abs=1e-8)


def test_the_samples_have_the_moments_of_the_density(generator: Generator) -> None:
    n = 100_000
    x = RING.sample(n, generator).double()
    variance = RING.radius**2 / 2 + RING.scale**2
    error = math.sqrt(variance / n)
    assert (x.mean(0).abs() < 5 * error).all()
    expected = variance * torch.eye(2)
    torch.testing.assert_close(
        x.T.cov(), expected, rtol=0, atol=5 * math.sqrt(2) * variance / n**0.5
    )
    distance, mode = torch.cdist(x, RING.means(x)).min(1)
    share = 1 / RING.modes
    assert (mode.bincount() / n - share).abs().max() < 5 * math.sqrt(share * (1 - share) / n)
    assert distance.square().mean() == pytest.approx(2 * RING.scale**2, rel=0.03)
