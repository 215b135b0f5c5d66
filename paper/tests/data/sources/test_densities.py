"""Tests of known densities against numerical integration and automatic differentiation."""

import math

import pytest
import torch
from torch import Generator

from fdsm.derivatives import score_of
from paper.data import (
    GaussianDensity,
    GaussianMixtureDensity,
    GaussianRing,
    KnownDensity,
    spiral,
)

COVARIANCE = ((2.0, 0.6), (0.6, 0.5))
DENSITIES: dict[str, KnownDensity] = {
    "gaussian": GaussianDensity((0.5, -1.0), COVARIANCE),
    "mixture": GaussianMixtureDensity(((0.0, 1.0), (-2.0, 0.5)), (0.4, 0.8), (0.3, 0.7)),
    "ring": GaussianRing(),
    "spiral": spiral(points=30),
}
RING = GaussianRing()


@pytest.mark.parametrize("name", DENSITIES)
def test_the_score_is_the_gradient_of_the_log_density(name: str, generator: Generator) -> None:
    density = DENSITIES[name]
    x = 3 * torch.randn(100, 2, generator=generator)
    torch.testing.assert_close(density.score(x), score_of(density.log_density)(x))


WIDTH = 0.1
AXIS = torch.arange(-6, 6, WIDTH, dtype=torch.float64) + WIDTH / 2
GRID = torch.cartesian_prod(AXIS, AXIS)


@pytest.mark.parametrize("name", DENSITIES)
def test_samples_have_the_moments_of_the_density(name: str, generator: Generator) -> None:
    density, n = DENSITIES[name], 50_000
    log_p = density.log_density(GRID)
    p = log_p.exp() * WIDTH**2
    assert p.sum() == pytest.approx(1, abs=1e-4)
    mean = p @ GRID
    covariance = (GRID - mean).T @ (p[:, None] * (GRID - mean))

    x = density.sample(n, generator, dtype=torch.float64)
    errors = (covariance.diagonal() / n).sqrt()
    assert ((x.mean(0) - mean).abs() < 5 * errors + 1e-3).all()
    torch.testing.assert_close(x.T.cov(correction=0), covariance, rtol=0.03, atol=0.03)

    values, negative_entropy = density.log_density(x), p @ log_p
    assert values.isfinite().all()
    assert abs(values.mean() - negative_entropy) < 5 * values.std() / n**0.5 + 1e-3


def test_samples_of_the_gaussian_have_its_mean_and_covariance(generator: Generator) -> None:
    x = GaussianDensity((0.5, -1.0), COVARIANCE).sample(200_000, generator).double()
    torch.testing.assert_close(x.T.cov(), torch.tensor(COVARIANCE), atol=0.03, rtol=0)
    torch.testing.assert_close(x.mean(0), torch.tensor([0.5, -1.0]), atol=0.02, rtol=0)


def test_the_ring_equals_the_mixture_with_the_same_means() -> None:
    ring = GaussianRing(3, 1.0, 0.2)
    means = tuple((math.cos(2 * math.pi * k / 3), math.sin(2 * math.pi * k / 3)) for k in range(3))
    mixture = GaussianMixtureDensity(means, (0.2,) * 3)
    x = torch.randn(50, 2)
    torch.testing.assert_close(mixture.log_density(x), ring.log_density(x))
    torch.testing.assert_close(mixture.score(x), ring.score(x))


def test_invalid_parameters_raise() -> None:
    with pytest.raises(ValueError, match="symmetric 2x2 matrix for a mean of 2 numbers"):
        GaussianDensity((0.0, 0.0), ((1.0, 0.5), (0.0, 1.0)))
    with pytest.raises(ValueError, match="must be positive definite"):
        GaussianDensity((0.0, 0.0), ((1.0, 2.0), (2.0, 1.0)))
    with pytest.raises(ValueError, match=r"has 2 means of lengths \[1\] and 1 scales"):
        GaussianMixtureDensity(((0.0,), (1.0,)), (1.0,))
    with pytest.raises(ValueError, match="must be positive"):
        GaussianMixtureDensity(((0.0,),), (0.0,))
    with pytest.raises(ValueError, match="a mixture needs 2 weights with sum 1"):
        GaussianMixtureDensity(((0.0,), (1.0,)), (1.0, 1.0), (0.5, 0.6))


def test_samples_of_the_ring_have_its_moments_and_mode_frequencies(generator: Generator) -> None:
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
