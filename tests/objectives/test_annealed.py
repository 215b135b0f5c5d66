"""Annealed objectives tell the model the level, and can take their step in units of it."""

import math

import pytest
import torch
from torch import Generator, Tensor

from fdsm.derivatives import Autodiff, FiniteDifference, PrecisionWarning, score_of
from fdsm.noise import Arithmetic, ConstantNoise, LogUniform
from fdsm.objectives import SSM, SSMVR, Annealed, AnnealedDSM, AnnealedSlicedDSM, ViaScore
from fdsm.projections import Sphere, draw_directions


def blurred_points(x: Tensor, sigma: Tensor, weight: Tensor) -> Tensor:
    """Return the log-density of 60 points on a circle blurred by `sigma`, times `weight`."""
    turn = torch.arange(60) * (2 * torch.pi / 60)
    points = torch.stack([turn.cos(), turn.sin()], 1)
    distances = (x[:, None] - points).square().sum(2) / (2 * sigma[:, None] ** 2)
    return weight * (-distances).logsumexp(1)


def score(x: Tensor, sigma: Tensor, weight: Tensor) -> Tensor:
    return score_of(blurred_points)(x, sigma, weight)


@pytest.mark.parametrize("relative", [False, True])
@pytest.mark.parametrize("kind", ["log-density", "score"])
def test_levels_and_conditions_are_passed_to_the_model(
    relative: bool, kind: str, generator: Generator
) -> None:
    x, weight = torch.randn(6, 2, generator=generator), torch.rand(6, generator=generator)
    levels = Arithmetic(0.1, 1.0)
    inner = SSM(Autodiff(), Sphere()) if kind == "log-density" else SSMVR(Autodiff(), Sphere())
    model = blurred_points if kind == "log-density" else score
    actual = Annealed(inner, levels, relative)(
        model, x, weight, generator=Generator().manual_seed(1)
    )
    same = Generator().manual_seed(1)
    sigma = torch.linspace(0.1, 1.0, 6)
    noisy = x + sigma[:, None] * torch.randn(6, 2, generator=same)
    v = Sphere().sample(x, same)
    expected = sigma**2 * inner.at(model, noisy, v, sigma, weight)
    torch.testing.assert_close(actual, expected)


def test_denoising_passes_levels_and_conditions_to_the_model(generator: Generator) -> None:
    x, weight = torch.randn(6, 2, generator=generator), torch.rand(6, generator=generator)
    actual = AnnealedDSM(Arithmetic(0.1, 1.0))(
        score, x, weight, generator=Generator().manual_seed(1)
    )
    z = torch.randn(6, 2, generator=Generator().manual_seed(1))
    sigma = torch.linspace(0.1, 1.0, 6)
    s = score(x + sigma[:, None] * z, sigma, weight)
    expected = sigma**2 * (s + z / sigma[:, None]).square().sum(1) / 2
    torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize("engine", [Autodiff(), FiniteDifference()], ids=["exact", "differences"])
def test_sliced_denoising_compares_slopes_along_the_direction(
    engine: Autodiff | FiniteDifference, generator: Generator
) -> None:
    x, weight = torch.randn(6, 2, generator=generator), torch.rand(6, generator=generator)
    actual = AnnealedSlicedDSM(Arithmetic(0.1, 1.0), engine, Sphere(0.01), 3)(
        blurred_points, x, weight, generator=Generator().manual_seed(1)
    )
    same = Generator().manual_seed(1)
    z = torch.randn(6, 2, generator=same)
    v = draw_directions(Sphere(1.0), x, 3, same)
    sigma = torch.linspace(0.1, 1.0, 6)[:, None]
    residual = sigma * score(x + sigma * z, sigma.squeeze(1), weight) + z
    expected = (v * residual).sum(2).square().mean(0)
    torch.testing.assert_close(actual, expected, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("shape", [(3,), (4, 2)])
def test_denoising_loss_of_a_gaussian(shape: tuple[int, ...], generator: Generator) -> None:
    r"""At $σ$ it is $1 / (1 + σ²)$; its mean over log-uniform levels is an integral of $1/σ$."""
    x = torch.randn(40_000, *shape, generator=generator)
    gaussian = lambda x, sigma: -x.flatten(1).square().sum(1) / (2 * (1 + sigma**2))
    objective = ViaScore(AnnealedDSM(LogUniform(2.0, 0.05)))
    loss = objective(gaussian, x, generator=generator).mean().item()
    primitive = lambda sigma: math.log(sigma / math.sqrt(1 + sigma**2))
    expected = (primitive(2.0) - primitive(0.05)) / math.log(2.0 / 0.05)
    assert loss == pytest.approx(expected, abs=0.01)


def test_relative_step_is_accurate_at_small_levels(generator: Generator) -> None:
    turn = torch.randint(60, (4000,), generator=generator) * (2 * torch.pi / 60)
    x, one = torch.stack([turn.cos(), turn.sin()], 1), torch.ones(4000)

    def loss(objective: SSMVR, relative: bool = False) -> float:
        annealed = Annealed(objective, ConstantNoise(0.01), relative)
        return annealed(score, x, one, generator=Generator().manual_seed(1)).mean().item()

    exact = loss(SSMVR(Autodiff(), Sphere(0.1)))
    assert exact == pytest.approx(-0.5, abs=0.05)
    assert loss(SSMVR(FiniteDifference(), Sphere(0.1)), relative=True) == pytest.approx(
        exact, abs=0.01
    )
    with pytest.warns(PrecisionWarning, match="step is too large"):
        assert loss(SSMVR(FiniteDifference(), Sphere(0.1))) > 0, "ten times the width of a mode"
