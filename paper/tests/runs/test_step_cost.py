"""Step costs with a clock that only the steps advance."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from fdsm.training import GradientStep
from paper.recipes.ebm import EBM
from paper.runs import Run, measure_step_costs

from ..recipes.recipe_cases import tiny


def test_steps_are_interleaved_and_the_first_two_are_not_timed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.set_default_dtype(torch.float32)
    order: list[str] = []
    clock = [0.0]
    original = EBM.step

    def slow_step(self: EBM, model: torch.nn.Module, data: object) -> GradientStep:
        step = original(self, model, data)  # type: ignore[arg-type]
        assert isinstance(step, GradientStep)
        loss = step.update.loss

        def slow(*arguments: object) -> torch.Tensor:
            order.append(self.name)
            clock[0] += {"a": 0.002, "b": 0.005}[self.name] * (100 if len(order) <= 4 else 1)
            return loss(*arguments)  # type: ignore[arg-type]

        step.update.loss = slow
        return step

    monkeypatch.setattr(EBM, "step", slow_step)
    monkeypatch.setattr("time.perf_counter", lambda: clock[0])
    runs = [Run(tmp_path, replace(tiny, name=name)) for name in ("a", "b")]
    assert [one.milliseconds for one in measure_step_costs(runs, rounds=1)] == pytest.approx([
        2.0,
        5.0,
    ])
    assert order == ["a", "b", "a", "b", "b", "a"]


def test_validation_is_timed_for_runs_that_validate_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.set_default_dtype(torch.float32)
    clock = [0.0]
    original = EBM.validate

    def validate(*arguments: object) -> dict[str, float]:
        clock[0] += 0.003
        return original(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(EBM, "validate", validate)
    monkeypatch.setattr("time.perf_counter", lambda: clock[0])
    plans = {every: replace(tiny.plan, validate_every=every) for every in (0, 1, 11)}
    runs = [Run(tmp_path, replace(tiny, plan=plan)) for plan in plans.values()]
    never, often, rarely = measure_step_costs(runs, rounds=1)
    assert often.validation == pytest.approx(3.0)
    assert often.record()["milliseconds_of_validation"] == often.validation
    assert never.validation is rarely.validation is None
    assert "milliseconds_of_validation" not in never.record()


def test_only_the_timed_part_of_a_step_is_timed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.set_default_dtype(torch.float32)
    taken: list[object] = []

    def part(batch: torch.Tensor, generator: torch.Generator) -> dict[str, torch.Tensor]:
        taken.append(len(batch))
        return {}

    monkeypatch.setattr(EBM, "timed_part", lambda self, step: part)
    measure_step_costs([Run(tmp_path, tiny)], rounds=3)
    assert taken == [tiny.plan.batch] * (3 + 2)
