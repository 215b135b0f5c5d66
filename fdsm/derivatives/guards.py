r"""Guards around the evaluation of a model.

A derivative is right only if every value it is computed from belongs to one deterministic
function of a single row. The guards refuse models that violate this:

- batch norm in training mode and other dependence between rows,
- random numbers that differ between the points of a difference,
- buffers that change between the calls of one difference,
- reduced precision: autocast, TF32 and bfloat16 matrix products, half-precision values.

One evaluation does not show all of these. Before its 1st, 2nd, 4th, 8th, … evaluation, a model is
inspected: it is evaluated a few more times, without side effects.
"""

import sys
import threading
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from types import TracebackType
from typing import Self
from weakref import WeakSet, ref

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.nn.parameter import is_lazy

from .precision import (
    device_type,
    forbid_reduced_precision,
    full_precision,
    full_precision_backward,
    require_full_precision,
)
from .records import Record, Records, is_compiled
from .tracing import is_tracing

MAX_ROW_CHANGE_STDS = 0.01
"""Largest accepted change of a row with the other rows, in standard deviations of the values."""

RandomState = tuple[Tensor, ...]
"""States of the global generators a model may draw from: of the CPU, and of its device."""


_TRACED = Record(is_traced=True)


def examine(
    records: Records,
    f: Callable[..., Tensor],
    x: Tensor,
    cond: Sequence[Tensor],
    inspect: Callable[["Observed", Record], None] | None = None,
) -> Record:
    """Count an evaluation of a model, and refuse it if rows depend on each other.

    At the 1st, 2nd, 4th, 8th, … evaluation the model is inspected. In between, its batch norms
    must be in evaluation mode. While compiling only the batch norms of a module are checked.

    Args:
        records: The records of the engine.
        f: The model.
        x: The data, shape `(B, *E)`.
        cond: Conditions of the model, one row per example.
        inspect: A further inspection.

    Returns:
        The record of the model.
    """
    if is_tracing():
        model = getattr(f, "__wrapped__", f)
        for module in model.modules() if isinstance(model, nn.Module) else ():
            require_fixed_statistics(module)
        return _TRACED
    record = records.of(f)
    record.evaluations += 1
    if record.is_due and not (x.is_meta or x.numel() == 0):
        with record.still_due_if_refused():
            x, observed = x.detach(), Observed(f, x.device)
            require_independent_rows(observed, x, cond)
            record.modules = WeakSet(observed.modules)
            norms = (m for m in observed.modules if isinstance(m, _BatchNorm))
            record.batch_norms = tuple(map(ref, norms))
            if inspect is not None:
                inspect(observed, record)
    for reference in record.batch_norms:
        require_fixed_statistics(reference())
    return record


def require_fixed_statistics(module: nn.Module | None) -> None:
    """Raise `RuntimeError` if a batch norm uses the statistics of the batch."""
    if isinstance(module, _BatchNorm) and (module.training or module.running_mean is None):
        raise RuntimeError(
            f"{type(module).__name__} uses the statistics of the batch, so every row depends on "
            "all others and has no derivative of its own: call `.eval()` on it, or use a norm "
            "within each example (group, layer, instance)"
        )


class _Eagerly:
    """Context manager in which compiled functions run eagerly, in any number of threads.

    It does nothing if the compiler has not been imported, so that no function is compiled.
    """

    def __init__(self) -> None:
        self._lock, self._users = threading.Lock(), 0
        self._stance: AbstractContextManager[object] = nullcontext()

    def __enter__(self) -> None:
        with self._lock:
            if self._users == 0:
                imported = "torch._dynamo" in sys.modules
                self._stance = (
                    torch.compiler.set_stance("force_eager") if imported else nullcontext()
                )
            self._users += 1

    def __exit__(self, *exception: object) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._stance.__exit__(None, None, None)


EAGERLY = _Eagerly()


@contextmanager
def _eagerly_and_quietly() -> Generator[None]:
    """Run compiled modules eagerly, without torch's warning about global hooks."""
    with warnings.catch_warnings(action="ignore", category=UserWarning), EAGERLY:
        yield


class Observed:
    """A model that is evaluated without side effects, and whose modules are listed.

    No graph is kept, unless the model needs gradients inside. Modules compute with copies of their
    buffers, unless the call initializes their parameters. The random state is restored, and
    compiled modules run eagerly, so that an inspection compiles no code. Batch norm in training
    mode is refused. Effects on other Python objects remain.

    Attributes:
        modules: The modules called so far, in the order of their first calls.
        is_random: Whether the model has drawn random numbers.
        has_own_randomness: Whether its values differ between calls with the same random state.
    """

    def __init__(self, f: Callable[..., Tensor], device: torch.device) -> None:
        self._f, self._device = f, device
        self._is_compiled = is_compiled(f)
        self._thread = threading.get_ident()
        self.modules: dict[nn.Module, None] = {}
        self.is_random = False
        self.has_own_randomness = False

    def __call__(self, *args: Tensor) -> Tensor:
        """Return the values of the model."""
        try:
            return self._evaluate(False, *args)
        except RuntimeError:  # a score that differentiates inside
            return self._evaluate(True, args[0].detach().requires_grad_(), *args[1:])

    def _evaluate(self, gradients: bool, *args: Tensor) -> Tensor:
        state = random_state(self._device)
        self._restore: list[Callable[[], object]] = []
        self._sums: list[tuple[Tensor, Tensor]] = []
        hook = register_module_forward_pre_hook(self._called)
        try:
            with (
                _eagerly_and_quietly() if self._is_compiled else nullcontext(),
                full_precision(self._device),
                torch.set_grad_enabled(gradients),
            ):
                return self._f(*(arg.clone() for arg in args)).detach()  # may write into them
        finally:
            hook.remove()
            initialized = any(not torch.equal(p.detach().sum(), s) for p, s in self._sums)
            for restore in () if initialized else self._restore:
                restore()
            self.is_random |= not _equal(random_state(self._device), state)
            restore_random_state(state, self._device)

    def _called(self, module: nn.Module, args: object) -> None:
        """List a module before its call, and make it compute with copies of its buffers."""
        if is_tracing() or threading.get_ident() != self._thread:
            return
        require_fixed_statistics(module)
        self.modules[module] = None
        if isinstance(module, torch.jit.ScriptModule):  # its submodules are not seen
            self._restore += [partial(b.copy_, b.clone()) for b in module.buffers()]
            return
        for name, buffer in module._buffers.items():
            if buffer is None or not is_lazy(buffer):
                module._buffers[name] = None if buffer is None else buffer.clone()
                self._restore.insert(0, partial(module._buffers.__setitem__, name, buffer))
        if module._buffers:
            parameters = module.parameters(recurse=False)
            self._sums += [(p, p.detach().sum()) for p in parameters if not is_lazy(p)]


def require_independent_rows(model: Observed, x: Tensor, cond: Sequence[Tensor]) -> None:
    """Raise `RuntimeError` if the value of a row depends on the other rows of the batch.

    The model is evaluated on the batch, and on a batch of the same size that repeats its first
    few rows. This notices batch statistics in functional, scripted and compiled form, where no
    batch norm module is called. A model with its own random generator, whose values differ between
    calls, cannot be checked.

    Args:
        model: The model.
        x: The data, shape `(B, *E)`.
        cond: Conditions of the model, one row per example.

    Raises:
        RuntimeError: If it does.
    """
    whole = model(x, *cond).double()
    count = min(4, len(x) // 2)
    if count == 0:
        return
    repeated = torch.arange(len(x), device=x.device) % count
    again = model(x[repeated], *(c[repeated] for c in cond)).double()
    scale = MAX_ROW_CHANGE_STDS * whole.std(0).square().mean().sqrt()
    if not (whole[:count] - again[:count]).square().mean().sqrt() > scale:
        return
    if (model(x, *cond).double() - whole).square().mean().sqrt() > scale:
        model.has_own_randomness = True
        return
    raise RuntimeError(
        "the value of a row changes with the other rows of the batch (batch norm in training "
        "mode?), so a row has no derivative of its own: call `model.eval()`, or use a norm "
        "within each example (group, layer, instance)"
    )


class SameFunction:
    """Context manager in which all points of a finite difference see the same function.

    Leaves autocast and reduced-precision matrix products. On exit, refuses random numbers if all
    points were evaluated as one batch, and changed buffers if there were several calls.
    """

    def __init__(self, record: Record, x: Tensor, parallel: bool, several_calls: bool) -> None:
        require_full_precision(x, "the data")
        self._device, self._parallel, self._traced = x.device, parallel, record.is_traced
        self._buffers = list(_buffer_versions(record)) if several_calls else []

    def __enter__(self) -> Self:
        self._state = () if self._traced else random_state(self._device)
        self._undo = forbid_reduced_precision(self._device)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for restore in self._undo:
            restore()
        if kind is not None:
            return
        fixed = self._parallel and not self._traced
        if fixed and not _equal(random_state(self._device), self._state):
            raise RuntimeError(
                "the model drew random numbers (dropout?) while all points of a difference were "
                "evaluated in one batch, so each point saw different ones (another thread may "
                "also have drawn them): use FiniteDifference(parallel=False), which replays the "
                "same numbers at every point, or call `model.eval()`"
            )
        if self._buffers and any(b._version != version for b, version in self._buffers):
            raise RuntimeError(
                "the model changes its buffers at every call (spectral norm?), so the points of a "
                "difference evaluated one by one see different functions: use "
                "FiniteDifference(parallel=True), or call `model.eval()`"
            )

    def replayed(self, points: Iterable[Tensor]) -> Iterator[Tensor]:
        """Yield the points, each with the random state of the first."""
        for point in points:
            restore_random_state(self._state, self._device)
            yield point.clone()  # the model may write into it

    def protect(self, values: Tensor) -> Tensor:
        """Return the values of the model, whose backward pass then runs in full precision."""
        require_full_precision(values, "the values of the model")
        if self._undo:
            full_precision_backward(values)
        return values


def _buffer_versions(record: Record) -> Iterator[tuple[Tensor, int]]:
    """Yield the buffers of a model, and how often each has been written to."""
    for module in record.modules:
        for buffer in module.buffers():
            if not buffer.is_inference():
                yield buffer, buffer._version


def random_state(device: torch.device) -> RandomState:
    """Return the states of torch's global generators of the CPU and of `device`."""
    if device_type(device) in {"cpu", "meta"}:
        return (torch.get_rng_state(),)
    generators = torch.get_device_module(device)
    return (torch.get_rng_state(), generators.get_rng_state(*_which(device)))


def restore_random_state(state: RandomState, device: torch.device) -> None:
    """Set the global generators to a state that `random_state` returned."""
    if state:
        torch.set_rng_state(state[0])
    if len(state) > 1:
        torch.get_device_module(device).set_rng_state(state[1], *_which(device))


def _equal(a: RandomState, b: RandomState) -> bool:
    return all(map(torch.equal, a, b))


def _which(device: torch.device) -> tuple[torch.device, ...]:
    """Return the argument that selects a device; MPS has only one and takes none."""
    return () if device.type == "mps" else (device,)
