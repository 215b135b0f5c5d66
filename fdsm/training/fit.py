"""The training loop."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from signal import SIGTERM

import torch
from torch import Generator, Tensor

from ..typing import Step
from .callbacks import Callback, EarlyStop, IterationEvent
from .metrics import Meter
from .signals import interruptible

MEMORY_MESSAGES = ("can't allocate memory", "not enough memory", "out of memory")
"""Parts of the errors of torch's allocators, which are plain `RuntimeError`s on a CPU."""
READ_EVERY = 10
"""Largest number of iterations between two readings of the metrics."""

Batches = Callable[[int, Generator], Tensor]
"""`iteration, generator -> (B, *E)`: returns the transformed batch of an iteration."""


class Interrupted(Exception):
    """Training was stopped by a signal.

    Attributes:
        signal: Number of the signal.
    """

    def __init__(self, signal: int) -> None:
        super().__init__(f"stopped by signal {signal}")
        self.signal = signal


class OutOfMemory(MemoryError):
    """A training step needs more memory than the device has."""


def _train_on(
    step: Step, batch: Tensor, generator: Generator, iteration: int
) -> Mapping[str, Tensor]:
    """Train on a batch. Raise `OutOfMemory` where torch or Python report too little memory."""
    try:
        return step(batch, generator)
    except (MemoryError, RuntimeError) as error:
        names_memory = any(text in str(error).lower() for text in MEMORY_MESSAGES)
        if not isinstance(error, (MemoryError, torch.OutOfMemoryError)) and not names_memory:
            raise
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise OutOfMemory(
            f"iteration {iteration}: there is not enough memory for a batch of shape "
            f"{tuple(batch.shape)} ({reason})"
        ) from error


def keep_freed_memory() -> None:
    """Make the allocator of Linux keep memory that is freed, for the next step.

    It returns large blocks to the system, and using them again costs a page fault for every 4 kB.
    It stops doing so for blocks up to the size of the largest one freed so far, at most 32 MiB.
    """
    with suppress(RuntimeError):  # there is not enough memory
        torch.empty(31 * 2**20, dtype=torch.uint8)


def fit(
    step: Step,
    batches: Batches,
    iterations: int,
    *,
    generator: Generator,
    callbacks: Sequence[Callback] = (),
    start: int = 0,
    seconds: float = 0.0,
    stop: Callable[[bool], bool] = bool,
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
        stop: Called after each iteration with whether a signal was received. Returns whether to
            stop, so that processes that train together can agree.

    Returns:
        The last event; None if no iteration was left.

    Raises:
        NonFiniteLossError: If a metric is not finite. Metrics are read at least every
            `READ_EVERY` iterations, and before a callback uses them or acts on `event.every`.
        OutOfMemory: If a step needs more memory than there is.
        Interrupted: After the iteration during which SIGINT, SIGTERM or SIGHUP was received.
        EarlyStop: If a callback raises it.

    Example:
        >>> import torch
        >>> class Count:
        ...     def __call__(self, batch, generator):
        ...         return {"loss": batch.mean()}
        >>> fit(Count(), lambda i, _: torch.full((2,), float(i)), 3, generator=Generator()).metrics
        {'loss': 2.0}
    """
    keep_freed_memory()
    meter, event = Meter(seconds), None
    with interruptible() as received:
        for i in range(start, iterations):
            batch = batches(i, generator)
            began = time.perf_counter()
            logged = _train_on(step, batch, generator, i + 1)
            metrics = meter.record(i + 1, logged, time.perf_counter() - began)
            if i == start or (i + 1) % READ_EVERY == 0 or i + 1 == iterations:
                meter.read()
            event = IterationEvent(i + 1, iterations, meter.seconds, meter.milliseconds, metrics)
            try:
                for callback in callbacks:
                    callback(event)
            except EarlyStop:
                meter.read()
                raise
            if stop(bool(received)) and i + 1 < iterations:
                meter.read()
                raise Interrupted(received[0] if received else SIGTERM)
    return event
