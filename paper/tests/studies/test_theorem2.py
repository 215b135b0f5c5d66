"""Stochastic gradient descent on a model with a known optimum."""

from dataclasses import replace
from pathlib import Path

import pytest
from torch import Tensor

from paper.run_store import RunStore
from paper.studies.theorem2 import ExactSSM, StepDecay, Theorem2, descend
from paper.support.double_well import DoubleWellFamily

SMALL = Theorem2(
    (("far", StepDecay(1.0)), ("decaying", StepDecay(1.0, 0.5)), ("SSM", ExactSSM())),
    iterations=200,
    batch=16,
    descents=16,
    offset=30,
    start=(0.0, 0.0),
)


def test_step_sizes_decay_with_the_given_power() -> None:
    projections = [StepDecay(0.5, 0.25).objective(k).projection for k in (0, 15)]
    assert [p.radius for p in projections] == pytest.approx([0.5, 0.25])
    assert (StepDecay(0.5).limit(), StepDecay(0.5, 0.1).limit(), ExactSSM().limit()) == (0.5, 0, 0)


def distance(phi: Tensor, target: Tensor) -> float:
    """Return the distance of the mean of descents from a point, in standard errors."""
    error = (phi.std(0) / len(phi) ** 0.5).norm()
    return ((phi.mean(0) - target).norm() / error).item()


def test_descents_converge_to_the_known_optima() -> None:
    family = DoubleWellFamily(SMALL.data)
    ends = {name: descend(SMALL, steps, [200], 0)[-1] for name, steps in SMALL.steps}
    assert distance(ends["far"], family.optimum(1.0)) < 4
    assert distance(ends["far"], family.optimum()) > 10
    assert distance(ends["decaying"], family.optimum()) < 4
    assert distance(ends["SSM"], family.optimum()) < 4


def test_study_on_a_small_scale() -> None:
    study = replace(SMALL, iterations=60, steps=(SMALL.steps[0], SMALL.steps[2]), offset=20)
    store = RunStore(Path())
    result, again = (study.run(store, 3, lambda numbers: numbers) for _ in range(2))
    assert result == again
    family = DoubleWellFamily(study.data)
    bias = (family.optimum(1.0) - family.optimum()).norm().item()
    assert result.numbers["bias, far, predicted"].value == pytest.approx(bias)
    lines = {line.name: line for line in result.panels[0].lines}
    assert lines["bias, far"].y == pytest.approx((bias, bias))
    assert lines["SSM"].x[-1] == 60
    assert lines["SSM"].y[-1] == pytest.approx(result.numbers["distance, SSM"].value)
    rate = lines["iteration^(-1/2)"]
    assert rate.y[-1] == pytest.approx(lines["SSM"].y[-1])
    assert rate.y[0] / rate.y[-1] == pytest.approx((rate.x[-1] / rate.x[0]) ** 0.5)


def test_ssm_must_be_one_of_the_schedules() -> None:
    with pytest.raises(ValueError, match="SSM"):
        replace(SMALL, steps=SMALL.steps[:2])
    last, *others = reversed(SMALL.steps)
    study = replace(SMALL, iterations=30, offset=20, steps=(last, *others))
    (panel,) = study.run(RunStore(Path()), 0, lambda numbers: numbers).panels
    lines = {line.name: line for line in panel.lines}
    assert lines["iteration^(-1/2)"].y[-1] == pytest.approx(lines["SSM"].y[-1])
