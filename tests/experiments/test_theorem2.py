"""Stochastic gradient descent on a model whose optimum is known."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from fdsm.derivatives import FiniteDifference
from fdsm.experiments.lemma2 import slopes
from fdsm.experiments.nce_mpf import quadrature
from fdsm.experiments.place import Place
from fdsm.experiments.theorem2 import (
    STUDY,
    Decay,
    Exact,
    Family,
    Theorem2,
    Wells,
    descend,
    quadratic,
    statistics,
)
from fdsm.objectives import SSM
from fdsm.projections import Sphere

WELLS = Wells(0.8, 0.6)
SMALL = Theorem2(
    (("far", Decay(1.0)), ("decaying", Decay(1.0, 0.5)), ("SSM", Exact())),
    iterations=200,
    batch=16,
    descents=16,
    offset=30,
    start=(0.0, 0.0),
)


def test_moments() -> None:
    z, w = np.polynomial.hermite_e.hermegauss(10)
    for power, moment in zip((2, 4, 6), WELLS.moments(), strict=True):
        mean = ((0.8 + 0.6 * z) ** power @ w + (-0.8 + 0.6 * z) ** power @ w) / (2 * w.sum())
        assert moment == pytest.approx(mean)


def test_samples_have_these_moments(generator: torch.Generator) -> None:
    x = WELLS.sample(200_000, generator).flatten()
    for power, moment in zip((2, 4, 6), WELLS.moments(), strict=True):
        sample = x.pow(power)
        assert abs(sample.mean() - moment) < 5 * sample.std() / len(sample) ** 0.5


@pytest.mark.parametrize("step", [0.1, 0.7])
def test_loss_is_this_quadratic_form(step: float) -> None:
    theta = torch.tensor([0.3, -0.7])
    x, v, weights = quadrature(WELLS, step, 10, 16)
    losses = SSM(FiniteDifference(), Sphere(step)).at(lambda x: statistics(x) @ theta, x, v)
    A, b = quadratic(WELLS, step)
    torch.testing.assert_close(weights @ losses, theta @ A @ theta / 2 + b @ theta)


@pytest.mark.parametrize("step", [0.0, 0.5])
def test_gradients_are_round_and_vanish_at_the_optimum(step: float) -> None:
    family = Family(WELLS)
    torch.testing.assert_close(family.gradient(family.optimum(step), step), torch.zeros(2))
    if step == 0:
        away = torch.tensor([0.4, -1.0])
        torch.testing.assert_close(family.gradient(family.optimum() + away), away)


def test_gradient_is_that_of_the_log_density() -> None:
    family, phi = Family(WELLS), torch.tensor([0.5, 1.5], requires_grad=True)
    x, v, weights = quadrature(WELLS, 0.4, 10, 16)
    objective = SSM(FiniteDifference(), Sphere(0.4))
    loss = weights @ objective.at(family.log_density(), x, v, phi.expand(len(x), 2))
    (gradient,) = torch.autograd.grad(loss, phi)
    torch.testing.assert_close(gradient, family.gradient(phi.detach(), 0.4))


def test_bias_is_of_second_order() -> None:
    family, steps = Family(Wells()), [0.01, 0.02, 0.04]
    biases = torch.stack([(family.optimum(h) - family.optimum()).norm() for h in steps])
    assert slopes(steps, biases[None]).item() == pytest.approx(2, abs=0.01)


def test_steps_decay_as_they_say() -> None:
    projections = [Decay(0.5, 0.25).objective(k).projection for k in (0, 15)]
    assert [p.radius for p in projections] == pytest.approx([0.5, 0.25])
    assert (Decay(0.5).limit(), Decay(0.5, 0.1).limit(), Exact().limit()) == (0.5, 0, 0)


def off(phi: Tensor, target: Tensor) -> float:
    """Return the distance of the mean of descents, in its standard errors."""
    error = (phi.std(0) / len(phi) ** 0.5).norm()
    return ((phi.mean(0) - target).norm() / error).item()


def test_descents_end_where_they_should() -> None:
    family = Family(SMALL.data)
    ends = {name: descend(SMALL, steps, [200], 0)[-1] for name, steps in SMALL.steps}
    assert off(ends["far"], family.optimum(1.0)) < 4
    assert off(ends["far"], family.optimum()) > 10
    assert off(ends["decaying"], family.optimum()) < 4
    assert off(ends["SSM"], family.optimum()) < 4


def test_findings() -> None:
    study = replace(SMALL, iterations=60, steps=(SMALL.steps[0], SMALL.steps[2]), offset=20)
    place = Place(Path())
    findings, again = (study.measure(place, 3, lambda numbers: numbers) for _ in range(2))
    assert findings == again
    family = Family(study.data)
    bias = (family.optimum(1.0) - family.optimum()).norm().item()
    assert findings.numbers["bias, far, predicted"].value == pytest.approx(bias)
    lines = {line.name: line for line in findings.panels[0].lines}
    assert lines["bias, far"].y == pytest.approx((bias, bias))
    assert lines["SSM"].x[-1] == 60
    assert lines["SSM"].y[-1] == pytest.approx(findings.numbers["distance, SSM"].value)
    rate = lines["iteration^(-1/2)"]
    assert rate.y[-1] == pytest.approx(lines["SSM"].y[-1])
    assert rate.y[0] / rate.y[-1] == pytest.approx((rate.x[-1] / rate.x[0]) ** 0.5)


def test_a_descent_without_a_step_is_among_those_studied() -> None:
    assert STUDY.steps[-1] == ("SSM", Exact())
