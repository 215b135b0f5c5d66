"""Gaussians, mixtures and boards are what they say they are."""

import math

import pytest
import torch
from torch import Generator

from fdsm.data import (
    Checkerboard,
    Density,
    Gaussian,
    GaussianMixture,
    GaussianRing,
    SyntheticData,
    spiral,
)
from fdsm.derivatives import score_of

COVARIANCE = ((2.0, 0.6), (0.6, 0.5))
SMOOTH: dict[str, Density] = {
    "gaussian": Gaussian((0.5, -1.0), COVARIANCE),
    "mixture": GaussianMixture(((0.0, 1.0), (-2.0, 0.5)), (0.4, 0.8), (0.3, 0.7)),
    "spiral": spiral(points=30),
}
ALL = SMOOTH | {"board": Checkerboard(4, 1.5)}


@pytest.mark.parametrize("name", SMOOTH)
def test_the_score_is_the_gradient_of_the_log_density(name: str, generator: Generator) -> None:
    density = SMOOTH[name]
    x = 3 * torch.randn(100, 2, generator=generator)
    torch.testing.assert_close(density.score(x), score_of(density.log_density)(x))


WIDTH = 0.1
AXIS = torch.arange(-6, 6, WIDTH, dtype=torch.float64) + WIDTH / 2
GRID = torch.cartesian_prod(AXIS, AXIS)


@pytest.mark.parametrize("name", ALL)
def test_samples_have_the_moments_of_the_density(name: str, generator: Generator) -> None:
    density, n = ALL[name], 50_000
    log_p = density.log_density(GRID)
    p = log_p.exp() * WIDTH**2
    assert p.sum() == pytest.approx(1, abs=1e-4)
    mean = p @ GRID
    covariance = (GRID - mean).T @ (p[:, None] * (GRID - mean))

    x = density.sample(n, generator, dtype=torch.float64)
    errors = (covariance.diagonal() / n).sqrt()
    assert ((x.mean(0) - mean).abs() < 5 * errors + 1e-3).all()
    torch.testing.assert_close(x.T.cov(correction=0), covariance, rtol=0.03, atol=0.03)

    values, negative_entropy = density.log_density(x), p @ log_p.clamp(min=-1e4)
    assert values.isfinite().all()
    assert abs(values.mean() - negative_entropy) < 5 * values.std() / n**0.5 + 1e-3


def test_the_gaussian_has_its_covariance(generator: Generator) -> None:
    x = Gaussian((0.5, -1.0), COVARIANCE).sample(200_000, generator).double()
    torch.testing.assert_close(x.T.cov(), torch.tensor(COVARIANCE), atol=0.03, rtol=0)
    torch.testing.assert_close(x.mean(0), torch.tensor([0.5, -1.0]), atol=0.02, rtol=0)


def test_the_ring_is_a_mixture() -> None:
    ring = GaussianRing(3, 1.0, 0.2)
    means = tuple((math.cos(2 * math.pi * k / 3), math.sin(2 * math.pi * k / 3)) for k in range(3))
    mixture = GaussianMixture(means, (0.2,) * 3)
    x = torch.randn(50, 2)
    torch.testing.assert_close(mixture.log_density(x), ring.log_density(x))
    torch.testing.assert_close(mixture.score(x), ring.score(x))


def test_densities_that_are_none_are_refused() -> None:
    with pytest.raises(ValueError, match="symmetric covariance of 2x2"):
        Gaussian((0.0, 0.0), ((1.0, 0.5), (0.0, 1.0)))
    with pytest.raises(ValueError, match="not positive definite"):
        Gaussian((0.0, 0.0), ((1.0, 2.0), (2.0, 1.0)))
    with pytest.raises(ValueError, match="there are 1 scales"):
        GaussianMixture(((0.0,), (1.0,)), (1.0,))
    with pytest.raises(ValueError, match="must be positive"):
        GaussianMixture(((0.0,),), (0.0,))
    with pytest.raises(ValueError, match="weights with sum 1"):
        GaussianMixture(((0.0,), (1.0,)), (1.0, 1.0), (0.5, 0.6))
    with pytest.raises(ValueError, match="even number of cells"):
        Checkerboard(3)


def test_toys_are_drawn_by_the_seed() -> None:
    density = Gaussian((0.0, 0.0))
    first, again, other = (SyntheticData(density, 50, seed).load() for seed in (0, 0, 1))
    assert torch.equal(first.train, again.train)
    assert not torch.equal(first.train, other.train)
    assert first.train.dtype == torch.float32
    assert [len(x) for x in (first.train, first.validation, first.test)] == [50, 5, 5]
    rows = torch.cat([first.train, first.validation, first.test])
    assert len(rows.unique(dim=0)) == 60
    with pytest.raises(ValueError, match="at least one sample"):
        SyntheticData(density, 0)
