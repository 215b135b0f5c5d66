"""Training a run, from the start or from its last checkpoint."""

import math
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import torch

import fdsm
import fdsm.training.checkpoint as checkpoint
from fdsm.atomic_io import create_folder, flush, sweep
from fdsm.training import (
    EMA,
    Callback,
    CheckpointError,
    EarlyStop,
    GradientStep,
    Interrupted,
    IterationEvent,
    JsonLines,
    LogMetrics,
    NonFiniteLossError,
    OutOfMemory,
    ProgressBar,
    SaveCheckpoint,
    TensorBoard,
    Validate,
    derived_seed,
    fit,
)
from fdsm.training.loggers import Log

from ..data import Dataset
from ..lock import exclusive
from .compile_decision import estimate_saving
from .run import Run, new_config
from .samples import save_sample_file
from .saved_model import SavedModel

if TYPE_CHECKING:
    from rich.console import Console

SHEET_FOLDER = "samples_in_training"
"""Name of the folder in a run with pictures of samples, one for each of some iterations."""
SHEET_SAMPLES = 25
"""Number of samples in a picture."""

Compile = Literal["auto", "on", "off"]
"""Whether to compile the training step. `"auto"`: if it saves more time than it takes."""


def train(
    run: Run,
    data: Dataset | None = None,
    *,
    console: "Console | None" = None,
    tensorboard: bool = False,
    compile: Compile = "off",
    sheets: int = 0,
) -> SavedModel:
    """Train a run to the end, continuing from its last checkpoint if there is one.

    Args:
        run: The run.
        data: The data set of its recipe, if it is loaded already.
        console: Console for a progress bar. `None` shows no progress.
        tensorboard: Whether to write TensorBoard event files too.
        compile: Whether to compile the training step. A run that is continued with `"auto"`
            keeps what was decided before, so that its result stays the same.
        sheets: Number of pictures of samples to write while training, for images. They do not
            change the result.

    Returns:
        The trained model. A run that has finished before is only read.

    Raises:
        TrainingInterrupted: After SIGINT, SIGTERM or SIGHUP. A checkpoint has been written.
        BusyError: If another process is training the run.
    """
    if run.is_trained:
        run.require_same_settings()
        return SavedModel.load(run)
    training = Training(run, run.recipe.data.load() if data is None else data)
    create_folder(run.folder)
    with exclusive(run.folder):
        training.start_or_restore()
        if training.ended is None:
            message = training.choose_compilation(compile)
            if console is not None and message:
                console.print(message, highlight=False, soft_wrap=True)
            training.run_iterations(console, tensorboard=tensorboard, sheets=sheets)
        return training.save_model()


class TrainingInterrupted(Exception):
    """Training was stopped by a signal and can be continued.

    Attributes:
        run: The run.
        signal: The number of the signal.
    """

    def __init__(self, run: Run, iteration: int, signal: int) -> None:
        super().__init__(
            f"stopped after iteration {iteration:,} of {run.recipe.plan.iterations:,}. "
            "A checkpoint was written"
        )
        self.run, self.signal = run, signal


class Training:
    """The state of a run while it is trained.

    Attributes:
        iteration: Number of completed iterations.
        ended: The reason why training ended, or `None` if it has not ended.
        compiled: Whether the step is compiled, or `None` if that is not decided yet.
    """

    def __init__(self, run: Run, data: Dataset) -> None:
        """Build the model, the step and the callbacks in their state before the first iteration.

        Args:
            run: The run.
            data: The data set.
        """
        self.run, self.data = run, data
        _require_rows(run, data)
        self.model = run.build(data.shape)
        run.recipe.before_training(self.model, data, run.generator("start"))
        self.step = run.recipe.step(self.model, data)
        self.generator = run.generator("train")
        plan, order = run.recipe.plan, derived_seed(run.seed, "order")
        self.batches = run.recipe.batches(data, order, run.device)
        self.average = None if plan.ema_decay is None else EMA(self.model, plan.ema_decay)
        if isinstance(self.step, GradientStep):
            self.step.update.average = self.average
        self.validation = Validate(self._validate, [], plan.validate_every, patience=plan.patience)
        if plan.patience is not None:
            self.validation.on_best = self._save_best
        self.iteration, self.seconds = 0, 0.0
        self.ended: str | None = None
        self.compiled: bool | None = None
        self.stop: Callable[[bool], bool] = bool

    def start_or_restore(self) -> None:
        """Write `config.json`, or restore the last checkpoint."""
        sweep(self.run.folder, r"[a-z_]+\.(?:json|jsonl|safetensors|npy|npz|png)")
        sweep(self.run.checkpoints.folder, r"(?:\d{8,}|best)\.safetensors")
        torch.manual_seed(derived_seed(self.run.seed, "torch"))
        if self.run.checkpoints.numbered():
            self.run.require_same_settings()
            self.run.require_same_data(self.data)
            self._restore(self.run.checkpoints.latest())
        elif (self.run.folder / "result.json").exists():
            self.run.require_same_settings()
            self.run.require_same_data(self.data)  # config.json describes the result
        else:
            self.run.write("config.json", new_config(self.run, self.data, self.model))
        self.settings = self.run.digest

    def choose_compilation(self, choice: Compile) -> str:
        """Compile the step if that is asked for, or pays.

        Args:
            choice: What the user wants.

        Returns:
            What was decided, in a sentence; empty if the user or an earlier session did.
        """
        message = ""
        if choice != "auto":
            self.compiled = choice == "on"
        elif self.compiled is None:
            self.compiled, message = self._compiling_pays()
        if self.compiled and hasattr(self.step, "compile"):
            self.step.compile()
        elif self.compiled:
            message = f"{type(self.step).__name__} cannot be compiled, so it runs eagerly."
        return message

    def _compiling_pays(self) -> tuple[bool, str]:
        """Return whether compiling saves time, and what was estimated."""
        if not isinstance(self.step, GradientStep):
            return False, ""
        generator = self.run.generator("compile")
        with torch.random.fork_rng(devices=[]):
            batch = self.batches(self.iteration, generator)
            estimate = estimate_saving(self.step.update, (batch,), generator, 0.0)
        remaining = self.run.recipe.plan.iterations - self.iteration
        pays = estimate.pays(remaining)
        return pays, (
            f"The training step is {'' if pays else 'not '}compiled: in {remaining:,} iterations "
            f"that saves about {estimate.saving(remaining):.0f} s, and compiling takes about "
            f"{estimate.compile_seconds:.0f} s. Change it with --compile."
        )

    def run_iterations(
        self, console: "Console | None", *, tensorboard: bool, sheets: int = 0
    ) -> None:
        """Train to the last iteration, or until validation stops it.

        Args:
            console: Console for a progress bar.
            tensorboard: Whether to write event files.
            sheets: Number of pictures of samples to write.

        Raises:
            TrainingInterrupted: After a signal.
        """
        plan = self.run.recipe.plan
        self.validation.logs = logs = self._logs(tensorboard=tensorboard)
        if plan.validate_every and not self.iteration:
            self.validation(IterationEvent(0, plan.iterations, 0.0, 0.0, {}))
        callbacks: list[Callback] = [self._count, LogMetrics(logs, plan.log_every)]
        if self.average is not None and not isinstance(self.step, GradientStep):
            callbacks.append(self.average)
        if plan.validate_every:
            callbacks.append(self.validation)
        callbacks.append(SaveCheckpoint(self._save, plan.checkpoint_every))
        if sheets:
            every = max(1, plan.iterations // sheets)
            callbacks.append(lambda event: self._draw_sheet() if event.every(every) else None)
        title = f"{self.run.name} seed {self.run.seed}"
        with nullcontext() if console is None else ProgressBar(title, console) as bar:
            self._fit(callbacks if bar is None else [*callbacks, bar])

    def _logs(self, *, tensorboard: bool) -> list[Log]:
        """Return the loggers, after deleting the records after the last checkpoint."""
        last = self.iteration or -1  # a run that starts again keeps no records
        logs: list[Log] = [JsonLines(self.run.folder / "metrics.jsonl", last)]
        if tensorboard:
            logs.append(TensorBoard(self.run.folder / "tensorboard"))
        return logs

    def save_model(self) -> SavedModel:
        """Load the best or averaged weights, write the model and return it."""
        self.run.require_digest(self.settings)
        self._load_final_weights()
        self.model.eval()
        self.run.recipe.after_training(self.model, self.data, self.run.generator("finish"))
        progress = {"iterations": self.iteration, "seconds": self.seconds, "ended": self.ended}
        saved = SavedModel.from_training(self.run, self.model, self.data, progress)
        self._write_model(saved)
        return saved

    def _load_final_weights(self) -> None:
        if (best := self._best_weights()) is not None:
            self.model.load_state_dict(best)
        elif self.average is not None:
            self.model.load_state_dict(self.average.model.state_dict())

    def _write_model(self, saved: SavedModel) -> None:
        saved.save()

    def _fit(self, callbacks: list[Callback]) -> None:
        too_large = ""
        try:
            fit(
                self.step,
                self.batches,
                self.run.recipe.plan.iterations,
                generator=self.generator,
                callbacks=callbacks,
                start=self.iteration,
                seconds=self.seconds,
                stop=self.stop,
            )
            self.ended = "all iterations done"
        except EarlyStop as reason:
            self.ended = str(reason)
        except Interrupted as interruption:
            self._write_checkpoint()
            raise TrainingInterrupted(
                self.run, self.iteration, interruption.signal
            ) from interruption
        except NonFiniteLossError as error:
            last = self.run.checkpoints.numbered()
            where = f"the last good checkpoint is {last[0]}" if last else "there is no checkpoint"
            raise NonFiniteLossError(f"{error}; {where}") from error
        except OutOfMemory as error:
            too_large = str(error)  # the error holds the tensors of the step
        if too_large:
            raise OutOfMemory(f"{too_large}. {self._smaller_batch()}")
        self._write_checkpoint()

    def _smaller_batch(self) -> str:
        """Return the batch that fits into memory, found by halving, in a sentence."""
        recipe, order = self.run.recipe, derived_seed(self.run.seed, "order")
        size = recipe.plan.batch // 2
        while size and not self.compiled:
            plan = replace(recipe.plan, batch=size)
            smaller = replace(recipe, plan=plan).batches(self.data, order, self.run.device)  # type: ignore[type-var]
            try:
                fit(self.step, smaller, 1, generator=self.generator)
                break
            except NonFiniteLossError:
                break
            except OutOfMemory:
                size //= 2
        return f"Train again with --set plan.batch={size}" if size else "Not even one row fits"

    def _best_weights(self) -> dict[str, Any] | None:
        """Return the best weights so far, if training returns them instead of the last ones."""
        if self.run.recipe.plan.patience is None or self.validation.best == math.inf:
            return None
        best = self.run.checkpoints.best
        try:
            weights = dict(checkpoint.load(best)["model"])
            deepcopy(self.model).load_state_dict(weights)
        except (CheckpointError, LookupError, RuntimeError, TypeError, ValueError) as error:
            prefix = "" if isinstance(error, CheckpointError) else f"{best} does not fit: "
            raise CheckpointError(
                f"{prefix}{error}. It holds the weights of iteration {self.validation.iteration:,}"
                f", the best so far. Restore it, or delete {best.parent} and resume: training "
                "then starts again and ends with the same model"
            ) from error
        return weights

    def _count(self, event: IterationEvent) -> None:
        self.iteration, self.seconds = event.iteration, event.seconds

    def _validate(self, iteration: int) -> dict[str, float]:
        model = self.average.model if self.average is not None else self.model
        model.eval()  # dropout would take random numbers from the training
        metrics = self.run.recipe.validate(model, self.data, self.run.generator("validate"))
        model.train()
        return metrics

    def _draw_sheet(self) -> None:
        """Write a picture of samples, named after the iteration."""
        model = self.average.model if self.average is not None else self.model
        generator = self.run.generator("sheet")
        model.eval()
        y = self.run.recipe.sample(model, self.data.shape, SHEET_SAMPLES, generator, iter)
        model.train()
        folder = self.run.folder / SHEET_FOLDER
        create_folder(folder)
        save_sample_file(
            folder / f"{self.iteration:08d}.png",
            self.data.inverse_transform(y.cpu()),
            float(self.data.train.max()),
        )

    def _save_best(self, event: IterationEvent) -> None:
        model = self.average.model if self.average is not None else self.model
        create_folder(self.run.checkpoints.folder)
        checkpoint.save(self.run.checkpoints.best, {"model": model.state_dict()})

    def _save(self, event: IterationEvent) -> None:
        self._write_checkpoint()

    def _write_checkpoint(self) -> None:
        self._save_state(self._state())

    def _save_state(self, state: dict[str, Any]) -> None:
        flush(self.run.folder / "metrics.jsonl")  # it has the records up to the checkpoint
        self.run.checkpoints.save(self.iteration, state)

    def _state(self) -> dict[str, Any]:
        """Return everything that training depends on, except the data and the recipe."""
        return {
            "iteration": self.iteration,
            "seconds": self.seconds,
            "ended": self.ended,
            "compiled": self.compiled,
            "model": self.model.state_dict(),
            "step": self.step.state_dict(),
            "average": None if self.average is None else self.average.state_dict(),
            "validation": self.validation.state_dict(),
            "generator": self.generator.get_state(),
            "torch": torch.get_rng_state(),
            "transform": self.data.transform.state(),
            "settings": self.settings,
        }

    def _restore(self, state: dict[str, Any]) -> None:
        self.run.require_digest(state.get("settings"))
        try:
            self._load(state)
        except (LookupError, RuntimeError, TypeError, ValueError) as error:
            raise CheckpointError(
                f"the checkpoints in {self.run.checkpoints.folder} do not fit the recipe in fdsm "
                f"{fdsm.__version__}: {error}. Resume with the version in config.json, or delete "
                "them"
            ) from error
        self._best_weights()

    def _load(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.step.load_state_dict(state["step"])
        if self.average is not None:
            self.average.load_state_dict(state["average"])
        self.validation.load_state_dict(state["validation"])
        try:
            self.generator.set_state(state["generator"])
        except RuntimeError:
            warnings.warn(
                f"the random state of the checkpoint cannot be restored on {self.run.device}. "
                "Random numbers start again, so the result differs from an uninterrupted run",
                stacklevel=2,
            )
        torch.set_rng_state(state["torch"])
        self.iteration, self.seconds = int(state["iteration"]), float(state["seconds"])
        self.ended = state["ended"] if self.iteration else None
        self.compiled = state.get("compiled", False)


def _require_rows(run: Run, data: Dataset) -> None:
    if not len(data.test):
        raise ValueError("there are no test rows: set data.test to a fraction such as 0.1")
    if run.recipe.plan.validate_every and not len(data.validation):
        raise ValueError(
            "there are no validation rows: set data.validation to a fraction such as 0.1, or "
            "disable validation with plan.validate_every=0"
        )
