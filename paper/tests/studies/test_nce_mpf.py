"""Gradients of NCE, MPF and the naive difference, integrated exactly."""

import math
from pathlib import Path

import pytest
import torch
from torch import Generator, Tensor

from fdsm.objectives import MPF, Sliced
from fdsm.projections import Sphere
from paper.recipes import GaussianTail
from paper.run_store import RunStore
from paper.studies.nce_mpf import (
    OBJECTIVES,
    ContrastiveGradients,
    OneSidedMPF,
    gradient_moments,
)
from paper.support.analysis import loglog_slope
from paper.support.double_well import DoubleWell, DoubleWellFamily

FAMILY = DoubleWellFamily(DoubleWell())
PHI = FAMILY.optimum() + 1
BY_NAME = dict(OBJECTIVES)
ONE_SIDED = {"MPF, one side", "naive R"}


def moments(objective: Sliced, step: float) -> tuple[Tensor, float]:
    return gradient_moments(objective, FAMILY, PHI, step, nodes=12, angles=32)


def test_two_sided_mpf_is_the_mean_of_both_sides(generator: Generator) -> None:
    x = torch.randn(5, 3, generator=generator)
    v = Sphere(0.2).sample(x, generator)
    log_density = lambda x: -x.pow(4).sum(1)
    one = OneSidedMPF(projection=Sphere(0.2))
    flow = ((log_density(x + v) - log_density(x)) / 2).exp()
    torch.testing.assert_close(one.at(log_density, x, v), 4 * (flow - 1) / 0.2**2)
    both = (one.at(log_density, x, v) + one.at(log_density, x, -v)) / 2
    torch.testing.assert_close(both, MPF(projection=Sphere(0.2)).at(log_density, x, v))


@pytest.mark.parametrize("name", BY_NAME)
def test_noise_of_one_sided_forms_grows_as_the_step_decreases(name: str) -> None:
    small, large = (moments(BY_NAME[name], step)[1] for step in (0.002, 0.02))
    if name in ONE_SIDED:
        assert small * 0.002 == pytest.approx(2 * math.sqrt(2), rel=1e-3)
        assert small / large == pytest.approx(10, rel=0.01)
    else:
        assert small == pytest.approx(large, rel=0.03)


@pytest.mark.parametrize("name", BY_NAME)
def test_mean_gradient_agrees_with_ssm_to_second_order(name: str) -> None:
    steps = [0.004, 0.008, 0.016]
    means = torch.stack([moments(BY_NAME[name], step)[0] for step in steps])
    biases = torch.linalg.vector_norm(means - FAMILY.gradient(PHI), dim=1)
    assert loglog_slope(steps, biases.tolist()) == pytest.approx(2, abs=0.1)


def test_mean_gradient_of_fd_ssm_agrees_with_the_closed_form() -> None:
    torch.testing.assert_close(moments(BY_NAME["FD-SSM"], 0.3)[0], FAMILY.gradient(PHI, 0.3))


def test_one_sided_forms_train_worse_at_a_small_step() -> None:
    study = ContrastiveGradients(
        steps=(0.005, 0.01, 0.1),
        training_steps=(0.01,),
        network=GaussianTail((8,)),
        iterations=30,
        trainings=1,
    )
    result = study.run(RunStore(Path()), 0, lambda numbers: numbers)
    numbers = result.numbers
    assert numbers["exponent of the noise, naive R"].value == pytest.approx(-1, abs=0.05)
    assert numbers["exponent of the bias, NCE"].value == pytest.approx(2, abs=0.1)
    exact = numbers["fisher, SSM"].value
    for name in BY_NAME.keys() - ONE_SIDED:
        assert numbers[f"fisher, {name}, ε = 0.01"].value == pytest.approx(exact, rel=0.01)
    assert abs(numbers["fisher, naive R, ε = 0.01"].value / exact - 1) > 0.05
    noise, bias, training = result.panels
    assert [len(panel.lines) for panel in (noise, bias, training)] == [6, 6, 6]
