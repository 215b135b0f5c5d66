"""Negative log-likelihoods of Gaussians, and of changes of variables."""

import math

import pytest
import torch
from torch import Generator, Tensor
from torch.distributions import Independent, LogNormal, MultivariateNormal, Normal

from fdsm.evaluation import (
    Measurement,
    UnnormalizedWarning,
    bits_per_dim,
    fit_gaussian,
    log_densities,
    nll,
)
from fdsm.models import NICE


def test_mean_nll_is_the_entropy_of_a_gaussian(generator: Generator) -> None:
    """E[-log p] = ½ log det(2πe Σ)."""
    root = torch.tensor([[2.0, 0.0], [0.5, 0.3]])
    x = torch.randn(20_000, 2, generator=generator) @ root.T
    density = MultivariateNormal(torch.zeros(2), scale_tril=root)
    measured = nll(density, x, chunk=777)
    entropy = math.log(0.6) + math.log(2 * math.pi * math.e)
    assert measured.error == pytest.approx(1 / math.sqrt(20_000), rel=0.05)  # Var ‖z‖²/2 = 1
    assert abs(measured.value - entropy) < 4 / math.sqrt(20_000)
    assert measured.settings["space"] == "model"
    assert measured.settings["unit"] == "nats"


def test_log_partition_is_added_with_its_error(generator: Generator) -> None:
    x = torch.randn(10, 3, generator=generator)
    log_z = 1.5 * math.log(2 * math.pi)
    exact = nll(Independent(Normal(torch.zeros(3), 1.0), 1), x)
    unnormalized = lambda x: -x.square().sum(1) / 2
    measured = nll(unnormalized, x, log_partition=log_z)
    assert measured.value == pytest.approx(exact.value)
    assert measured.error == pytest.approx(exact.error)
    estimated = nll(unnormalized, x, log_partition=Measurement(log_z, 0.7))
    assert estimated.value == pytest.approx(exact.value)
    assert exact.error is not None
    assert estimated.error == pytest.approx(math.hypot(exact.error, 0.7))
    assert estimated.settings["log_partition"] == log_z


def test_log_det_gives_the_likelihood_of_the_data(generator: Generator) -> None:
    """A normal of log(x) is a log-normal of x."""
    z = torch.randn(50, 3, generator=generator)
    x = z.exp()
    log_det = -x.log().sum(1)  # d log x / dx = 1 / x
    normal = lambda z: Normal(0.0, 1.0).log_prob(z).sum(1)
    measured = nll(normal, z, log_partition=0.0, log_det=log_det)
    exact = -LogNormal(0.0, 1.0).log_prob(x).sum(1)
    assert measured.value == pytest.approx(exact.mean().item())
    assert measured.error == pytest.approx(exact.std().item() / math.sqrt(50))
    assert measured.settings["space"] == "data"


def test_bits_per_dimension_of_uniform_pixels() -> None:
    """Uniform over 256 levels are 8 bits, once the scaling to [0, 1] is accounted for."""
    d = 12
    uniform = lambda x: torch.zeros(len(x))
    scaled_pixels = torch.rand(5, d)
    log_det = torch.full((5,), -d * math.log(256))
    measured = nll(uniform, scaled_pixels, log_partition=0.0, log_det=log_det)
    assert bits_per_dim(measured, d).value == pytest.approx(8)
    halved = bits_per_dim(Measurement(1.0, 0.5, {"rows": 2}), 4)
    assert halved.value == pytest.approx(0.25 / math.log(2))
    assert halved.error == pytest.approx(0.125 / math.log(2))
    assert halved.settings == {"rows": 2, "unit": "bits per dimension", "dimension": 4}
    with pytest.raises(ValueError, match="must be positive"):
        bits_per_dim(measured, 0)


def test_log_densities_in_chunks_with_conditions(generator: Generator) -> None:
    x, a = torch.randn(2, 7, generator=generator)

    def density(x: Tensor, a: Tensor) -> Tensor:
        assert not torch.is_grad_enabled()
        assert len(x) <= 3
        return a * x

    torch.testing.assert_close(log_densities(density, x, a, chunk=3), a * x)


def test_wrong_shapes_are_refused() -> None:
    x = torch.zeros(3, 2)
    with pytest.raises(ValueError, match="each of the 3 rows"):
        nll(lambda x: x.sum(1), x, log_partition=0.0, log_det=torch.zeros(3, 1))
    with pytest.raises(ValueError, match=r"Use `.squeeze\(1\)`"):
        nll(lambda x: x[:, :1], x, log_partition=0.0)


def test_a_function_that_may_not_be_normalized_is_noticed(generator: Generator) -> None:
    """Normalized objects and a constant given by the user are silent; warnings are errors here."""
    x = torch.randn(20, 2, generator=generator)
    unnormalized = lambda x: -x.square().sum(1) / 2
    with pytest.warns(
        UnnormalizedWarning, match=r"If its integral is one, pass log_partition=0.0"
    ):
        warned = nll(unnormalized, x)
    assert warned == nll(unnormalized, x, log_partition=0.0)
    for density in (Independent(Normal(torch.zeros(2), 1.0), 1), fit_gaussian(x), NICE(2, 8)):
        assert nll(density, x).value == pytest.approx(-log_densities(density, x).mean().item())
