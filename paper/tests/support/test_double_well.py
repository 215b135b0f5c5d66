"""The closed forms of the double-well family, against quadrature."""

import numpy as np
import pytest
import torch

from fdsm.derivatives import FiniteDifference
from fdsm.objectives import SSM
from fdsm.projections import Sphere
from paper.support.analysis import loglog_slope
from paper.support.double_well import (
    DoubleWell,
    DoubleWellFamily,
    quadratic,
    quadrature,
    statistics,
)

WELLS = DoubleWell(0.8, 0.6)


def test_moments_are_those_of_the_mixture() -> None:
    z, w = np.polynomial.hermite_e.hermegauss(10)
    for power, moment in zip((2, 4, 6), WELLS.moments(), strict=True):
        mean = ((0.8 + 0.6 * z) ** power @ w + (-0.8 + 0.6 * z) ** power @ w) / (2 * w.sum())
        assert moment == pytest.approx(mean)


def test_samples_have_the_moments(generator: torch.Generator) -> None:
    x = WELLS.sample(200_000, generator).flatten()
    for power, moment in zip((2, 4, 6), WELLS.moments(), strict=True):
        sample = x.pow(power)
        assert abs(sample.mean() - moment) < 5 * sample.std() / len(sample) ** 0.5


@pytest.mark.parametrize("step", [0.1, 0.7])
def test_mean_of_fd_ssm_is_the_quadratic_form(step: float) -> None:
    theta = torch.tensor([0.3, -0.7])
    x, v, weights = quadrature(WELLS, step, 10, 16)
    losses = SSM(FiniteDifference(), Sphere(step)).at(lambda x: statistics(x) @ theta, x, v)
    A, b = quadratic(WELLS, step)
    torch.testing.assert_close(weights @ losses, theta @ A @ theta / 2 + b @ theta)


@pytest.mark.parametrize("step", [0.0, 0.5])
def test_gradient_vanishes_at_the_optimum_and_its_hessian_is_the_identity(step: float) -> None:
    family = DoubleWellFamily(WELLS)
    torch.testing.assert_close(family.gradient(family.optimum(step), step), torch.zeros(2))
    if step == 0:
        away = torch.tensor([0.4, -1.0])
        torch.testing.assert_close(family.gradient(family.optimum() + away), away)


def test_gradient_agrees_with_autograd() -> None:
    family, phi = DoubleWellFamily(WELLS), torch.tensor([0.5, 1.5], requires_grad=True)
    x, v, weights = quadrature(WELLS, 0.4, 10, 16)
    objective = SSM(FiniteDifference(), Sphere(0.4))
    loss = weights @ objective.at(family.log_density(), x, v, phi.expand(len(x), 2))
    (gradient,) = torch.autograd.grad(loss, phi)
    torch.testing.assert_close(gradient, family.gradient(phi.detach(), 0.4))


def test_bias_is_of_second_order() -> None:
    family, steps = DoubleWellFamily(DoubleWell()), [0.01, 0.02, 0.04]
    biases = torch.stack([(family.optimum(h) - family.optimum()).norm() for h in steps])
    assert loglog_slope(steps, biases.tolist()) == pytest.approx(2, abs=0.01)


def test_quadrature_has_the_moments_of_data_and_directions() -> None:
    x, v, weights = quadrature(DoubleWell(0.7, 0.4), 0.3, 8, 16)
    assert weights.sum().item() == pytest.approx(1)
    for power, moment in zip((2, 4, 6), DoubleWell(0.7, 0.4).moments(), strict=True):
        torch.testing.assert_close(weights @ x.pow(power), torch.full((2,), moment))
    torch.testing.assert_close(v.T @ (weights[:, None] * v), 0.3**2 / 2 * torch.eye(2))
    torch.testing.assert_close((weights @ (x[:, 0] * x[:, 1])), torch.tensor(0.0))
