"""A run of a tiny recipe: its saved state, and a signal at a chosen iteration."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

from fdsm.runs.reference import Reference
from fdsm.runs.run import Run
from fdsm.runs.train import Training
from fdsm.training import IterationEvent, checkpoint
from fdsm.training.loggers import records

TINY = Reference(f"{Path(__file__).parents[1] / 'recipes' / 'tiny.py'}:tiny")


def states(run: Run) -> dict[str, Any]:
    state = checkpoint.load(run.checkpoints.numbered()[0])
    return {key: value for key, value in state.items() if key != "seconds"}


def model(run: Run) -> dict[str, Any]:
    state = checkpoint.load(run.folder / "model.safetensors")
    return {key: value for key, value in state.items() if key != "progress"}


def without_times(run: Run) -> list[dict[str, Any]]:
    times = {"seconds", "milliseconds"}
    lines = records(run.folder / "metrics.jsonl")
    return [{k: v for k, v in line.items() if k not in times} for line in lines]


def same(a: object, b: object) -> bool:
    """Return whether nested states are equal to the last bit."""
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


def interrupt_after(iteration: int, monkeypatch: pytest.MonkeyPatch) -> None:
    original = Training._note

    def note(self: Training, moment: IterationEvent) -> None:
        original(self, moment)
        if moment.iteration == iteration:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(Training, "_note", note)
