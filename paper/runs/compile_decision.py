"""Whether compiling a step saves more time than it takes."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator
from torch.utils._python_dispatch import TorchDispatchMode

from fdsm.derivatives import tracing
from fdsm.training import Update

__all__ = ["Estimate", "estimate_saving"]

COMPILE_SECONDS = 0.06
"""Time that compiling takes per operation. Measured on a shared core: 5 to 30 seconds for the 200
to 300 operations of a small network, minutes for a convolutional one."""
CALLS = 3
"""Time saved per operation, in units of calling the smallest one. Measured on an MLP of three
layers of 128 units: 2.9 for finite differences, 4.5 for DSM and 4.8 for Taylor."""


@dataclass(frozen=True)
class Estimate:
    """The time that a compiled step would save.

    Attributes:
        operations: Number of operations of an eager step.
        seconds: Time that a compiled step saves for each of them.
    """

    operations: int
    seconds: float

    @property
    def compile_seconds(self) -> float:
        """Seconds that compiling takes."""
        return COMPILE_SECONDS * self.operations

    def saving(self, iterations: int) -> float:
        """Return the seconds saved in a number of iterations, without those of compiling."""
        return iterations * self.operations * self.seconds

    def pays(self, iterations: int) -> bool:
        """Return whether compiling pays for a number of iterations."""
        return self.saving(iterations) > self.compile_seconds


def estimate_saving(
    update: Update, batch: tuple[torch.Tensor, ...], generator: Generator | None, progress: float
) -> Estimate:
    """Count the operations of a step, and measure what calling one costs.

    A compiled graph saves little of the work of large matrix products, but most of the time
    between operations. That time is measured on tensors so small that there is no work.

    Args:
        update: The update.
        batch: The tensors of a batch.
        generator: Random number generator of the loss, one of its own.
        progress: The progress of training.

    Returns:
        The estimate.
    """
    with tracing(), _Counter() as counter:  # type: ignore[no-untyped-call]
        loss = update.loss(*batch, generator, progress).mean()
        torch.autograd.grad(loss, update.parameters, allow_unused=True)
    return Estimate(counter.operations, CALLS * _seconds_per_call())


class _Counter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the operations that torch computes."""

    operations = 0

    def __torch_dispatch__(
        self,
        function: Callable[..., Any],
        types: Iterable[type],
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # ruff: ignore[any-type]
        """Count an operation."""
        self.operations += 1
        return function(*args, **(kwargs or {}))


def _seconds_per_call(repeats: int = 5, count: int = 200) -> float:
    """Return the time of an elementwise operation on a tiny tensor, recorded by autograd."""
    x = torch.ones(8, requires_grad=True)
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        for _ in range(count):
            x.neg()
        times.append((time.perf_counter() - began) / count)
    return min(times)
