r"""Guards around the evaluation of a model.

A derivative is right only if every value it is computed from belongs to one deterministic
function of a single row. The guards refuse what breaks this:

- batch norm in training mode, and anything else that lets rows influence each other,
- random numbers that differ between the points of a difference,
- buffers that change between the calls of one difference,
- reduced precision: autocast, TF32 and bfloat16 matrix products, half-precision values.

Not all of it can be seen in one evaluation. Before the 1st, 2nd, 4th, 8th, … evaluation of a model
it is inspected: evaluated a few more times, without side effects.
"""

import threading
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterator, MutableMapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from types import CellType, FunctionType, MethodType, TracebackType
from typing import Self
from weakref import WeakKeyDictionary, WeakSet

import torch
from torch import Tensor, nn
from torch._dynamo.eval_frame import OptimizedModule
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.utils.weak import WeakIdKeyDictionary

from .precision import (
    forbid_reduced_precision,
    full_precision,
    full_precision_backward,
    require_full_precision,
)

MOST_REFERENCES = 16
"""Maximum number of items of a container that are searched for the modules of a model."""

INTERACTION = 0.01
"""Change of a row with the other rows, in standard deviations of the values, that is refused."""

RandomState = tuple[Tensor, ...]
"""States of the global generators a model may draw from: of the CPU, and of its device."""


@dataclass
class Record:
    """State kept for one model.

    Attributes:
        evaluations: Number of evaluations so far.
        warned: Names of the warnings already shown for this model.
        modules: The modules that the model called when it was last inspected.
        batch_norms: Those of them that are batch norms.
        is_compiled: Whether it had compiled parts when it was last inspected.
    """

    evaluations: int = 0
    warned: set[str] = field(default_factory=set)
    modules: WeakSet[nn.Module] = field(default_factory=WeakSet)
    batch_norms: WeakSet[nn.Module] = field(default_factory=WeakSet)
    is_compiled: bool = False

    @property
    def is_due(self) -> bool:
        """Whether to inspect the model at this evaluation: the 1st, 2nd, 4th, 8th, …."""
        return self.evaluations.bit_count() == 1

    @contextmanager
    def still_due_if_refused(self) -> Generator[None]:
        """Inspect the model again at its next evaluation if an inspection raises an error."""
        try:
            yield
        except BaseException:
            self.evaluations = 0
            raise


_UNKNOWN = Record()


class Records:
    """A `Record` per model, kept as long as the model lives."""

    def __init__(self) -> None:
        self._modules: WeakKeyDictionary[nn.Module, Record] = WeakKeyDictionary()
        self._objects: MutableMapping[object, Record] = WeakIdKeyDictionary()
        self._functions: dict[object, Record] = {}

    def of(self, f: object) -> Record:
        """Return the record of a model, created at its first use."""
        f = getattr(f, "__wrapped__", f)
        model = f if isinstance(f, nn.Module) else model_behind(f)
        if isinstance(model, nn.Module):
            return self._modules.get(model) or self._modules.setdefault(model, Record())
        if isinstance(model, tuple):
            return self._functions.setdefault(model, Record())
        try:
            return self._objects.setdefault(model, Record())
        except TypeError:  # an object without weak references
            return self._functions.setdefault(type(model), Record())

    def examine(
        self,
        f: Callable[..., Tensor],
        x: Tensor,
        cond: Sequence[Tensor],
        inspect: Callable[["Observed", Record], None] | None = None,
    ) -> Record:
        """Count an evaluation of a model, and refuse it if rows depend on each other.

        At the 1st, 2nd, 4th, 8th, … evaluation the model is inspected. In between, its batch norms
        must be in evaluation mode. Nothing is done while compiling.

        Args:
            f: The model.
            x: The data, shape `(B, *E)`.
            cond: Conditions of the model, a row per example.
            inspect: A further inspection.

        Returns:
            The record of the model.
        """
        if torch.compiler.is_compiling():
            return _UNKNOWN
        record = self.of(f)
        record.evaluations += 1
        if record.is_due and not (x.is_meta or x.numel() == 0):
            with record.still_due_if_refused():
                observed = Observed(f, x.device)
                require_independent_rows(observed, x, cond)
                record.modules = WeakSet(observed.modules)
                record.batch_norms = WeakSet(
                    m for m in record.modules if isinstance(m, _BatchNorm)
                )
                if inspect is not None:
                    inspect(observed, record)
        if record.batch_norms:
            for module in record.batch_norms:
                require_fixed_statistics(module)
        return record


def model_behind(f: object) -> object:
    """Return the object that identifies a model.

    Lambdas, methods and partials are new objects at every call. The model is the first module or
    parameter that they belong to, wrap, close over, take as an argument or name as a global, also
    through other functions. Other objects identify themselves, and functions that refer to no
    module are identified by their codes.
    """
    while isinstance(f, FunctionType) and hasattr(f, "__wrapped__"):
        f = f.__wrapped__
    codes = []
    for reference in _reachable(f):
        if isinstance(reference, nn.Module):
            return reference
        if isinstance(reference, Tensor) and reference.requires_grad:
            return reference
        if isinstance(reference, FunctionType):
            codes.append(reference.__code__)
    if isinstance(f, MethodType):
        return f.__self__
    return tuple(codes) if isinstance(f, (FunctionType, partial)) else f


def is_compiled(f: object) -> bool:
    """Return whether a model has parts that run through `torch.compile`."""
    return any(
        getattr(part, "_compiled_call_impl", None) is not None
        or hasattr(part, "_torchdynamo_orig_callable")
        or isinstance(part, OptimizedModule)
        for reference in _reachable(f)
        for part in (reference.modules() if isinstance(reference, nn.Module) else [reference])
    )


def _reachable(f: object) -> Iterator[object]:
    """Yield `f` and all that it refers to, each once, nearest first."""
    pending, seen = deque([f]), set()
    while pending:
        reference = pending.popleft()
        if id(reference) not in seen:
            seen.add(id(reference))
            yield reference
            pending += _references(reference)


def _references(f: object) -> list[object]:
    """Return the objects that a callable, or a container of callables, refers to."""
    if isinstance(f, (nn.Module, Tensor)):
        return []
    if isinstance(f, partial):
        return [f.func, *f.args, *f.keywords.values()]
    if isinstance(f, MethodType):
        return [f.__self__, f.__func__]
    if isinstance(f, (list, tuple, dict)):
        return list(islice(f.values() if isinstance(f, dict) else f, MOST_REFERENCES))
    if not isinstance(f, FunctionType):
        return list(islice(getattr(f, "__dict__", {}).values(), MOST_REFERENCES * callable(f)))
    cells = [cell for cell in f.__closure__ or () if cell != CellType()]
    named = [f.__globals__.get(name) for name in f.__code__.co_names]
    functions = [g for g in named if isinstance(g, (nn.Module, FunctionType))]
    return [*(cell.cell_contents for cell in cells), *(f.__defaults__ or ()), *functions]


def require_fixed_statistics(module: nn.Module) -> None:
    """Raise `RuntimeError` if a batch norm uses the statistics of the batch."""
    if isinstance(module, _BatchNorm) and (module.training or module.running_mean is None):
        raise RuntimeError(
            f"{type(module).__name__} uses the statistics of the batch, so every row depends on "
            "all others and has no derivative of its own: call `.eval()` on it, or use a norm "
            "within each example (group, layer, instance)"
        )


class _Eagerly:
    """Context manager in which compiled functions run eagerly, in any number of threads."""

    def __init__(self) -> None:
        self._lock, self._users = threading.Lock(), 0

    def __enter__(self) -> None:
        with self._lock:
            if self._users == 0:
                self._stance = torch.compiler.set_stance("force_eager")
            self._users += 1

    def __exit__(self, *exception: object) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._stance.__exit__(None, None, None)


EAGERLY = _Eagerly()


class Observed:
    """A model that is evaluated without side effects, and whose modules are listed.

    No graph is kept, unless the model needs gradients inside. Modules compute with copies of their
    buffers, the random state is restored, and compiled modules run eagerly, so that nothing is
    compiled for an inspection. Batch norm in training mode is refused.

    Attributes:
        modules: The modules called so far, in the order of their first calls.
        is_random: Whether the model has drawn random numbers.
    """

    def __init__(self, f: Callable[..., Tensor], device: torch.device) -> None:
        self._f, self._device = f, device
        self._eagerly: AbstractContextManager[None] = EAGERLY if is_compiled(f) else nullcontext()
        self._thread = threading.get_ident()
        self.modules: dict[nn.Module, None] = {}
        self.is_random = False

    def __call__(self, *args: Tensor) -> Tensor:
        """Return the values of the model."""
        try:
            return self._evaluate(False, *args)
        except RuntimeError:  # a score that differentiates inside
            return self._evaluate(True, args[0].detach().requires_grad_(), *args[1:])

    def _evaluate(self, gradients: bool, *args: Tensor) -> Tensor:
        state = random_state(self._device)
        self._restore: list[Callable[[], object]] = []
        hook = register_module_forward_pre_hook(self._called)
        try:
            with (
                warnings.catch_warnings(action="ignore", category=UserWarning),
                full_precision(self._device),
                torch.set_grad_enabled(gradients),
                self._eagerly,
            ):
                return self._f(*(arg.clone() for arg in args)).detach()  # may write into them
        finally:
            hook.remove()
            for restore in self._restore:
                restore()
            self.is_random |= not _equal(random_state(self._device), state)
            restore_random_state(state, self._device)

    def _called(self, module: nn.Module, args: object) -> None:
        """List a module before its call, and make it compute with copies of its buffers."""
        if threading.get_ident() != self._thread:
            return
        require_fixed_statistics(module)
        self.modules[module] = None
        if isinstance(module, torch.jit.ScriptModule):  # its submodules are not seen
            self._restore += [partial(b.copy_, b.clone()) for b in module.buffers()]
            return
        for name, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[name] = buffer.clone()
                self._restore.insert(0, partial(module._buffers.__setitem__, name, buffer))


def require_independent_rows(model: Observed, x: Tensor, cond: Sequence[Tensor]) -> None:
    """Raise `RuntimeError` if the value of a row depends on the other rows of the batch.

    The model is evaluated on the batch, and on a batch of the same size that repeats its first
    few rows. This notices batch statistics in functional, scripted and compiled form, where no
    batch norm module is called.

    Args:
        model: The model.
        x: The data, shape `(B, *E)`.
        cond: Conditions of the model, a row per example.

    Raises:
        RuntimeError: If it does.
    """
    whole = model(x, *cond).double()
    count = min(4, len(x) // 2)
    if count == 0:
        return
    repeated = torch.arange(len(x), device=x.device) % count
    again = model(x[repeated], *(c[repeated] for c in cond)).double()
    change = (whole[:count] - again[:count]).square().mean().sqrt()
    if change > INTERACTION * whole.std(0).square().mean().sqrt():
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
        self._device, self._parallel = x.device, parallel
        self._buffers = list(_buffer_versions(record)) if several_calls else []

    def __enter__(self) -> Self:
        self._state = random_state(self._device)
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
        if self._parallel and not _equal(random_state(self._device), self._state):
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

    def replayed(self, points: Sequence[Tensor]) -> Iterator[Tensor]:
        """Yield the points, each with the random state of the first."""
        for point in points:
            restore_random_state(self._state, self._device)
            yield point

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
    if torch.compiler.is_compiling():
        return ()
    if device.type in {"cpu", "meta"}:
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
