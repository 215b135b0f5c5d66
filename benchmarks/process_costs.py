"""CPU time and peak memory of a function in a process of its own."""

import os
import resource
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
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
        used = resource.getrusage(resource.RUSAGE_SELF)
        unit = 1 if sys.platform == "darwin" else 1024
        return cls(sum(os.times()[:4]), unit * used.ru_maxrss)


def in_new_process(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function in a new process, so that its peak memory is its own.

    On Linux the peak begins with that of the process that starts the new one. Keep that small.

    Args:
        function: A function that can be pickled.
        args: Its arguments.
        kwargs: Its named arguments.

    Returns:
        Its value.
    """
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(function, *args, **kwargs).result()
