r"""Guards around the evaluation of a model.

A derivative is right only if every value it is computed from belongs to one deterministic
function of a single row. The guards refuse what breaks this:

- batch norm in training mode, and anything else that lets rows influence each other,
- random numbers that differ between the points of a difference,
- buffers that change between the calls of one difference,
- reduced precision: autocast, TF32 and bfloat16 matrix products, half-precision values.

Some errors can only be measured. On the 1st, 2nd, 4th, 8th, … evaluation of a model, a few more
values are computed without gradients, and a `PrecisionWarning` reports a difference dominated by
rounding or truncation. Random state and buffers are the same before and after.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, ClassVar, Self
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.module import register_module_forward_pre_hook

from .precision import full_precision, full_precision_backward, require_full_precision

INTERACTION = 0.1
"""Change of a row with the other rows, in standard deviations of the values, that is refused."""

RandomState = tuple[Tensor, ...]
"""States of the global generators a model may draw from: of the CPU, and of its device."""


@dataclass
class Record:
    """State kept for one model.

    Attributes:
        evaluations: Number of evaluations so far.
        warned: Names of the warnings already shown for this model.
    """

    evaluations: int = 0
    warned: set[str] = field(default_factory=set)


Inspect = Callable[[Record, Sequence[nn.Module]], None]
"""Inspects a model, given its record and the modules that it calls."""


class Records:
    """A `Record` per model, kept as long as the model lives."""

    def __init__(self) -> None:
        self._records: WeakKeyDictionary[Any, Record] = WeakKeyDictionary()

    def of(self, f: object, modules: Sequence[nn.Module] = ()) -> Record:
        """Return the record of a model.

        Lambdas, methods and partials are new objects at every call. The model behind them is the
        first module they call that has parameters or submodules. A function that calls no module
        is identified by its code.

        Args:
            f: The callable that was evaluated.
            modules: Modules called during the evaluation.

        Returns:
            The record, created at the first call.
        """
        model: Any = next((m for m in modules if m._modules or m._parameters), f)
        while (inner := getattr(model, "__wrapped__", getattr(model, "func", None))) is not None:
            model = inner
        model = getattr(model, "__self__", model)
        model = getattr(model, "__code__", model)
        try:
            return self._records.setdefault(model, Record())
        except TypeError:  # not hashable, or without weak references
            return self._records.setdefault(type(model), Record())


class CalledModules:
    """Context manager that lists the modules called in this thread, and refuses batch norm.

    Does nothing while compiling.

    Attributes:
        modules: The modules, in the order of their calls.
    """

    _records: ClassVar[Records] = Records()

    def __init__(self) -> None:
        self.modules: list[nn.Module] = []

    def __enter__(self) -> Self:
        if not torch.compiler.is_compiling():
            self._thread = threading.get_ident()
            self._hook = register_module_forward_pre_hook(self._called)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not torch.compiler.is_compiling():
            self._hook.remove()

    def _called(self, module: nn.Module, args: object) -> None:
        if torch.compiler.is_compiling() or threading.get_ident() != self._thread:
            return
        if isinstance(module, _BatchNorm) and (module.training or module.running_mean is None):
            raise RuntimeError(
                f"{type(module).__name__} uses the statistics of the batch, so every row depends "
                "on all others and has no derivative of its own: call `.eval()` on it, or use a "
                "norm within each example (group, layer, instance)"
            )
        self.modules.append(module)

    def inspect_if_due(self, f: object, inspect: Inspect | None) -> None:
        """Count an evaluation of `f`; inspect it at the 1st, 2nd, 4th, 8th, … one."""
        if inspect is not None and not torch.compiler.is_compiling():
            record = self._records.of(f, self.modules)
            record.evaluations += 1
            if record.evaluations & (record.evaluations - 1) == 0:
                inspect(record, self.modules)


class SameFunction(CalledModules):
    """Context manager in which all points of a finite difference see the same function.

    Leaves autocast and reduced-precision matrix products. On exit, refuses random numbers if all
    points were evaluated as one batch, and changed buffers if there were several calls.
    """

    _records: ClassVar[Records] = Records()

    def __init__(self, points: Sequence[Tensor], parallel: bool, chunk: int | None) -> None:
        super().__init__()
        require_full_precision(points[0], "the data")
        self._device, self._parallel = points[0].device, parallel
        rows = len(points) * len(points[0])
        self._several_calls = not parallel or rows > (chunk or rows)
        self._buffers: list[tuple[Tensor, int]] = []

    def __enter__(self) -> Self:
        self._state = random_state(self._device)
        self._precision = full_precision(self._device)
        self._changed = self._precision.__enter__()
        return super().__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, trace)
        self._precision.__exit__(kind, error, trace)
        if kind is None:
            self._require_same_function()

    def _require_same_function(self) -> None:
        state = random_state(self._device)
        if self._parallel and not all(map(torch.equal, state, self._state)):
            raise RuntimeError(
                "the model drew random numbers (dropout?) while all points of a difference were "
                "evaluated in one batch, so each point saw different ones (another thread may "
                "also have drawn them): use FiniteDifference(parallel=False), which replays the "
                "same numbers at every point, or call `model.eval()`"
            )
        if any(buffer._version != version for buffer, version in self._buffers):
            raise RuntimeError(
                "the model changes its buffers at every call (spectral norm?), so the points of a "
                "difference evaluated one by one see different functions: use "
                "FiniteDifference(parallel=True), or call `model.eval()`"
            )

    def _called(self, module: nn.Module, args: object) -> None:
        super()._called(module, args)
        if self._several_calls:
            buffers = module.buffers(recurse=False)
            self._buffers += [(b, b._version) for b in buffers if not b.is_inference()]

    def replayed(self, points: Sequence[Tensor]) -> Iterator[Tensor]:
        """Yield the points, each with the random state of the first."""
        for point in points:
            restore_random_state(self._state, self._device)
            yield point

    def protect(self, values: Tensor) -> Tensor:
        """Return the values of the model, whose backward pass then runs in full precision."""
        require_full_precision(values, "the values of the model")
        if self._changed:
            full_precision_backward(values)
        return values


def without_side_effects(
    f: Callable[..., Tensor], modules: Sequence[nn.Module], device: torch.device
) -> Callable[..., Tensor]:
    """Return `f`, evaluated without gradients and without changing buffers or random state.

    Modules compute with copies of their buffers. Compiled modules run eagerly, so that nothing
    is compiled for an inspection. Gradients are enabled for models that need them inside.

    Args:
        f: The model.
        modules: The modules that it calls.
        device: Where it runs.

    Returns:
        The function.
    """
    buffers = [
        (module, name, buffer)
        for module in modules
        for name, buffer in module._buffers.items()
        if buffer is not None
    ]

    def evaluated(gradients: bool, *args: Tensor) -> Tensor:
        state = random_state(device)
        for module, name, buffer in buffers:
            module._buffers[name] = buffer.clone()
        try:
            with torch.set_grad_enabled(gradients), torch.compiler.set_stance("force_eager"):
                return f(*args).detach()
        finally:
            for module, name, buffer in buffers:
                module._buffers[name] = buffer
            restore_random_state(state, device)

    def function(*args: Tensor) -> Tensor:
        try:
            return evaluated(False, *args)
        except RuntimeError:  # a score that differentiates inside
            return evaluated(True, *args)

    return function


def require_independent_rows(
    f: Callable[..., Tensor], x: Tensor, cond: Sequence[Tensor], modules: Sequence[nn.Module]
) -> None:
    """Raise `RuntimeError` if the value of a row depends on the other rows of the batch.

    The model is evaluated on the batch, and on a batch of the same size that repeats its first
    few rows. This notices batch statistics in functional, scripted and compiled form, where no
    module is called.

    Args:
        f: The model.
        x: The data, shape `(B, *E)`.
        cond: Conditions of the model, a row per example.
        modules: The modules that the model calls.

    Raises:
        RuntimeError: If it does.
    """
    count = min(4, len(x) // 2)
    if count == 0 or x.is_meta:
        return
    repeated = torch.arange(len(x), device=x.device) % count
    f = without_side_effects(f, modules, x.device)
    whole = f(x, *cond).double()
    again = f(x[repeated], *(c[repeated] for c in cond)).double()
    change = (whole[:count] - again[:count]).square().mean().sqrt()
    if change > INTERACTION * whole.std(0).square().mean().sqrt():
        raise RuntimeError(
            "the value of a row changes with the other rows of the batch (batch norm in training "
            "mode?), so a row has no derivative of its own: call `model.eval()`, or use a norm "
            "within each example (group, layer, instance)"
        )


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


def _which(device: torch.device) -> tuple[torch.device, ...]:
    """Return the argument that selects a device; MPS has only one and takes none."""
    return () if device.type == "mps" else (device,)
