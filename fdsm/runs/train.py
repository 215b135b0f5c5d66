"""Training a run, from its beginning or from where it was interrupted."""

import platform
import warnings
from contextlib import nullcontext
from datetime import UTC, datetime
from typing import Any

import torch
from rich.console import Console
from torch import nn

from .. import __version__
from ..atomic_io import exclusive, sweep
from ..data import Dataset
from ..serialize import Json, to_json
from ..training import (
    EMA,
    Callback,
    EarlyStop,
    Interrupted,
    IterationEvent,
    JsonLines,
    LogMetrics,
    NonFiniteLossError,
    ProgressBar,
    SaveCheckpoint,
    ShuffledBatches,
    TensorBoard,
    Validate,
    checkpoint,
    derived_seed,
    fit,
)
from ..training.loggers import Log
from .run import Run, RunError
from .saved_model import is_trained, save_trained


def train(run: Run, *, console: Console | None = None, tensorboard: bool = False) -> None:
    """Train a run until it is finished; what has been done of it is not done again.

    Args:
        run: The run.
        console: Where to draw a progress bar; nowhere if not given.
        tensorboard: Whether to write event files for TensorBoard too.

    Raises:
        TrainingInterrupted: After SIGINT or SIGTERM; a checkpoint has been written.
        BusyError: If another process is at it.
    """
    if is_trained(run):
        return
    training = Training(run, run.recipe.data.load())
    if console is not None:
        console.print(_summary(training.data), highlight=False, soft_wrap=True)
    run.folder.mkdir(parents=True, exist_ok=True)
    with exclusive(run.folder):
        training.begin()
        if training.ended is None:
            training.go_on(console, tensorboard=tensorboard)
        training.finish()


class TrainingInterrupted(Exception):
    """A training was stopped by a signal and can be continued.

    Attributes:
        signal: The number of the signal.
    """

    def __init__(self, run: Run, iteration: int, signal: int) -> None:
        super().__init__(
            f"stopped after iteration {iteration} of {run.recipe.plan.iterations}, with a "
            f"checkpoint: go on with `{run.resume}`"
        )
        self.signal = signal


class Training:
    """All that changes while a run is trained.

    Attributes:
        iteration: How many iterations have been made.
        ended: Why the training is over, if it is.
    """

    def __init__(self, run: Run, data: Dataset) -> None:
        """Make model, step and callbacks as they are before the first iteration.

        Args:
            run: What to train.
            data: On what.
        """
        self.run, self.data = run, data
        _require_rows(run, data)
        self.model = run.build(data.shape)
        run.recipe.before_training(self.model, data, run.generator("start"))
        self.step = run.recipe.step(self.model, data)
        self.generator = run.generator("train")
        plan, order = run.recipe.plan, derived_seed(run.seed, "order")
        self.batches = ShuffledBatches(data.train, data.transform, plan.batch, order, run.device)
        self.average = None if plan.ema_decay is None else EMA(self.model, plan.ema_decay)
        self.validation = Validate(self._measure, [], plan.validate_every, patience=plan.patience)
        if plan.patience is not None:
            self.validation.on_best = self._save_best
        self.iteration, self.seconds = 0, 0.0
        self.ended: str | None = None

    def begin(self) -> None:
        """Write down what is run, or go on from the last checkpoint of it."""
        sweep(self.run.folder, r"(?:config|result)\.json|metrics\.jsonl|model\.safetensors")
        sweep(self.run.checkpoints.folder, r"(?:\d{8,}|best)\.safetensors")
        torch.manual_seed(derived_seed(self.run.seed, "torch"))
        if self.run.checkpoints.numbered():
            self._require_the_same()
            self._restore(self.run.checkpoints.latest())
        elif (self.run.folder / "result.json").exists():
            self._require_the_same()  # its record stays that of the result
        else:
            self.run.write("config.json", _config(self.run, self.data, self.model))

    def go_on(self, console: Console | None, *, tensorboard: bool) -> None:
        """Train up to the last iteration, or until validation says stop.

        Args:
            console: Where to draw a progress bar.
            tensorboard: Whether to write event files.

        Raises:
            TrainingInterrupted: After a signal.
        """
        plan = self.run.recipe.plan
        last = self.iteration or -1  # a run that begins again keeps nothing
        logs: list[Log] = [JsonLines(self.run.folder / "metrics.jsonl", last)]
        if tensorboard:
            logs.append(TensorBoard(self.run.folder / "tensorboard"))
        self.validation.logs = logs
        if plan.validate_every and not self.iteration:
            self.validation(IterationEvent(0, plan.iterations, 0.0, 0.0, {}))
        callbacks: list[Callback] = [self._note, LogMetrics(logs, plan.log_every)]
        if self.average is not None:
            callbacks.append(self.average)
        if plan.validate_every:
            callbacks.append(self.validation)
        callbacks.append(SaveCheckpoint(self._save, plan.checkpoint_every))
        with nullcontext() if console is None else ProgressBar(self._title(), console) as bar:
            self._fit(callbacks if bar is None else [*callbacks, bar])

    def finish(self) -> None:
        """Take the weights that are the result, and write the model."""
        best = self.run.checkpoints.best
        if self.run.recipe.plan.patience is not None and best.exists():
            self.model.load_state_dict(checkpoint.load(best)["model"])
        elif self.average is not None:
            self.model.load_state_dict(self.average.model.state_dict())
        self.model.eval()
        self.run.recipe.after_training(self.model, self.data, self.run.generator("finish"))
        progress = {"iterations": self.iteration, "seconds": self.seconds, "ended": self.ended}
        save_trained(self.run, self.model, self.data, progress)

    def _require_the_same(self) -> None:
        """Refuse to go on with another recipe or other data than it began with."""
        changed = self.run.changes()
        if changed:
            raise RunError(
                f"the recipe {self.run.reference.recipe} has changed since {self.run.folder} "
                f"began: {'; '.join(changed)}. Undo that, or train anew"
            )
        self.run.require_its_data(self.data)

    def _fit(self, callbacks: list[Callback]) -> None:
        try:
            fit(
                self.step,
                self.batches,
                self.run.recipe.plan.iterations,
                generator=self.generator,
                callbacks=callbacks,
                start=self.iteration,
                seconds=self.seconds,
            )
            self.ended = "all iterations made"
        except EarlyStop as reason:
            self.ended = str(reason)
        except Interrupted as interruption:
            self._write()
            raise TrainingInterrupted(
                self.run, self.iteration, interruption.signal
            ) from interruption
        except NonFiniteLossError as error:
            last = self.run.checkpoints.numbered()
            where = f"the last good checkpoint is {last[0]}" if last else "there is no checkpoint"
            raise NonFiniteLossError(f"{error}; {where}") from error
        self._write()

    def _title(self) -> str:
        return f"{self.run.reference.recipe} seed {self.run.seed}"

    def _note(self, moment: IterationEvent) -> None:
        self.iteration, self.seconds = moment.iteration, moment.seconds

    def _measure(self, iteration: int) -> dict[str, float]:
        model = self.average.model if self.average is not None else self.model
        model.eval()  # dropout, if any, would also take random numbers from the training
        numbers = self.run.recipe.validate(model, self.data, self.run.generator("validate"))
        model.train()
        return numbers

    def _save_best(self, moment: IterationEvent) -> None:
        model = self.average.model if self.average is not None else self.model
        self.run.checkpoints.folder.mkdir(parents=True, exist_ok=True)
        checkpoint.save(self.run.checkpoints.best, {"model": model.state_dict()})

    def _save(self, moment: IterationEvent) -> None:
        self._write()

    def _write(self) -> None:
        self.run.checkpoints.save(self.iteration, self._state())

    def _state(self) -> dict[str, Any]:
        return {
            "iteration": self.iteration,
            "seconds": self.seconds,
            "ended": self.ended,
            "model": self.model.state_dict(),
            "step": self.step.state_dict(),
            "average": None if self.average is None else self.average.state_dict(),
            "validation": self.validation.state_dict(),
            "generator": self.generator.get_state(),
            "torch": torch.get_rng_state(),
            "transform": self.data.transform.state(),
        }

    def _restore(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.step.load_state_dict(state["step"])
        if self.average is not None:
            self.average.load_state_dict(state["average"])
        self.validation.load_state_dict(state["validation"])
        try:
            self.generator.set_state(state["generator"])
        except RuntimeError:
            warnings.warn(
                f"random numbers cannot be continued on {self.run.device}: they begin anew, and "
                "the result is not that of an uninterrupted run",
                stacklevel=2,
            )
        torch.set_rng_state(state["torch"])
        self.iteration, self.seconds = int(state["iteration"]), float(state["seconds"])
        self.ended = state["ended"] if self.iteration else None


def _summary(data: Dataset) -> str:
    """Return in a line what was read."""
    counts = " + ".join(f"{len(rows):,}" for rows in (data.train, data.validation, data.test))
    columns = data.record.get("columns")
    names = f", columns {', '.join(map(repr, columns[:12]))}" if isinstance(columns, list) else ""
    more = " …" if isinstance(columns, list) and len(columns) > 12 else ""
    shape = tuple(data.train.shape[1:])
    return f"{data.record['name']}: {counts} rows of shape {shape}{names}{more}"


def _require_rows(run: Run, data: Dataset) -> None:
    if not len(data.test):
        raise ValueError("there are no test rows: choose a share with `--set data.test=0.1`")
    if run.recipe.plan.validate_every and not len(data.validation):
        raise ValueError(
            "there are no validation rows: choose a share with `--set data.validation=0.1`, or "
            "do not validate, `--set plan.validate_every=0`"
        )


def _config(run: Run, data: Dataset, model: nn.Module) -> Json:
    return {
        **run.reference.record(),
        "seed": run.seed,
        "device": run.device,
        "settings": to_json(run.recipe),
        "data": data.record,
        "shape": list(data.shape),
        "stored_shape": list(data.train.shape[1:]),
        "parameters": sum(p.numel() for p in model.parameters()),
        "provenance": run.recipe.provenance,
        **environment_info(),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def environment_info() -> dict[str, Json]:
    """Return on what a measurement is made, for the record."""
    return {
        "versions": {
            "fdsm": __version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
        "machine": f"{platform.system()} {platform.machine()}, threads: {torch.get_num_threads()}",
    }
