"""The usual way to solve for coefficients, and ratios of times that are made by hand."""

from dataclasses import replace

import pytest
import torch
from torch import Generator

from fdsm.data import Chain, Dataset
from fdsm.models import DKEF, SlicedEquations
from fdsm.paper.studies.table1_times import (
    USUAL,
    WAYS,
    NestedEquations,
    StepTimes,
    Taken,
    compared,
    ways_of,
)
from fdsm.projections import Rademacher
from fdsm.serialize import differences, to_json


def test_nested_equations_are_those_of_the_jet(generator: Generator) -> None:
    x = torch.randn(30, 4, generator=generator)
    v, kernels = Rademacher(0.1).sample(x, generator), DKEF(x[:7]).induced_kernels()
    found, expected = (solve(kernels, x, v) for solve in (NestedEquations(), SlicedEquations()))
    torch.testing.assert_close(found.gram, expected.gram)
    torch.testing.assert_close(found.moment, expected.moment)
    assert found.count == expected.count == 30


def test_the_usual_way_differs_from_ssm_in_its_equations_alone() -> None:
    ways = ways_of("RedWine")
    assert tuple(ways) == WAYS
    assert differences(to_json(ways["SSM"]), to_json(ways[USUAL])) == [
        "equations.class: SlicedEquations -> NestedEquations"
    ]


def test_ratios_are_of_the_fastest() -> None:
    """Way `k` takes `k + 1` seconds at its fastest, and a validation a hundred."""
    taken = {way: Taken([k + 2.0, k + 1.0, k + 9.0], [100.0]) for k, way in enumerate(WAYS)}
    numbers = compared(taken, "made")
    assert numbers["milliseconds, SSM, made"].value == pytest.approx(2000)
    alone = numbers[f"FD-SSM over {USUAL}, made"]
    assert (alone.value, alone.settings["median"]) == (5.0, 3.0)
    assert numbers["FD-SSM over SSM, made, with validation"].value == pytest.approx(105 / 102)
    assert len(numbers) == 7 + 2 * (6 + 5 + 4)


def test_steps_and_validations_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a clock that ticks once a look, each takes a second; a tenth if one in ten is."""
    ticks = iter(range(10_000))
    monkeypatch.setattr("time.process_time", lambda: float(next(ticks)))
    x = torch.randn(60, 3, generator=Generator().manual_seed(0), dtype=torch.float64)
    data = Dataset(x[:40], x[40:50], x[50:], Chain(()), {})
    ways = {
        way: replace(recipe, inducing=5, plan=replace(recipe.plan, batch=8))
        for way, recipe in ways_of("RedWine").items()
    }
    taken = StepTimes(steps=2, validations=1).times(ways, data, "cpu", seed=0)
    for way in WAYS:
        assert taken[way] == Taken([1.0, 1.0], [0.1 if way == "Taylor-SM" else 1.0])
