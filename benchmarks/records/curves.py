"""Held-out losses of trainings, and what they say about methods."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import fmean, stdev

from fdsm.measurement import Measurement
from fdsm.serialize import Json


@dataclass(frozen=True)
class Curve:
    """The held-out loss during a training.

    Attributes:
        problem: Name of the problem.
        method: Name of the method.
        seed: Random seed.
        compile_seconds: Elapsed time of the first steps, which may compile.
        steps: Number of steps.
        seconds: CPU time of training before each evaluation, after the first steps.
        losses: Held-out losses.
    """

    problem: str
    method: str
    seed: int
    compile_seconds: float
    steps: int
    seconds: tuple[float, ...]
    losses: tuple[float, ...]

    def loss_at(self, seconds: float) -> float:
        """Return the loss after some time, by linear interpolation.

        Args:
            seconds: The time. Before the first evaluation the loss is that of the first one, and
                after the last one that of the last one.

        Returns:
            The loss.

        Example:
            >>> Curve("p", "m", 0, 0.0, 10, (0.0, 1.0, 3.0), (5.0, 3.0, 1.0)).loss_at(2.0)
            2.0
        """
        points = list(zip(self.seconds, self.losses, strict=True))
        if seconds <= points[0][0]:
            return points[0][1]
        for (t0, y0), (t1, y1) in pairwise(points):
            if seconds <= t1:
                return y0 + (y1 - y0) * (seconds - t0) / (t1 - t0)
        return points[-1][1]


@dataclass(frozen=True)
class Trainings:
    """Trainings of several methods with the same CPU time.

    Attributes:
        name: Name of the benchmark.
        seconds: CPU time of each training.
        curves: Held-out losses of every training.
        date: Day of the measurement.
        machine: Processor and versions.
    """

    name: str
    seconds: float
    curves: tuple[Curve, ...]
    date: str = ""
    machine: Mapping[str, Json] = field(default_factory=dict)

    @property
    def problems(self) -> list[str]:
        """Names of the problems."""
        return list(dict.fromkeys(curve.problem for curve in self.curves))

    def methods(self, problem: str) -> list[str]:
        """Return the names of the methods on a problem."""
        return list(dict.fromkeys(c.method for c in self.curves if c.problem == problem))

    def of(self, problem: str, method: str) -> list[Curve]:
        """Return the curves of all seeds."""
        return [c for c in self.curves if (c.problem, c.method) == (problem, method)]

    def compile_seconds(self, problem: str, method: str) -> float:
        """Return the longest time of the first steps, that with an empty cache."""
        return max(curve.compile_seconds for curve in self.of(problem, method))

    def loss_at(self, problem: str, method: str, seconds: float) -> Measurement:
        """Return the mean loss after some time of training, and its standard error over seeds."""
        losses = [curve.loss_at(seconds) for curve in self.of(problem, method)]
        error = stdev(losses) / len(losses) ** 0.5 if len(losses) > 1 else None
        return Measurement(fmean(losses), error)

    def final_loss(self, problem: str, method: str, *, count_compilation: bool) -> Measurement:
        """Return the loss at equal CPU time, with or without the time of compilation."""
        compiling = self.compile_seconds(problem, method) if count_compilation else 0.0
        return self.loss_at(problem, method, self.seconds - compiling)

    def seconds_to(self, problem: str, method: str, loss: float) -> float | None:
        """Return the time after which the mean loss first reaches a value.

        Args:
            problem: Name of the problem.
            method: Name of the method.
            loss: The value to reach.

        Returns:
            The CPU time of training, or `None` if it is not reached.
        """
        times = [
            fmean(t) for t in zip(*(c.seconds for c in self.of(problem, method)), strict=True)
        ]
        losses = [self.loss_at(problem, method, t).value for t in times]
        points = list(zip(times, losses, strict=True))
        if losses[0] <= loss:
            return times[0]
        for (t0, y0), (t1, y1) in pairwise(points):
            if y1 <= loss:
                return t0 + (t1 - t0) * (y0 - loss) / (y0 - y1)
        return None
