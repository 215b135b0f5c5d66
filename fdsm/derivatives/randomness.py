"""Make every node of a stencil see the same function.

A difference of two values is a derivative only if both come from the same network. Dropout
draws another mask for every row, batch norm mixes the nodes of one batch, spectral norm changes
its weights at every call. Randomness can be replayed if the nodes are evaluated one by one; the
rest is refused.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from types import FunctionType, MethodType

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

LONGEST = 64
"""How many entries of a container, or attributes of an object, are looked into."""

RandomState = tuple[Tensor, ...]
"""The states of the generators a model may draw from."""


def random_state(device: torch.device) -> RandomState:
    """Return the states of torch's generators of the processor and of `device`."""
    if torch.compiler.is_compiling():
        return ()
    states = [torch.get_rng_state()]
    if device.type not in {"cpu", "meta"}:
        states.append(torch.get_device_module(device).get_rng_state(*_which(device)))
    return tuple(states)


def _which(device: torch.device) -> tuple[torch.device, ...]:
    """Return the argument that selects a device, which a kind with only one does not take."""
    return () if device.type == "mps" else (device,)


def replay(state: RandomState, device: torch.device) -> None:
    """Put the generators back to where `random_state` found them."""
    if not state:
        return
    torch.set_rng_state(state[0])
    if len(state) > 1:
        torch.get_device_module(device).set_rng_state(state[1], *_which(device))


def refuse_fresh_randomness(before: RandomState, device: torch.device) -> None:
    """Raise `RuntimeError` if random numbers were drawn since `before`."""
    after = random_state(device)
    if [a.numpy().tobytes() for a in after] != [b.numpy().tobytes() for b in before]:
        raise RuntimeError(
            "the model drew random numbers (dropout?) while its nodes were evaluated in one "
            "batch, so every node saw others and their difference is not a derivative (another "
            "thread may also have drawn them): use FiniteDifference(parallel=False), which "
            "replays the same numbers at every node, or `model.eval()`"
        )


def refuse_batch_statistics(modules: Iterable[nn.Module]) -> None:
    """Raise `RuntimeError` if a module normalises by the statistics of the batch it is given."""
    for module in modules:
        if isinstance(module, _BatchNorm) and (module.training or module.running_mean is None):
            raise RuntimeError(
                f"{type(module).__name__} normalises by the statistics of the batch, which mixes "
                "the nodes of a finite difference and the examples with each other: call "
                "`.eval()` on it, or use a norm within each example (group, layer, instance)"
            )


def buffer_versions(modules: Iterable[nn.Module]) -> list[int]:
    """Return how often each buffer has been written to."""
    buffers = (b for module in modules for b in module.buffers(recurse=False))
    return [b._version for b in buffers if not b.is_inference()]


def refuse_changed_buffers(before: list[int], modules: Iterable[nn.Module]) -> None:
    """Raise `RuntimeError` if a buffer was written to since `before`."""
    if buffer_versions(modules) != before:
        raise RuntimeError(
            "the model changes its buffers at every call (spectral norm?), so the nodes of a "
            "difference evaluated one by one see different networks: use "
            "FiniteDifference(parallel=True), or `model.eval()`"
        )


def modules_of(f: object) -> Iterator[nn.Module]:
    """Yield the modules a callable refers to; none while compiling, where calls are traced.

    They are looked for in the callable itself, in its owner if it is a method, in the
    arguments of a `partial`, in the attributes of an object, in what a function closes over,
    takes by default or names globally, and in short lists, tuples and dictionaries of these.

    Args:
        f: Any callable.

    Yields:
        Each module once, with its submodules.
    """
    pending: list[object] = [] if torch.compiler.is_compiling() else [f]
    seen = set()
    while pending:
        here = pending.pop()
        if id(here) in seen:
            continue
        seen.add(id(here))
        if isinstance(here, nn.Module):
            yield here
            pending.extend(here._modules.values())  # `children()` is several times slower
        else:
            pending.extend(_referred(here))


def _referred(here: object) -> Iterable[object]:
    """Return what an object that is not a module may call."""
    if isinstance(here, FunctionType):
        return _captured(here)
    if isinstance(here, partial):
        return [here.func, *here.args, *here.keywords.values()]
    if isinstance(here, MethodType):
        return [here.__self__, here.__func__, *_attributes(here.__self__)]
    if isinstance(here, (list, tuple)):
        return here[:LONGEST]
    if isinstance(here, dict):
        return islice(here.values(), LONGEST)
    return _attributes(here) if callable(here) else ()


def _attributes(owner: object) -> Iterable[object]:
    return islice(getattr(owner, "__dict__", {}).values(), LONGEST)


def _captured(function: FunctionType) -> Iterator[object]:
    yield from function.__defaults__ or ()
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # a name that is bound only later
            continue
    for name in function.__code__.co_names:
        value = function.__globals__.get(name)
        helper = isinstance(value, FunctionType) and value.__module__ == function.__module__
        if helper or isinstance(value, nn.Module):
            yield value
