"""Functions that are compared in one run, and how they are timed."""

import os
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from fdsm.derivatives import PrecisionWarning
from fdsm.evaluation import single_threaded, time_interleaved

from .records.record import Case, Cost

Build = Callable[[], Callable[[], object]]
"""Prepares a function and returns it: builds a network, compiles a step."""

WARM_UP = 3


class Unsupported(RuntimeError):
    """A case cannot be measured, for example because torch cannot compile it."""


@dataclass(frozen=True)
class Group:
    """Functions on one problem, timed in interleaved runs.

    Attributes:
        problem: Name of the problem.
        cases: Constructors of the functions.
        repeats: Number of timed calls of each function.
    """

    problem: str
    cases: Mapping[Case, Build]
    repeats: int

    def only(self, wanted: Iterable[Case]) -> "Group":
        """Return the group with some of its cases."""
        kept = set(wanted)
        cases = {case: build for case, build in self.cases.items() if case in kept}
        return Group(self.problem, cases, self.repeats)


Measure = Callable[[Group], Sequence[Cost]]
"""Measures the costs of the cases of a group."""


def time_group(group: Group) -> list[Cost]:
    """Time the functions of a group in interleaved runs, with one thread.

    Args:
        group: The functions.

    Returns:
        The CPU seconds of every run.
    """
    with single_threaded(), quiet():
        functions = dict(_build_all(group))
        times = time_interleaved(
            {case.label: function for case, function in functions.items()},
            group.repeats,
            torch.device("cpu"),
            warm_up=WARM_UP,
        )
    return [
        Cost(group.problem, case, tuple(float(f"{t:.4g}") for t in times[case.label]))
        for case in functions
    ]


def _build_all(group: Group) -> Iterator[tuple[Case, Callable[[], object]]]:
    for case, build in group.cases.items():
        try:
            yield case, build()
        except Unsupported as error:
            warnings.warn(f"{case.label} on {group.problem} is left out: {error}", stacklevel=2)


@contextmanager
def quiet() -> Generator[None, None, None]:
    """Hide warnings about the precision of finite differences: only their cost is measured."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrecisionWarning)
        yield


def pin_to_one_core() -> None:
    """Run this process on one core, the last one that it may use, and JAX with one thread.

    Only Linux can pin a process. Elsewhere it may move between cores. JAX reads its setting when
    it is imported.
    """
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
