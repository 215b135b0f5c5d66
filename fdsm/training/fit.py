"""The loop."""

import math
import statistics
import time
from collections import deque
from collections.abc import Callable, Sequence

from torch import Generator, Tensor

from ..typing import Step
from .events import Callback, IterationEvent
from .signals import interruptible

WINDOW = 100
"""Of how many iterations the logged time is a median."""

Batches = Callable[[int, Generator], Tensor]
"""`iteration, generator -> (B, *E)`: the batch for an iteration, transformed."""


class NonFiniteLossError(ArithmeticError):
    """A loss, or the norm of its gradient, was infinite or not a number."""


class Interrupted(Exception):
    """The training was asked to stop by a signal.

    Attributes:
        signal: The number of the signal.
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
    """Train.

    Args:
        step: What to do in an iteration.
        batches: The data; iteration `i` gets `batches(i, generator)`.
        iterations: How many to make, with those made before.
        generator: Source of everything random in batches and steps.
        callbacks: What to do after each iteration, in this order.
        start: How many were made before.
        seconds: How long those took.

    Returns:
        The last moment; nothing if there was nothing to do.

    Raises:
        NonFiniteLossError: If a loss is not finite; callbacks have not seen that iteration.
        Interrupted: After an iteration in which SIGINT or SIGTERM arrived.

    Example:
        >>> import torch
        >>> class Count:
        ...     def __call__(self, batch, generator):
        ...         return {"loss": batch.mean()}
        >>> fit(Count(), lambda i, _: torch.full((2,), float(i)), 3, generator=Generator()).metrics
        {'loss': 2.0}
    """
    times: deque[float] = deque(maxlen=WINDOW)
    moment = None
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
            moment = IterationEvent(iteration + 1, iterations, seconds, milliseconds, metrics)
            for callback in callbacks:
                callback(moment)
            if received and iteration + 1 < iterations:
                raise Interrupted(received[0])
    return moment


def _require_finite(metrics: dict[str, float], iteration: int) -> None:
    bad = {name: value for name, value in metrics.items() if not math.isfinite(value)}
    if bad:
        values = ", ".join(f"{name} = {value}" for name, value in bad.items())
        raise NonFiniteLossError(
            f"iteration {iteration + 1}: {values}. Likely causes: a learning rate that is too "
            "high (try a tenth of it, or clip the gradient); data with infinite values or "
            "constant columns, on which score matching has no minimum (add noise); a "
            "finite-difference step so small that the difference is rounding (`fdsm check`)"
        )
