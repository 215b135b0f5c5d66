"""Gradients of NCE, MPF and the naive difference, integrated exactly."""

import math
from pathlib import Path

import pytest
import torch
from torch import Generator, Tensor

from fdsm.objectives import MPF
from fdsm.objectives.directions import Sliced
from fdsm.paper.run_store import RunStore
from fdsm.paper.studies.nce_mpf import OBJECTIVES, Contrast, OneSidedMPF, gradient_moments
from fdsm.paper.support.double_well import DoubleWell, Family
from fdsm.paper.support.powers import exponent
from fdsm.projections import Sphere
from fdsm.recipes.networks import GaussianTail

FAMILY = Family(DoubleWell())
PHI = FAMILY.optimum() + 1
NAMED = dict(OBJECTIVES)
ONE_SIDED = {"MPF, one side", "naive R"}


def moments(objective: Sliced, step: float) -> tuple[Tensor, float]:
    return gradient_moments(objective, FAMILY, PHI, step, nodes=12, angles=32)


def test_flow_in_one_direction_is_half_of_that_in_both(generator: Generator) -> None:
    x = torch.randn(5, 3, generator=generator)
    v = Sphere(0.2).sample(x, generator)
    log_density = lambda x: -x.pow(4).sum(1)
    one = OneSidedMPF(projection=Sphere(0.2))
    flow = ((log_density(x + v) - log_density(x)) / 2).exp()
    torch.testing.assert_close(one.at(log_density, x, v), 4 * (flow - 1) / 0.2**2)
    both = (one.at(log_density, x, v) + one.at(log_density, x, -v)) / 2
    torch.testing.assert_close(both, MPF(projection=Sphere(0.2)).at(log_density, x, v))


@pytest.mark.parametrize("name", NAMED)
def test_noise_grows_as_the_step_shrinks_if_one_sided(name: str) -> None:
    small, large = (moments(NAMED[name], step)[1] for step in (0.002, 0.02))
    if name in ONE_SIDED:
        assert small * 0.002 == pytest.approx(2 * math.sqrt(2), rel=1e-3)
        assert small / large == pytest.approx(10, rel=0.01)
    else:
        assert small == pytest.approx(large, rel=0.03)


@pytest.mark.parametrize("name", NAMED)
def test_mean_gradient_is_that_of_ssm_to_second_order(name: str) -> None:
    steps = [0.004, 0.008, 0.016]
    means = torch.stack([moments(NAMED[name], step)[0] for step in steps])
    biases = torch.linalg.vector_norm(means - FAMILY.gradient(PHI), dim=1)
    assert exponent(steps, biases.tolist()) == pytest.approx(2, abs=0.1)


def test_mean_gradient_of_finite_differences_in_closed_form() -> None:
    torch.testing.assert_close(moments(NAMED["FD-SSM"], 0.3)[0], FAMILY.gradient(PHI, 0.3))


def test_findings() -> None:
    study = Contrast(
        steps=(0.005, 0.01, 0.1),
        trained=(0.01,),
        network=GaussianTail((8,)),
        iterations=30,
        trainings=1,
    )
    findings = study.measure(RunStore(Path()), 0, lambda numbers: numbers)
    numbers = findings.numbers
    assert numbers["exponent of the noise, naive R"].value == pytest.approx(-1, abs=0.05)
    assert numbers["exponent of the bias, NCE"].value == pytest.approx(2, abs=0.1)
    exact = numbers["fisher, SSM"].value
    for name in NAMED.keys() - ONE_SIDED:
        assert numbers[f"fisher, {name}, ε = 0.01"].value == pytest.approx(exact, rel=0.01)
    assert abs(numbers["fisher, naive R, ε = 0.01"].value / exact - 1) > 0.05
    noise, bias, learnt = findings.panels
    assert [len(panel.lines) for panel in (noise, bias, learnt)] == [6, 6, 6]
