"""Stochastic gradient descent on a model whose optimum is known."""

from dataclasses import replace
from pathlib import Path

import pytest
from torch import Tensor

from fdsm.paper.run_store import RunStore
from fdsm.paper.studies.theorem2 import Decay, Exact, Theorem2, descend
from fdsm.paper.support.double_well import Family

SMALL = Theorem2(
    (("far", Decay(1.0)), ("decaying", Decay(1.0, 0.5)), ("SSM", Exact())),
    iterations=200,
    batch=16,
    descents=16,
    offset=30,
    start=(0.0, 0.0),
)


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
    place = RunStore(Path())
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


def test_ssm_must_be_among_what_is_studied() -> None:
    with pytest.raises(ValueError, match="SSM"):
        replace(SMALL, steps=SMALL.steps[:2])
    last, *others = reversed(SMALL.steps)
    study = replace(SMALL, iterations=30, offset=20, steps=(last, *others))
    (panel,) = study.measure(RunStore(Path()), 0, lambda numbers: numbers).panels
    lines = {line.name: line for line in panel.lines}
    assert lines["iteration^(-1/2)"].y[-1] == pytest.approx(lines["SSM"].y[-1])
