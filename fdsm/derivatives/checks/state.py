"""All state of the checks: what is remembered about each model, and what this thread does.

There is one table of records for all engines. A thread has one object, which says whether its code
is being traced, whether models are inspected at every evaluation, and where findings go.
"""

import threading
from collections import OrderedDict
from collections.abc import Generator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FunctionType
from typing import TYPE_CHECKING
from weakref import ReferenceType, WeakKeyDictionary, WeakSet

import torch
from torch import nn
from torch.utils.weak import WeakIdKeyDictionary

from .identity import Function, model_behind

if TYPE_CHECKING:
    from .findings import Finding

MOST_FUNCTIONS = 1024
"""Maximum number of functions without modules that are remembered."""


@dataclass
class Record:
    """State kept for one model.

    Attributes:
        evaluations: Number of evaluations so far, by engine.
        warned: Names of the warnings already shown for this model.
        modules: The modules that the model called when it was last inspected.
        batch_norms: References to those of them that are batch norms.
        is_compiled: Whether it had compiled parts when that was last looked for.
        without_backward: Names of the nodes in the graph of its gradient that cannot be
            differentiated, by engine.
    """

    evaluations: dict[str, int] = field(default_factory=dict)
    warned: set[str] = field(default_factory=set)
    modules: WeakSet[nn.Module] = field(default_factory=WeakSet)
    batch_norms: tuple[ReferenceType[nn.Module], ...] = ()
    is_compiled: bool = False
    without_backward: dict[str, str] = field(default_factory=dict)

    def count(self, engine: str) -> bool:
        """Count an evaluation by an engine.

        Args:
            engine: Name of the engine.

        Returns:
            Whether to inspect the model: at the 1st, 2nd, 4th, 8th, … evaluation.
        """
        number = self.evaluations[engine] = self.evaluations.get(engine, 0) + 1
        return number.bit_count() == 1 or THREAD.always_due

    @contextmanager
    def still_due_if_refused(self, engine: str) -> Generator[None]:
        """Inspect the model again at its next evaluation if an inspection raises an error."""
        try:
            yield
        except BaseException:
            self.evaluations[engine] = 0
            raise


class Records:
    """A `Record` per model, kept as long as the model lives."""

    def __init__(self) -> None:
        self._modules: WeakKeyDictionary[nn.Module, Record] = WeakKeyDictionary()
        self._objects: MutableMapping[object, Record] = WeakIdKeyDictionary()
        self._functions: OrderedDict[object, tuple[object, Record]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._modules) + len(self._objects) + len(self._functions)

    def of(self, f: object) -> Record:
        """Return the record of a model, created at its first use."""
        while isinstance(f, FunctionType) and hasattr(f, "__wrapped__"):
            f = f.__wrapped__
        model = f if isinstance(f, nn.Module) else model_behind(f)
        if isinstance(model, nn.Module):
            return self._modules.get(model) or self._modules.setdefault(model, Record())
        if isinstance(model, Function):
            return self._of_function(model.key(), model)
        try:
            return self._objects.setdefault(model, Record())
        except TypeError:  # an object without weak references
            return self._of_function(type(model), model)

    def _of_function(self, key: object, function: object) -> Record:
        if key not in self._functions:
            self._functions[key] = function, Record()
            if len(self._functions) > MOST_FUNCTIONS:
                self._functions.popitem(last=False)
        return self._functions[key][1]


RECORDS = Records()
"""The records of all models, for all engines."""


@dataclass
class Trace:
    """What a tracer must know about the code that it follows.

    Attributes:
        full_precision: Whether matrix products must not be computed in reduced precision.
    """

    full_precision: bool = False


class _Thread(threading.local):
    """What the checks do in this thread.

    Attributes:
        trace: Set inside `tracing`.
        always_due: Whether models are inspected at every evaluation.
        findings: Where findings are collected. By default they are raised and warned of.
        records: The records in use.
    """

    trace: Trace | None = None
    always_due: bool = False
    findings: "list[Finding] | None" = None
    records: Records = RECORDS


THREAD = _Thread()


def record_of(f: object) -> Record:
    """Return the record of a model, created at its first use."""
    return THREAD.records.of(f)


def is_tracing() -> bool:
    """Return whether `torch.compile` or a tracer inside `tracing` follows the code.

    Checks of numbers, inspections of models and changes of global settings are left out then.
    """
    return torch.compiler.is_compiling() or THREAD.trace is not None


@contextmanager
def tracing() -> Generator[Trace]:
    """Context manager for tracers other than `torch.compile`, such as `make_fx`.

    Yields:
        What the tracer must take care of.

    Example:
        >>> from torch.fx.experimental.proxy_tensor import make_fx
        >>> from fdsm import SSM, FiniteDifference
        >>> loss = lambda x, v: SSM(FiniteDifference()).at(lambda x: x.cos().sum(1), x, v)
        >>> with tracing():
        ...     graph = make_fx(loss)(torch.zeros(2, 3), torch.full((2, 3), 0.1))
        >>> graph(torch.full((2, 3), 0.5), torch.full((2, 3), 0.1)).shape
        torch.Size([2])
    """
    before, THREAD.trace = THREAD.trace, Trace()
    try:
        yield THREAD.trace
    finally:
        THREAD.trace = before


def request_full_precision() -> None:
    """Tell the tracer that matrix products must not be computed in reduced precision."""
    if THREAD.trace is not None:
        THREAD.trace.full_precision = True


@contextmanager
def inspections_due() -> Generator[None]:
    """Inspect models at every evaluation, as for a compiled step, which has few eager ones."""
    before, THREAD.always_due = THREAD.always_due, True
    try:
        yield
    finally:
        THREAD.always_due = before


@contextmanager
def collecting() -> "Generator[list[Finding]]":
    """Collect findings instead of raising errors and warning, with new records.

    Yields:
        The findings so far.
    """
    before = THREAD.findings, THREAD.records
    THREAD.findings, THREAD.records = [], Records()
    try:
        yield THREAD.findings
    finally:
        THREAD.findings, THREAD.records = before
