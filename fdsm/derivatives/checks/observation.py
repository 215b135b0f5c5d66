"""Evaluating a model without side effects, and the state of torch's random generators."""

import sys
import threading
import warnings
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.nn.parameter import is_lazy

from .findings import refuse
from .identity import is_compiled
from .precision import device_type, full_precision
from .state import is_tracing

RandomState = tuple[Tensor, ...]
"""States of the global generators a model may draw from: of the CPU, and of its device."""


def require_fixed_statistics(module: nn.Module | None) -> None:
    """Refuse a batch norm that uses the statistics of the batch."""
    if isinstance(module, _BatchNorm) and (module.training or module.running_mean is None):
        refuse(
            "rows",
            f"{type(module).__name__} uses the statistics of the batch, so every row depends on "
            "all others and has no derivative of its own: call `.eval()` on it, or use a norm "
            "within each example (group, layer, instance)",
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
        changes_buffers: Whether it has changed its buffers, or rather the copies of them.
    """

    def __init__(self, f: Callable[..., Tensor], device: torch.device) -> None:
        self._f, self._device = f, device
        self._is_compiled = is_compiled(f)
        self._thread = threading.get_ident()
        self.modules: dict[nn.Module, None] = {}
        self.is_random = False
        self.has_own_randomness = False
        self.changes_buffers = False

    def __call__(self, *args: Tensor) -> Tensor:
        """Return the values of the model."""
        with suppress(RuntimeError):  # of a score that differentiates inside
            return self._evaluate(False, *args)
        return self._evaluate(True, args[0].detach().requires_grad_(), *args[1:])

    def _evaluate(self, gradients: bool, *args: Tensor) -> Tensor:
        state = random_state(self._device)
        self._copies: dict[nn.Module, list[tuple[str, Tensor | None, Tensor | None]]] = {}
        self._scripted: list[tuple[Tensor, Tensor]] = []
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
            self._restore_buffers()
            self.is_random |= not same_state(random_state(self._device), state)
            restore_random_state(state, self._device)

    def _called(self, module: nn.Module, args: object) -> None:
        """List a module before its call, and make it compute with copies of its buffers."""
        if is_tracing() or threading.get_ident() != self._thread:
            return
        require_fixed_statistics(module)
        self.modules[module] = None
        if module in self._copies:
            return
        self._copies[module] = []
        if isinstance(module, torch.jit.ScriptModule):  # its submodules are not seen
            self._scripted += [(buffer, buffer.clone()) for buffer in module.buffers()]
            return
        for name, buffer in module._buffers.items():
            if buffer is None or not is_lazy(buffer):
                module._buffers[name] = copy = None if buffer is None else buffer.clone()
                self._copies[module].append((name, buffer, copy))
        if module._buffers:
            parameters = module.parameters(recurse=False)
            self._sums += [(p, p.detach().sum()) for p in parameters if not is_lazy(p)]

    def _restore_buffers(self) -> None:
        """Restore the buffers, unless the call has initialized parameters."""
        copies = [(m._buffers, *copy) for m, names in self._copies.items() for copy in names]
        changes = [now.get(name) is not copy or _written(copy) for now, name, _, copy in copies]
        changes += [not torch.equal(now, before) for now, before in self._scripted]
        self.changes_buffers |= any(changes)
        if any(not torch.equal(p.detach().sum(), s) for p, s in self._sums):
            return
        for buffers, name, buffer, _ in copies:
            buffers[name] = buffer
        for now, before in self._scripted:
            now.copy_(before)


def _written(copy: Tensor | None) -> bool:
    """Return whether a copy was written to since it was made."""
    return copy is not None and not copy.is_inference() and copy._version > 0


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


def same_state(a: RandomState, b: RandomState) -> bool:
    """Return whether no random number was drawn between two states."""
    return all(map(torch.equal, a, b))


def _which(device: torch.device) -> tuple[torch.device, ...]:
    """Return the argument that selects a device; MPS has only one and takes none."""
    return () if device.type == "mps" else (device,)
