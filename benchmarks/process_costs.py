"""CPU time and peak memory of a function in a process of its own."""

import os
import resource
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class ProcessCosts:
    """What a process has used since it began.

    Attributes:
        cpu_seconds: CPU time of all threads and of processes that have ended.
        peak_bytes: Largest resident memory. It never falls.
    """

    cpu_seconds: float
    peak_bytes: int

    @classmethod
    def now(cls) -> "ProcessCosts":
        """Return the costs of this process until now."""
        return cls(sum(os.times()[:4]), _peak_bytes())


def _peak_bytes() -> int:
    """Return the largest resident memory of this process."""
    status = Path("/proc/self/status")
    if status.exists():  # on Linux, getrusage begins with the peak of the process that started it
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return 1024 * int(line.split()[1])
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def in_new_process(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function in a new process, so that its peak memory is its own.

    Args:
        function: A function that can be pickled.
        args: Its arguments.
        kwargs: Its named arguments.

    Returns:
        Its value.
    """
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(function, *args, **kwargs).result()
