"""One call that protects an engine: `with checked(self, f, x, v, cond) as model`."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Self

from torch import Tensor

from ...typing import Derivative, LogDensity, Score, is_exact
from .arguments import check_arguments, checked_output
from .findings import refuse
from .inspection import Inspect, examine
from .observation import random_state, restore_random_state, same_state
from .precision import (
    Undo,
    forbid_reduced_precision,
    full_precision_backward,
    require_full_precision,
)
from .state import Record


class BareModel:
    """A model without checks, as an engine calls it inside a `with` block.

    Attributes:
        engine: Name of the engine.
        record: The record of the model; none here.
        is_due: Whether the model was inspected before this evaluation.
    """

    engine: str = ""
    record: Record | None = None
    is_due: bool = False

    def __init__(self, f: Callable[..., Tensor]) -> None:
        self._f = f

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass

    def __call__(self, x: Tensor, *cond: Tensor) -> Tensor:
        """Return the values of the model."""
        return self._f(x, *cond)

    def replayed(self, points: Iterable[Tensor]) -> Iterator[Tensor]:
        """Yield the points."""
        yield from points


class CheckedModel(BareModel):
    """A model of which all calls inside a `with` block see the same function.

    Unless the engine is exact, the block leaves autocast and reduced-precision matrix products,
    and its end refuses random numbers, unless they were `replayed`, and buffers that changed
    between several calls.
    """

    _undo: Undo | None = None
    _calls: int = 0
    _replays: bool = False
    _buffers: Sequence[tuple[Tensor, int]] = ()

    def __init__(
        self,
        f: Callable[..., Tensor],
        x: Tensor,
        record: Record | None,
        engine: str,
        *,
        is_due: bool = False,
        is_exact: bool = False,
    ) -> None:
        """Protect a model.

        Args:
            f: The model.
            x: The data, shape `(B, *E)`.
            record: Its record. `None` while the code is traced.
            engine: Name of the engine.
            is_due: Whether the model was inspected before this evaluation.
            is_exact: Whether the engine is exact.
        """
        super().__init__(f)
        self.engine, self.record, self.is_due = engine, record, is_due
        self._is_exact, self._device = is_exact, x.device

    def __enter__(self) -> Self:
        if not self._is_exact:
            self._state = () if self.record is None else random_state(self._device)
            self._undo = forbid_reduced_precision(self._device)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._is_exact:
            return
        for restore in self._undo or ():
            restore()
        if kind is not None or self.record is None:
            return
        if not (self._replays or same_state(random_state(self._device), self._state)):
            refuse(
                "random numbers",
                "the model drew random numbers (dropout?) while all points of a difference were "
                "evaluated in one batch, so each point saw different ones (another thread may "
                "also have drawn them): use FiniteDifference(parallel=False), which replays the "
                "same numbers at every point, or call `model.eval()`",
            )
        if any(buffer._version != version for buffer, version in self._buffers):
            refuse(
                "buffers",
                "the model changes its buffers at every call (spectral norm?), so the points of a "
                "difference evaluated one by one see different functions: use "
                "FiniteDifference(parallel=True), or call `model.eval()`",
            )

    def __call__(self, x: Tensor, *cond: Tensor) -> Tensor:
        """Return the values of the model, whose backward pass then runs in full precision."""
        self._calls += 1
        if self._is_exact:
            return self._f(x, *cond)
        if self._undo is None:
            raise RuntimeError("call the model inside a block: `with checked(...) as model`")
        if self._calls == 2 and self.record is not None:
            self._buffers = list(_buffer_versions(self.record))
        values = self._f(x, *cond)
        require_full_precision(values, "the values of the model")
        if self._undo:
            full_precision_backward(values)
        return values

    def replayed(self, points: Iterable[Tensor]) -> Iterator[Tensor]:
        """Yield the points, each with the random state of the first."""
        self._replays = True
        for point in points:
            restore_random_state(self._state, self._device)
            yield point.clone()  # the model may write into it


def checked(
    engine: Derivative,
    f: LogDensity | Score,
    x: Tensor,
    v: Tensor | None,
    cond: Sequence[Tensor] = (),
    *,
    several: bool = False,
    score: bool = False,
    inspect: Inspect | None = None,
) -> CheckedModel:
    """Check everything about one evaluation of a model by an engine.

    The arguments are checked first. At the 1st, 2nd, 4th, 8th, … evaluation the model is
    inspected, and refused if the values of a row depend on other rows. Calls of the model are
    checked for their shape. An engine that is not exact, because it compares values at several
    points, calls the model inside a `with` block, where all points must see the same function in
    full precision; see `CheckedModel`.

    Args:
        engine: The engine. Its attribute `is_exact` says whether it compares values at several
            points, and the state of a model is kept by the name of its class.
        f: The model.
        x: The data, shape `(B, *E)`.
        v: The directions, shape `(B, *E)`, or `(V, B, *E)` where `several` are expected. `None` if
            there are none.
        cond: Conditions of the model, one row per example.
        several: Whether `v` holds several directions per example.
        score: Whether the model is a score rather than a log-density.
        inspect: A further inspection, given the model and its record.

    Returns:
        The model.

    Raises:
        TypeError: If a type or device does not fit.
        ValueError: If a shape does not fit, or `x` or `v` are not finite, or `v` is zero.
        RuntimeError: If rows depend on each other.

    Example:
        >>> import torch
        >>> from fdsm import FiniteDifference
        >>> x, v = torch.ones(8, 2), torch.full((8, 2), 0.1)
        >>> with checked(FiniteDifference(), lambda x: x.square().sum(1), x, v) as model:
        ...     slope = (model(x + v) - model(x - v)) / 2
        >>> with checked(FiniteDifference(), lambda x: x.sum(1) + torch.rand(8), x, v) as model:
        ...     slope = (model(x + v) - model(x - v)) / 2
        Traceback (most recent call last):
        RuntimeError: the model drew random numbers (dropout?) while all points of a difference...
    """
    if v is not None:
        check_arguments(x, v, cond, several=several)
    exact = is_exact(engine)
    if not exact:
        require_full_precision(x, "the data")
    function = checked_output(f, score=score)
    name = type(engine).__name__
    record, is_due = examine(name, function, x, cond, exact, inspect)
    return CheckedModel(function, x, record, name, is_due=is_due, is_exact=exact)


def _buffer_versions(record: Record) -> Iterator[tuple[Tensor, int]]:
    """Yield the buffers of a model, and how often each has been written to."""
    for module in record.modules:
        for buffer in module.buffers():
            if not buffer.is_inference():
                yield buffer, buffer._version
