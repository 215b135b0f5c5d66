from dataclasses import replace
from pathlib import Path

import pytest
import torch

from fdsm.experiments.deep_ebm import DeepEBM
from fdsm.experiments.pace import pace
from fdsm.experiments.run import Run
from fdsm.training import GradientStep

from .test_train import TINY
from .tiny import tiny


def test_steps_are_taken_in_turn_and_the_first_two_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.set_default_dtype(torch.float32)
    order: list[str] = []
    clock = [0.0]
    original = DeepEBM.step

    def step(self: DeepEBM, model: torch.nn.Module, data: object) -> GradientStep:
        made = original(self, model, data)  # type: ignore[arg-type]
        assert isinstance(made, GradientStep)
        loss = made.loss

        def slow(*arguments: object) -> torch.Tensor:
            order.append(self.name)
            clock[0] += {"a": 0.002, "b": 0.005}[self.name] * (100 if len(order) <= 4 else 1)
            return loss(*arguments)  # type: ignore[arg-type]

        made.loss = slow
        return made

    monkeypatch.setattr(DeepEBM, "step", step)
    monkeypatch.setattr("time.perf_counter", lambda: clock[0])
    runs = [Run(tmp_path, TINY, replace(tiny, name=name), 0, "cpu") for name in ("a", "b")]
    assert pace(runs, rounds=1) == pytest.approx([2.0, 5.0])
    assert order == ["a", "b"] * 3
