from dataclasses import replace
from pathlib import Path

import pytest
import torch

from fdsm.paper.support.step_cost import pace
from fdsm.recipes.ebm import EBM
from fdsm.runs.run import Run
from fdsm.training import GradientStep

from ...recipes.tiny import tiny
from ...runs.run_cases import TINY


def test_steps_are_taken_in_turn_and_the_first_two_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.set_default_dtype(torch.float32)
    order: list[str] = []
    clock = [0.0]
    original = EBM.step

    def step(self: EBM, model: torch.nn.Module, data: object) -> GradientStep:
        made = original(self, model, data)  # type: ignore[arg-type]
        assert isinstance(made, GradientStep)
        loss = made.loss

        def slow(*arguments: object) -> torch.Tensor:
            order.append(self.name)
            clock[0] += {"a": 0.002, "b": 0.005}[self.name] * (100 if len(order) <= 4 else 1)
            return loss(*arguments)  # type: ignore[arg-type]

        made.loss = slow
        return made

    monkeypatch.setattr(EBM, "step", step)
    monkeypatch.setattr("time.perf_counter", lambda: clock[0])
    runs = [Run(tmp_path, TINY, replace(tiny, name=name), 0, "cpu") for name in ("a", "b")]
    assert [one.milliseconds for one in pace(runs, rounds=1)] == pytest.approx([2.0, 5.0])
    assert order == ["a", "b", "a", "b", "b", "a"]


def test_a_validation_is_timed_where_there_are_many(
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
    runs = [Run(tmp_path, TINY, replace(tiny, plan=plan), 0, "cpu") for plan in plans.values()]
    never, always, rarely = pace(runs, rounds=1)
    assert always.validation == pytest.approx(3.0)
    assert always.record()["milliseconds_of_validation"] == always.validation
    assert never.validation is rarely.validation is None
    assert "milliseconds_of_validation" not in never.record()


def test_only_what_published_times_are_of_is_timed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.set_default_dtype(torch.float32)
    taken: list[object] = []

    def part(batch: torch.Tensor, generator: torch.Generator) -> dict[str, torch.Tensor]:
        taken.append(len(batch))
        return {}

    monkeypatch.setattr(EBM, "timed_part", lambda self, step: part)
    pace([Run(tmp_path, TINY, tiny, 0, "cpu")], rounds=3)
    assert taken == [tiny.plan.batch] * (3 + 2)
