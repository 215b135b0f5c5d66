"""What a callback is told after an iteration."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class IterationEvent:
    """The state of a training after an iteration.

    Attributes:
        iteration: How many iterations have been made.
        iterations: How many there will be.
        seconds: The time they took so far, of the steps alone.
        milliseconds: The median time of the last iterations.
        metrics: What the step logged.
    """

    iteration: int
    iterations: int
    seconds: float
    milliseconds: float
    metrics: Mapping[str, float]

    def every(self, n: int) -> bool:
        """Return whether this is an `n`-th iteration or the last; never if `n` is zero."""
        return n > 0 and (self.iteration % n == 0 or self.iteration == self.iterations)


class Callback(Protocol):
    """Something to do after every iteration; it may raise `EarlyStop`."""

    def __call__(self, moment: IterationEvent) -> None:
        """Do it."""
        ...


class EarlyStop(Exception):
    """The training is over before its last iteration; the message says why."""
