"""The training loop."""

import math
import statistics
import time
from collections import deque
from collections.abc import Callable, Sequence

from torch import Generator, Tensor

from ..typing import Step
from .callbacks import Callback, IterationEvent
from .signals import interruptible

WINDOW = 100
"""The logged time is the median over this number of iterations."""

Batches = Callable[[int, Generator], Tensor]
"""`iteration, generator -> (B, *E)`: returns the transformed batch of an iteration."""


class NonFiniteLossError(ArithmeticError):
    """The loss or the norm of its gradient is infinite or NaN."""


class Interrupted(Exception):
    """Training was stopped by a signal.

    Attributes:
        signal: Number of the signal.
    """

    def __init__(self, signal: int) -> None:
        super().__init__(f"stopped by signal {signal}")
        self.signal = signal


def fit(
    step: Step,
    batches: Batches,
    iterations: int,
    *,
    generator: Generator,
    callbacks: Sequence[Callback] = (),
    start: int = 0,
    seconds: float = 0.0,
) -> IterationEvent | None:
    """Run the training loop.

    Args:
        step: Trains on one batch.
        batches: The data. Iteration `i` uses `batches(i, generator)`.
        iterations: Total number of iterations, including those before `start`.
        generator: Random number generator of batches and steps.
        callbacks: Called after each iteration, in this order.
        start: Number of iterations completed before.
        seconds: Time of those iterations.

    Returns:
        The last event; None if no iteration was left.

    Raises:
        NonFiniteLossError: If a metric is not finite. No callback is called for that iteration.
        Interrupted: After the iteration during which SIGINT or SIGTERM was received.
        EarlyStop: If a callback raises it.

    Example:
        >>> import torch
        >>> class Count:
        ...     def __call__(self, batch, generator):
        ...         return {"loss": batch.mean()}
        >>> fit(Count(), lambda i, _: torch.full((2,), float(i)), 3, generator=Generator()).metrics
        {'loss': 2.0}
    """
    times: deque[float] = deque(maxlen=WINDOW)
    event = None
    with interruptible() as received:
        for iteration in range(start, iterations):
            batch = batches(iteration, generator)
            began = time.perf_counter()
            logged = step(batch, generator)
            metrics = {name: float(value) for name, value in logged.items()}
            times.append(time.perf_counter() - began)
            seconds += times[-1]
            _require_finite(metrics, iteration)
            milliseconds = 1000 * statistics.median(times)
            event = IterationEvent(iteration + 1, iterations, seconds, milliseconds, metrics)
            for callback in callbacks:
                callback(event)
            if received and iteration + 1 < iterations:
                raise Interrupted(received[0])
    return event


def _require_finite(metrics: dict[str, float], iteration: int) -> None:
    bad = {name: value for name, value in metrics.items() if not math.isfinite(value)}
    if bad:
        values = ", ".join(f"{name} = {value}" for name, value in bad.items())
        raise NonFiniteLossError(
            f"iteration {iteration + 1}: {values}. Likely causes: the learning rate is too high "
            "(try a tenth of it, or clip the gradient); the data have infinite values or "
            "constant columns, for which score matching has no minimum (add noise); the finite-"
            "difference step is so small that rounding dominates (see "
            "`fdsm.evaluation.check_consistency`)"
        )
