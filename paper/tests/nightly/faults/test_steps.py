"""Faults inside training: too little memory, numbers, callbacks and the clock."""

import time
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path

import pytest
import torch
from torch import Generator, Tensor

from fdsm.training import (
    Checkpoints,
    GradientStep,
    IterationEvent,
    NonFiniteLossError,
    OutOfMemory,
    SaveCheckpoint,
    fit,
)
from fdsm.typing import Step
from paper.data import Dataset
from paper.recipes import EBM
from paper.runs import Run, train
from paper.runs.train import Training
from paper.tests.runs.run_cases import TINY, array_recipe
from tests.nightly.faults.memory import limit_memory

from .commands import Command, run, wait_until
from .comparison import require_same_result


def test_too_little_memory_names_a_batch_that_fits(tmp_path: Path) -> None:
    """Memory is limited by the system. With the batch in the message, training succeeds."""
    folder = tmp_path / "run"
    arguments = [
        "train", "gaussian-ring", "--recipe", TINY, "--iterations=2", "--compile=off",
        "--set=data.n=40000", "--set=network.widths=64,64", "--set=plan.num_samples=0",
        "--set=plan.validate_every=0",
    ]  # fmt: skip
    limit = partial(limit_memory, 100 * 2**20)
    code, output = run(
        [*arguments, "--set=plan.batch=32768", "--out", folder], tmp_path / "log", limit
    )
    assert code == 1
    assert "Traceback" not in output
    line = output.splitlines()[-1]
    assert "not enough memory for a batch of shape (32768, 2)" in line
    setting = line.rpartition("Train again with --set ")[2]
    size = int(setting.removeprefix("plan.batch="))
    assert 64 <= size <= 16384
    again = Command(
        [*arguments, f"--set={setting}", "--out", tmp_path / "smaller"], tmp_path / "log", limit
    )
    wait_until(lambda: "Trained 2 iterations" in again.output)
    again.kill()  # libraries that evaluation imports may wait for memory forever


ERRORS = [
    MemoryError(),
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
    RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: 8 bytes"),
    RuntimeError("MPS backend out of memory"),
]


class Failing:
    """A step that raises an error."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __call__(self, batch: Tensor, generator: Generator) -> dict[str, Tensor]:
        raise self.error

    def state_dict(self) -> dict[str, Tensor]:
        return {}

    def load_state_dict(self, state: dict[str, Tensor]) -> None: ...


@pytest.mark.parametrize("error", ERRORS, ids=["Python", "GPU", "CPU", "MPS"])
def test_errors_of_allocators_are_recognized(error: Exception, generator: Generator) -> None:
    with pytest.raises(OutOfMemory, match=r"iteration 1: .* a batch of shape \(4, 2\) \(.+\)"):
        fit(Failing(error), lambda *_: torch.zeros(4, 2), 3, generator=generator)


def test_other_errors_of_a_step_are_not_changed(generator: Generator) -> None:
    error = RuntimeError("shape '[4]' is invalid")
    with pytest.raises(RuntimeError, match="is invalid") as raised:
        fit(Failing(error), lambda *_: torch.zeros(4, 2), 3, generator=generator)
    assert raised.value is error


@pytest.mark.parametrize("largest", [7, 0])
def test_batch_is_halved_until_it_fits(
    largest: int, images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    patch_loss(monkeypatch, lambda loss, batch, _: _limited(loss, batch, largest))
    run = Run.create(tmp_path / "run", array_recipe(images, "plan.batch=32"))
    expected = "Train again with --set plan.batch=4$" if largest else "Not even one row fits$"
    with pytest.raises(OutOfMemory, match=expected):
        train(run)


def test_half_of_the_batch_of_a_compiled_step_is_suggested(images: Path, tmp_path: Path) -> None:
    """It is not tried, since that would compile the step again."""
    run = Run.create(tmp_path / "run", array_recipe(images, "plan.batch=32"))
    training = Training(run, run.recipe.data.load())
    training.compiled, training.step = True, Failing(AssertionError("the step was called"))
    assert training._smaller_batch() == "Train again with --set plan.batch=16"


def _limited(loss: Tensor, batch: Tensor, largest: int) -> Tensor:
    if len(batch) > largest:
        raise MemoryError
    return loss


def patch_loss(
    monkeypatch: pytest.MonkeyPatch, change: Callable[[Tensor, Tensor, GradientStep], Tensor]
) -> None:
    """Change the loss of training: `loss, batch, step -> loss`."""
    original = EBM.step

    def patched(self: EBM, model: torch.nn.Module, data: Dataset) -> Step:
        step = original(self, model, data)
        assert isinstance(step, GradientStep)
        loss = step.update.loss
        step.update.loss = lambda batch, *rest: change(loss(batch, *rest), batch, step)
        return step

    monkeypatch.setattr(EBM, "step", patched)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_loss_that_is_not_finite_names_the_last_checkpoint(
    value: float, unfinished: Path, whole: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The weights are not updated, and training can go on once the cause is removed."""
    with monkeypatch.context() as patch:
        patch_loss(patch, lambda loss, _, step: loss * (value if step.iteration == 33 else 1))
        with pytest.raises(NonFiniteLossError, match=r"iteration 34: .*00000030\.safetensors"):
            train(Run.open(unfinished))
    train(Run.open(unfinished))
    require_same_result(unfinished, whole)


class Broken(Exception):
    """An error of a user's callback."""


def fail_at(iteration: int, event: IterationEvent) -> None:
    """Raise an error after an iteration."""
    if event.iteration == iteration:
        raise Broken("no such column")


def test_callback_that_raises_keeps_the_last_checkpoint(
    tmp_path: Path, generator: Generator
) -> None:
    """In a training loop of one's own. The error and its traceback are those of the callback."""
    model = torch.nn.Linear(2, 1)
    loss = lambda batch, generator, progress: model(batch).square().squeeze(1)
    step = GradientStep(loss, model, EBM.__dataclass_fields__["optimizer"].default, 10)
    checkpoints = Checkpoints(tmp_path)
    save = SaveCheckpoint(
        lambda event: void(checkpoints.save(event.iteration, {"model": model.state_dict()})), 4
    )
    with pytest.raises(Broken, match="no such column") as raised:
        fit(
            step,
            lambda *_: torch.ones(3, 2),
            10,
            generator=generator,
            callbacks=[save, partial(fail_at, 6)],
        )
    assert traceback.extract_tb(raised.value.__traceback__)[-1].name == "fail_at"
    assert raised.value.__cause__ is None
    assert [path.stem for path in checkpoints.numbered()] == ["00000004"]
    assert checkpoints.latest()["model"].keys() == {"weight", "bias"}


def void(value: object) -> None:
    """Ignore a value."""


def test_callback_of_a_run_that_raises(
    unfinished: Path, whole: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Training._count

    def broken(self: Training, event: IterationEvent) -> None:
        original(self, event)
        fail_at(34, event)

    with monkeypatch.context() as patch:
        patch.setattr(Training, "_count", broken)
        with pytest.raises(Broken, match="no such column"):
            train(Run.open(unfinished))
    assert Run.open(unfinished).checkpoints.latest()["iteration"] == 30
    train(Run.open(unfinished))
    require_same_result(unfinished, whole)


def test_clock_that_is_set_back_changes_nothing(
    images: Path, whole: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An hour at each reading. The times of files are not used either."""
    ticks = count()

    class Past(datetime):
        @classmethod
        def now(cls, tz: object = None) -> "Past":
            return cls(1999, 1, 1, tzinfo=UTC)

    monkeypatch.setattr(time, "time", lambda: 4e9 - 3600 * next(ticks))
    monkeypatch.setattr("paper.runs.run.datetime", Past)
    run = Run.create(tmp_path / "run", whole.recipe)
    train(run)
    require_same_result(run.folder, whole)
    assert run.config["started"].startswith("1999")
    seconds = [line["seconds"] for line in _records(run)]
    assert seconds == sorted(seconds)


def _records(run: Run) -> list[dict[str, float]]:
    from fdsm.training.loggers import read_metrics

    return read_metrics(run.folder / "metrics.jsonl")
