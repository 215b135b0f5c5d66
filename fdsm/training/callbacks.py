"""What is done after iterations: log, validate, save, show."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)

from .events import EarlyStop, IterationEvent
from .loggers import Log


@dataclass(frozen=True)
class LogMetrics:
    """Log what the step logged.

    Attributes:
        logs: Where to.
        every: After how many iterations.
    """

    logs: Sequence[Log]
    every: int = 10

    def __call__(self, moment: IterationEvent) -> None:
        """Log, if it is time."""
        if moment.every(self.every):
            record = {
                "iteration": moment.iteration,
                "seconds": round(moment.seconds, 6),
                **moment.metrics,
                "milliseconds": round(moment.milliseconds, 4),
            }
            for log in self.logs:
                log(record)


@dataclass
class Validate:
    """Measure a model on data it is not trained on, remember the best, and stop in time.

    Attributes:
        measure: Takes an iteration and returns numbers by name; the smaller the better.
        logs: Where to log them.
        every: After how many iterations.
        watched: Which number decides what is best and when to stop; the first if empty.
        patience: After how many iterations without a new best to stop, if at all.
        on_best: What to do when there is a new best.
        best: The best so far.
        iteration: When it was.
    """

    measure: Callable[[int], dict[str, float]]
    logs: Sequence[Log]
    every: int
    watched: str = ""
    patience: int | None = None
    on_best: Callable[[IterationEvent], None] = lambda moment: None
    best: float = field(default=math.inf, init=False)
    iteration: int = field(default=0, init=False)

    def __call__(self, moment: IterationEvent) -> None:
        """Validate, if it is time.

        Args:
            moment: When it is.

        Raises:
            EarlyStop: If there has been no new best for too long.
        """
        if not moment.every(self.every):
            return
        numbers = self.measure(moment.iteration)
        record = {"iteration": moment.iteration, "seconds": round(moment.seconds, 6)}
        finite = {name: v if math.isfinite(v) else None for name, v in numbers.items()}
        for log in self.logs:
            log({**record, "validation": finite})
        value = numbers[self.watched or next(iter(numbers))]
        if value < self.best:
            self.best, self.iteration = value, moment.iteration
            self.on_best(moment)
        if self.patience is not None and moment.iteration - self.iteration >= self.patience:
            raise EarlyStop(
                f"no better {self.watched or next(iter(numbers))} than {self.best:.6g} of "
                f"iteration {self.iteration} in {self.patience} iterations"
            )

    def state_dict(self) -> dict[str, Any]:
        """Return the best so far."""
        return {"best": self.best, "iteration": self.iteration}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a state."""
        self.best, self.iteration = float(state["best"]), int(state["iteration"])


@dataclass(frozen=True)
class SaveCheckpoint:
    """Write checkpoints.

    Attributes:
        write: What writes one.
        every: After how many iterations.
    """

    write: Callable[[IterationEvent], None]
    every: int

    def __call__(self, moment: IterationEvent) -> None:
        """Write one, if it is time."""
        if moment.every(self.every):
            self.write(moment)


class ProgressBar:
    """A progress bar with the loss, the time of an iteration and the time that is left.

    The loss shown is a running mean. Use as a context, since it draws on the terminal; where there
    is no terminal it prints nothing.
    """

    def __init__(self, name: str, console: Console | None = None) -> None:
        """Make a bar.

        Args:
            name: What is trained.
            console: Where to draw.
        """
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("loss {task.fields[loss]:.5g}  {task.fields[ms]:.3g} ms"),
            TimeRemainingColumn(),
            console=console,
        )
        self._name, self._task, self._loss = name, TaskID(-1), math.nan

    def __enter__(self) -> Self:
        """Begin to draw."""
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave the bar as it is."""
        self._progress.stop()

    def __call__(self, moment: IterationEvent) -> None:
        """Move on."""
        loss = moment.metrics["loss"]
        self._loss = loss if math.isnan(self._loss) else 0.98 * self._loss + 0.02 * loss
        if self._task == -1:
            self._task = self._progress.add_task(
                self._name, total=moment.iterations, loss=self._loss, ms=0.0
            )
        self._progress.update(
            self._task, completed=moment.iteration, loss=self._loss, ms=moment.milliseconds
        )
