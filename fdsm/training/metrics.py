"""Metrics of training steps, which stay on their device until they are needed."""

import math
import statistics
import time
from collections import deque
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

WINDOW = 10
"""The logged time of an iteration is the median over this number of readings."""


class NonFiniteLossError(ArithmeticError):
    """The loss or the norm of its gradient is infinite or NaN."""


class DeviceMetrics(Mapping[str, float]):
    """The metrics of an iteration, which are read when the first of them is used."""

    def __init__(self, iteration: int, logged: Mapping[str, Tensor], meter: "Meter") -> None:
        """Keep tensors for later.

        Args:
            iteration: Number of the iteration, from 1 on.
            logged: Scalars by name.
            meter: The meter that reads them, with those of other iterations.
        """
        self.iteration, self.logged, self.meter = iteration, logged, meter
        self.numbers: dict[str, float] | None = None

    def read(self) -> dict[str, float]:
        """Return the metrics.

        Returns:
            The numbers by name.

        Raises:
            NonFiniteLossError: If a metric of this or an earlier iteration is not finite.
        """
        if self.numbers is None:
            self.meter.read()
        assert self.numbers is not None
        return self.numbers

    def __getitem__(self, name: str) -> float:
        """Return one metric."""
        return self.read()[name]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(self.logged)

    def __len__(self) -> int:
        """Return the number of metrics."""
        return len(self.logged)

    def __repr__(self) -> str:
        """Return the numbers by name."""
        return repr(self.read())


class Meter:
    """The time of training, and the metrics that have not been read yet.

    Numbers on the CPU are read at once. Reading a number of another device would make the CPU
    wait for all of its work. Such numbers are read together when they are needed, with one copy
    for all iterations since the last reading.

    Attributes:
        seconds: Time of all steps, and of reading their metrics.
        milliseconds: Median time of an iteration between two readings.

    Example:
        >>> meter = Meter()
        >>> meter.record(1, {"loss": torch.tensor(2.0)}, 0.004)
        {'loss': 2.0}
        >>> meter.read()
        >>> meter.milliseconds
        4.0
    """

    def __init__(self, seconds: float = 0.0) -> None:
        """Start to measure.

        Args:
            seconds: Time of the iterations before.
        """
        self.seconds, self.milliseconds = seconds, math.nan
        self._steps, self._seconds_read = 0, seconds
        self._times: deque[float] = deque(maxlen=WINDOW)
        self._unread: list[DeviceMetrics] = []

    def record(
        self, iteration: int, logged: Mapping[str, Tensor], seconds: float
    ) -> Mapping[str, float]:
        """Add the metrics of a step.

        Args:
            iteration: Number of the iteration, from 1 on.
            logged: Scalars by name. Those that are not on the CPU must not change later.
            seconds: Time of the step.

        Returns:
            The metrics.

        Raises:
            NonFiniteLossError: If a metric on the CPU is not finite.
        """
        self.seconds += seconds
        self._steps += 1
        for value in logged.values():
            if isinstance(value, Tensor) and not value.is_cpu:
                break
        else:
            return _finite({name: float(value) for name, value in logged.items()}, iteration)
        kept = {name: torch.as_tensor(value).detach() for name, value in logged.items()}
        self._unread.append(DeviceMetrics(iteration, kept, self))
        return self._unread[-1]

    def read(self) -> None:
        """Read the metrics that have not been read, and measure the time since the last reading.

        Raises:
            NonFiniteLossError: If one of them is not finite. It names the first such iteration.
        """
        if self._unread:
            began = time.perf_counter()
            values = _numbers([value for entry in self._unread for value in entry.logged.values()])
            self.seconds += time.perf_counter() - began
            read = [
                _finite({name: next(values) for name in entry.logged}, entry.iteration)
                for entry in self._unread
            ]
            for entry, numbers in zip(self._unread, read, strict=True):
                entry.numbers = numbers
            self._unread.clear()
        if self._steps:
            self._times.append((self.seconds - self._seconds_read) / self._steps)
            self.milliseconds = 1000 * statistics.median(self._times)
            self._steps, self._seconds_read = 0, self.seconds


def _numbers(values: list[Tensor]) -> Iterator[float]:
    """Return scalars as numbers, with one copy for each device and dtype."""
    kinds = [(value.device, value.dtype) for value in values]
    groups: dict[tuple[torch.device, torch.dtype], list[Tensor]] = {kind: [] for kind in kinds}
    for kind, value in zip(kinds, values, strict=True):
        groups[kind].append(value.reshape(1))
    copied = {kind: iter(torch.cat(group).tolist()) for kind, group in groups.items()}
    return (float(next(copied[kind])) for kind in kinds)


def _finite(metrics: dict[str, float], iteration: int) -> dict[str, float]:
    """Return metrics if they are finite, otherwise raise `NonFiniteLossError`."""
    bad = {name: value for name, value in metrics.items() if not math.isfinite(value)}
    if not bad:
        return metrics
    values = ", ".join(f"{name} = {value}" for name, value in bad.items())
    raise NonFiniteLossError(
        f"iteration {iteration}: {values}. Likely causes: the learning rate is too high (try a "
        "tenth of it, or clip the gradient); the data have infinite values or constant columns, "
        "for which score matching has no minimum (add noise); the finite-difference step is so "
        "small that rounding dominates (see `fdsm.evaluation.check_consistency`)"
    )
