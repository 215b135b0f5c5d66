"""Callbacks: log, validate, save and show progress after an iteration."""

import math
import statistics
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from ..extras import name_missing_extra
from ..untrusted import printable
from .loggers import Log
from .metrics import DeviceMetrics

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True)
class IterationEvent:
    """The state of training after an iteration.

    Attributes:
        iteration: Number of completed iterations.
        iterations: Total number of iterations.
        seconds: Time of all completed steps, without callbacks.
        milliseconds: Median time of the most recent steps.
        metrics: The numbers that the step returned. Those of a GPU are read when first used.
    """

    iteration: int
    iterations: int
    seconds: float
    milliseconds: float
    metrics: Mapping[str, float]

    def every(self, n: int) -> bool:
        """Return whether the iteration is a multiple of `n` or the last; False if `n` is zero.

        Args:
            n: Number of iterations between two that are due.

        Returns:
            Whether a callback is due.

        Raises:
            NonFiniteLossError: If it is due and a metric of this or an earlier iteration is not
                finite, so that no later state is saved.
        """
        due = n > 0 and (self.iteration % n == 0 or self.iteration == self.iterations)
        if due and isinstance(self.metrics, DeviceMetrics):
            self.metrics.read()
        return due


class Callback(Protocol):
    """A function called after every iteration. It may raise `EarlyStop`."""

    def __call__(self, event: IterationEvent, /) -> None:
        """Handle the event."""
        ...


class EarlyStop(Exception):
    """Raised by a callback to end training early. `fit` does not catch it."""


@dataclass(frozen=True)
class LogMetrics:
    """Log the metrics of the step.

    Attributes:
        logs: The loggers.
        every: Number of iterations between records.
    """

    logs: Sequence[Log]
    every: int = 10

    def __call__(self, event: IterationEvent, /) -> None:
        """Log every `every` iterations."""
        if event.every(self.every):
            record = {
                "iteration": event.iteration,
                "seconds": round(event.seconds, 6),
                **event.metrics,
                "milliseconds": round(event.milliseconds, 4),
            }
            for log in self.logs:
                log(record)


@dataclass
class Validate:
    """Evaluate on validation data, keep track of the best value and stop early.

    Attributes:
        measure: Takes the iteration and returns metrics by name. Lower is better.
        logs: The loggers.
        every: Number of iterations between validations.
        metric: Name of the metric that is compared. Default: the first.
        patience: Number of iterations without improvement after which training stops.
        on_best: Called when the metric improves.
        best: The best value so far.
        iteration: The iteration of the best value.
    """

    measure: Callable[[int], dict[str, float]]
    logs: Sequence[Log]
    every: int
    metric: str = ""
    patience: int | None = None
    on_best: Callable[[IterationEvent], None] = lambda event: None
    best: float = field(default=math.inf, init=False)
    iteration: int = field(default=0, init=False)

    def __call__(self, event: IterationEvent, /) -> None:
        """Validate every `every` iterations.

        Args:
            event: The state of training.

        Raises:
            EarlyStop: If the metric has not improved for `patience` iterations.
        """
        if not event.every(self.every):
            return
        metrics = self.measure(event.iteration)
        finite = {name: v if math.isfinite(v) else None for name, v in metrics.items()}
        for log in self.logs:
            log({
                "iteration": event.iteration,
                "seconds": round(event.seconds, 6),
                "validation": finite,
            })
        name = self.metric or next(iter(metrics))
        if metrics[name] < self.best:
            self.best, self.iteration = metrics[name], event.iteration
            self.on_best(event)
        if self.patience is not None and event.iteration - self.iteration >= self.patience:
            raise EarlyStop(
                f"{name} has not improved for {self.patience:,} iterations; the best value is "
                f"{self.best:.6g}, at iteration {self.iteration:,}"
            )

    def state_dict(self) -> dict[str, Any]:
        """Return the best value and its iteration."""
        return {"best": self.best, "iteration": self.iteration}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state of `state_dict`."""
        self.best, self.iteration = float(state["best"]), int(state["iteration"])


@dataclass(frozen=True)
class SaveCheckpoint:
    """Write checkpoints.

    Attributes:
        write: Writes a checkpoint.
        every: Number of iterations between checkpoints.
    """

    write: Callable[[IterationEvent], None]
    every: int

    def __call__(self, event: IterationEvent, /) -> None:
        """Write a checkpoint every `every` iterations."""
        if event.every(self.every):
            self.write(event)


REFRESH, FIRST_LINE, INTERVAL = 0.5, 3.0, 5.0
"""Seconds between two updates of the bar; without a terminal until the first line, and between
two lines."""
SHOWN_LOSSES = 100
"""The loss shown is the mean over this number of iterations."""


class ProgressBar:
    """A progress bar with the mean loss, the time per iteration and the remaining time.

    Use the bar as a context manager. Without a terminal it prints a line after three seconds, and
    then every five. Training goes on if the terminal was closed.
    """

    def __init__(self, name: str, console: "Console | None" = None) -> None:
        """Create the bar without showing it.

        Args:
            name: Text before the bar.
            console: The console to draw on.
        """
        with name_missing_extra("a progress bar"):
            from rich.console import Console
            from rich.progress import (
                BarColumn,
                MofNCompleteColumn,
                Progress,
                TextColumn,
                TimeRemainingColumn,
            )

        self._console = Console(stderr=True) if console is None else console
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("loss {task.fields[loss]:.5g}  {task.fields[ms]:.3g} ms"),
            TimeRemainingColumn(),
            console=self._console,
            auto_refresh=False,
            disable=not self._console.is_terminal,
        )
        self._task = self._progress.add_task(printable(name), total=None, loss=math.nan, ms=0.0)
        self._recent: deque[Mapping[str, float]] = deque(maxlen=SHOWN_LOSSES)
        self._interval = REFRESH if self._console.is_terminal else INTERVAL
        self._due = time.monotonic() + (0 if self._console.is_terminal else FIRST_LINE)

    def __enter__(self) -> Self:
        """Show the bar."""
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop updating the bar."""
        with suppress(OSError):
            self._progress.stop()

    def __call__(self, event: IterationEvent, /) -> None:
        """Update the bar or print a line, if the last one is old."""
        self._recent.append(event.metrics)
        last = event.iteration == event.iterations and self._console.is_terminal
        if time.monotonic() < self._due and not last:
            return
        self._due = time.monotonic() + self._interval
        with suppress(OSError):
            self._show(event, statistics.fmean(metrics["loss"] for metrics in self._recent))

    def _show(self, event: IterationEvent, loss: float) -> None:
        if self._console.is_terminal:
            self._progress.update(
                self._task,
                total=event.iterations,
                completed=event.iteration,
                loss=loss,
                ms=event.milliseconds,
                refresh=True,
            )
        else:
            done = f"{event.iteration:,} of {event.iterations:,}"
            left = (event.iterations - event.iteration) * event.milliseconds / 1000
            duration = f"{left:.0f} s" if left < 120 else f"{left / 60:.0f} min"
            text = f"iteration {done}, loss {loss:.5g}, at most {duration} left"
            self._console.print(text, highlight=False)
