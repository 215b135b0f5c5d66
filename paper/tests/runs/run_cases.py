"""Runs of a tiny recipe and of known models, their saved states, and a signal in training."""

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import fdsm.training.checkpoint as checkpoint
from fdsm.training import IterationEvent
from fdsm.training.loggers import read_metrics
from paper.data import ImageArray
from paper.recipes import EBM, MLP, Recipe
from paper.recipes.settings import change_settings
from paper.runs import Run, SavedModel
from paper.runs.train import Training

from ..recipes.recipe_cases import tiny

RECIPE_FILE = Path(__file__).parents[1] / "recipes" / "recipe_cases.py"
TINY = f"{RECIPE_FILE}:tiny"


def start_tiny(folder: Path, *settings: str, seed: int = 0) -> Run:
    """Return a new run of the tiny recipe with some settings changed."""
    return Run.create(folder, change_settings(tiny, settings), seed=seed)


def write_array(path: Path, rows: int = 100, seed: int = 0) -> Path:
    """Write an array of images of 2 × 2 with normal levels."""
    x = torch.randn(rows, 2, 2, generator=torch.Generator().manual_seed(seed))
    np.save(path, (128 + 30 * x).clamp(0, 255).byte().numpy())
    return path


def array_recipe(path: Path, *settings: str) -> EBM:
    """Return the tiny recipe for an array of images, with some settings changed."""
    recipe = EBM(
        "array",
        tiny.objective,
        ImageArray(path),
        MLP((8,)),
        plan=tiny.plan,
        tempering=tiny.tempering,
        ood_sources=(),
    )
    return change_settings(recipe, settings)


def last_checkpoint(run: Run) -> dict[str, Any]:
    """Return the last checkpoint without its time."""
    state = checkpoint.load(run.checkpoints.numbered()[0])
    return {key: value for key, value in state.items() if key != "seconds"}


def model_file(run: Run) -> dict[str, Any]:
    """Return the content of `model.safetensors` without its time."""
    state = checkpoint.load(run.model_path)
    return {key: value for key, value in state.items() if key != "progress"}


def logged_metrics(run: Run) -> list[dict[str, Any]]:
    """Return the lines of `metrics.jsonl` without their times."""
    times = {"seconds", "milliseconds"}
    lines = read_metrics(run.folder / "metrics.jsonl")
    return [{k: v for k, v in line.items() if k not in times} for line in lines]


def identical(a: object, b: object) -> bool:
    """Return whether nested states are equal to the last bit. NaN equals NaN."""
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        if a.dtype != b.dtype or a.shape != b.shape:
            return False
        return bool(((a == b) | (a.isnan() & b.isnan())).all())
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(identical(a[k], b[k]) for k in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(identical, a, b))
    return a == b


def interrupt_after(iteration: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Send SIGTERM to this process after an iteration."""
    original = Training._count

    def count(self: Training, event: IterationEvent) -> None:
        original(self, event)
        if event.iteration == iteration:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(Training, "_count", count)


class StandardNormal(nn.Module):
    """The log-density of N(0, I), up to a constant, or of a Gaussian with another mean."""

    def __init__(self, shift: float = 0.0, precision: float = 1.0) -> None:
        super().__init__()
        self.shift, self.precision = shift, nn.Parameter(torch.tensor(precision))

    def forward(self, y: Tensor) -> Tensor:
        return -self.precision * (y - self.shift).flatten(1).square().sum(1) / 2


def known_model(folder: Path, model: nn.Module, recipe: Recipe) -> SavedModel:
    """Return a given model as the model of a run that has just been trained."""
    folder.mkdir(exist_ok=True)
    run, data = Run.create(folder, recipe), recipe.data.load()
    config = {"format": 2, "data": data.record, "stored_shape": list(data.train.shape[1:])}
    run.write("config.json", config)
    return SavedModel.from_training(
        run, model, data, {"iterations": 1, "seconds": 1.0, "ended": "all iterations done"}
    )
