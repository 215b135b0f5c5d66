"""Normal equations with nested backward passes, and ratios of given times."""

from dataclasses import replace

import pytest
import torch
from torch import Generator

from fdsm.models import DKEF, SlicedEquations
from fdsm.projections import Rademacher
from fdsm.serialize import differences, to_json
from paper.data import Chain, Dataset
from paper.studies.table1_times import (
    DOUBLE_BACKWARD,
    METHODS,
    NestedEquations,
    StepTimes,
    Times,
    compare_times,
    recipes_of,
)


def test_nested_equations_agree_with_the_hand_written_derivatives(generator: Generator) -> None:
    x = torch.randn(30, 4, generator=generator)
    v, kernels = Rademacher(0.1).sample(x, generator), DKEF(x[:7]).induced_kernels()
    found, expected = (solve(kernels, x, v) for solve in (NestedEquations(), SlicedEquations()))
    torch.testing.assert_close(found.gram, expected.gram)
    torch.testing.assert_close(found.moment, expected.moment)
    assert found.count == expected.count == 30


def test_double_backward_differs_from_ssm_only_in_its_equations() -> None:
    recipes = recipes_of("RedWine")
    assert tuple(recipes) == METHODS
    assert differences(to_json(recipes["SSM"]), to_json(recipes[DOUBLE_BACKWARD])) == [
        "equations.class: fdsm.models.SlicedEquations -> "
        "paper.studies.table1_times.NestedEquations"
    ]


def test_ratios_are_those_of_the_shortest_times() -> None:
    """The shortest step of method `k` takes `k + 1` seconds, and a validation one hundred."""
    times = {name: Times([k + 2.0, k + 1.0, k + 9.0], [100.0]) for k, name in enumerate(METHODS)}
    numbers = compare_times(times, "data")
    assert numbers["milliseconds, SSM, data"].value == pytest.approx(2000)
    alone = numbers[f"FD-SSM over {DOUBLE_BACKWARD}, data"]
    assert (alone.value, alone.settings["median"]) == (5.0, 3.0)
    assert numbers["FD-SSM over SSM, data, with validation"].value == pytest.approx(105 / 102)
    assert len(numbers) == 7 + 2 * (6 + 5 + 4)


def test_steps_and_validations_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock advances one second per reading. Taylor-SM validates in one of ten steps."""
    ticks = iter(range(10_000))
    monkeypatch.setattr("time.process_time", lambda: float(next(ticks)))
    x = torch.randn(60, 3, generator=Generator().manual_seed(0), dtype=torch.float64)
    data = Dataset(x[:40], x[40:50], x[50:], Chain(()), {})
    recipes = {
        name: replace(recipe, inducing=5, plan=replace(recipe.plan, batch=8))
        for name, recipe in recipes_of("RedWine").items()
    }
    times = StepTimes(steps=2, validations=1).measure_times(recipes, data, "cpu", seed=0)
    for name in METHODS:
        assert times[name] == Times([1.0, 1.0], [0.1 if name == "Taylor-SM" else 1.0])
