"""Python state that a traced loss depends on and that is not an input of its graph.

A graph keeps the numbers, flags and tensors that the code has read while it was traced. They are
attributes of modules and of objects that modules and the loss refer to. Shallow copies of the
dictionaries that hold them are compared at every step. Where nothing has changed, both hold the
same objects, and a comparison of a hundred values takes about a microsecond.
"""

import random
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from itertools import chain
from operator import attrgetter
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules import module as all_modules
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from ..update import Update

Container = Any
"""A dictionary, a list or a set."""

INTERNAL = vars(nn.Module()).keys()
"""Attributes that every module has. Of these, only parameters, buffers and submodules are read."""
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
"""Functions that a module calls and a graph does not."""
PROPERTIES = attrgetter("requires_grad", "dtype", "_backward_hooks", "_post_accumulate_grad_hooks")
"""Properties of a parameter on which a graph depends."""
PARTS = attrgetter("loss", "module", "optimizer", "clip", "average")
"""Parts of an update on which a graph depends."""
OPAQUE = (nn.Module, Tensor, Optimizer, LRScheduler, type, FunctionType, MethodType, ModuleType)
"""Objects whose attributes are not compared, or elsewhere."""


class Snapshot:
    """Shallow copies of containers, to notice changes of what they hold."""

    def __init__(self, containers: Iterable[tuple[str, Container]]) -> None:
        """Copy containers.

        Args:
            containers: A name for each container, such as "of the model", and the container.
        """
        self._names, self._live = zip(*containers, strict=True)
        self._saved = tuple(map(_copied, self._live))
        # Equal tensors with one element compare as equal, also if they are not the same.
        self._single = [
            (container, key, t)
            for container in self._live
            for key, t in _items(container)
            if isinstance(t, Tensor) and t.numel() == 1 and not isinstance(container, set)
        ]

    @property
    def is_current(self) -> bool:
        """Whether the containers hold the same tensors and equal other objects."""
        try:
            return self._live == self._saved and all([c[key] is t for c, key, t in self._single])
        except Exception:  # arrays, which have no single truth value
            return False

    def change(self) -> str | None:
        """Return a name for the first value that has changed, or `None`."""
        for name, live, saved in zip(self._names, self._live, self._saved, strict=True):
            now, before = dict(_items(live)), dict(_items(saved))
            for key in (*before, *(now.keys() - before.keys())):
                if key not in now or key not in before or not _same(now[key], before[key]):
                    return f"`{key}` {name}"
        return None

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Yield the tensors in the containers, each with a name."""
        for name, saved in zip(self._names, self._saved, strict=True):
            for key, t in _items(saved):
                if isinstance(t, Tensor) and t.layout is torch.strided:
                    yield f"`{key}` {name}", t

    def restore(self) -> None:
        """Put the values back that have changed."""
        for live, saved in zip(self._live, self._saved, strict=True):
            if isinstance(live, list):
                live[:] = saved
            elif isinstance(live, (dict, set)):
                live.clear()
                live.update(saved)


class Dependencies:
    """What the graph of an update depends on, apart from its inputs and the optimizer's state.

    Attributes:
        snapshot: The attributes of modules and other objects, with their tensors.
    """

    def __init__(self, update: Update, device: torch.device) -> None:
        """Look up the current state.

        Args:
            update: The update.
            device: The device of a batch.
        """
        self._device, self._update, self._optimizer = device, update, update.optimizer
        modules = modules_of(update)
        average = () if update.average is None else update.average.model.modules()
        means = (("of the average", vars(module)["_parameters"]) for module in average)
        self.snapshot = Snapshot(chain(containers_of(modules, update.loss), means))
        named = dict(update.module.named_parameters())
        self._names, self._parameters = [*named.keys()], [*named.values()]
        self._properties = [tuple(map(copy, values)) for values in self._current()]
        self._groups = [list(group["params"]) for group in update.optimizer.param_groups]
        self._modes = self._current_modes()
        self._hooks = [
            *(vars(module)[name] for module in modules for name in HOOKS),
            *(getattr(all_modules, f"_global{name}") for name in HOOKS),
        ]

    def obstacle(self) -> str | None:
        """Return why an update with this state cannot be compiled, or `None`."""
        if torch.is_autocast_enabled(self._device.type):
            return "autocast is enabled"
        if any(self._hooks):
            return "a module has hooks, which a graph does not call"
        for name, (_, _, *hooks) in zip(self._names, self._properties, strict=True):
            if any(hooks):
                return f"the parameter `{name}` has hooks, which a graph does not call"
        if what := self.change():
            return f"{what} cannot be compared between steps (a scripted module?)"
        return None

    def change(self) -> str | None:
        """Return what has changed, or `None`."""
        if not self.snapshot.is_current:
            return self.snapshot.change() or "an attribute"
        if (current := [*self._current()]) != self._properties:
            pairs = zip(self._names, current, self._properties, strict=True)
            name = next(name for name, now, before in pairs if now != before)
            return f"`requires_grad`, the type or a hook of the parameter `{name}`"
        if any(self._hooks):
            return "a hook of a module"
        if [group["params"] for group in self._optimizer.param_groups] != self._groups:
            return "a group of the optimizer"
        if self._current_modes() != self._modes:
            return "autocast, the default type, a part of the update or its limit of the gradient"
        return None

    def _current(self) -> Iterator[Any]:
        return map(PROPERTIES, self._parameters)

    def _current_modes(self) -> tuple[object, ...]:
        autocast = torch.is_autocast_enabled(self._device.type)
        modes = autocast, torch.get_default_dtype(), torch.is_grad_enabled()
        return *modes, *PARTS(self._update)


def modules_of(update: Update) -> dict[nn.Module, str]:
    """Return the names of all modules that are trained or that the loss refers to."""
    named = update.module.named_modules()
    names = {module: f"`{name}`" if name else "the model" for name, module in named}
    for variable, value in _variables(update.loss):
        if isinstance(value, nn.Module):
            for name, module in value.named_modules(prefix=variable):
                names.setdefault(module, f"`{name}`")
    return names


def containers_of(
    modules: Mapping[nn.Module, str], loss: Callable[..., Tensor]
) -> Iterator[tuple[str, Container]]:
    """Yield the containers of what a loss may read, each with a name.

    They are the attributes of modules and of their classes, and those of objects that these or the
    loss refer to. Objects behind them, global variables and variables of other functions are not
    searched.

    Args:
        modules: The modules and their names.
        loss: The loss.

    Yields:
        Names such as "of the model", and the containers.
    """
    for variable, value in _variables(loss):
        yield from _attributes(f"of `{variable}`", value)
    for module, name in modules.items():
        yield f"of {name}", vars(module)
        for kind in ("_parameters", "_buffers", "_modules"):
            yield f"of {name}", vars(module)[kind]
        for key in vars(module).keys() - INTERNAL:
            yield from _attributes(f"of `{key}` of {name}", vars(module)[key])
    for base in {base for module in modules for base in type(module).__mro__}:
        if base.__module__.partition(".")[0] not in {"torch", "builtins", "typing"}:
            yield f"of the class {base.__name__}", vars(base)


def _variables(loss: Callable[..., Tensor]) -> Iterator[tuple[str, object]]:
    """Yield the variables that a function closes over, or the object of a method."""
    if isinstance(loss, MethodType):
        yield "self", loss.__self__
    elif isinstance(loss, FunctionType):
        for name, cell in zip(loss.__code__.co_freevars, loss.__closure__ or (), strict=True):
            yield name, cell.cell_contents


def _attributes(name: str, value: object) -> Iterator[tuple[str, Container]]:
    if isinstance(value, (dict, list, set)):
        yield name, value
    elif isinstance(value, Tensor):
        yield name, {"values": value}
    elif hasattr(value, "__dict__") and not isinstance(value, OPAQUE):
        yield name, vars(value)


def _copied(container: Container) -> Container:
    kinds = (kind for kind in (list, set) if isinstance(container, kind))
    return next(kinds, dict)(container)


def _items(container: Container) -> Iterable[tuple[Any, Any]]:
    if isinstance(container, (list, set)):
        return enumerate(container)
    return container.items()  # type: ignore[no-any-return]


def _same(a: object, b: object) -> bool:
    if a is b or isinstance(a, Tensor) or isinstance(b, Tensor):
        return a is b
    try:
        return bool(a == b)
    except Exception:  # arrays, which have no single truth value
        return False


@contextmanager
def preserved(snapshot: Snapshot, batch: Iterable[Tensor]) -> Generator[Callable[[], str | None]]:
    """Restore attributes, tensors and the random states of Python and NumPy on exit.

    Args:
        snapshot: The containers of attributes and tensors.
        batch: Other tensors.

    Yields:
        A function that returns what has changed, or `None`.
    """
    tensors = [*snapshot.tensors(), *(("the batch", t) for t in batch)]
    values = [t.detach().clone() for _, t in tensors]
    states, drawn = (random.getstate(), np.random.get_state()), _random_state()

    def change() -> str | None:
        pairs = zip(tensors, values, strict=True)
        written = (name for (name, t), value in pairs if not _equal(t, value))
        what = next(written, None) or snapshot.change()
        if what is None and _random_state() != drawn:
            what = "the random state of Python or NumPy"
        return what

    try:
        yield change
    finally:
        if not snapshot.is_current:
            snapshot.restore()
        for (_, tensor), value in zip(tensors, values, strict=True):
            if not _equal(tensor, value):
                tensor.data.copy_(value)
        random.setstate(states[0])
        np.random.set_state(states[1])


def _equal(a: Tensor, b: Tensor) -> bool:
    """Return whether two tensors hold the same numbers, NaN included."""
    return a.shape == b.shape and bool(((a == b) | (a != a) & (b != b)).all())


def _random_state() -> tuple[object, ...]:
    kind, numbers, *rest = np.random.get_state()
    return random.getstate(), kind, bytes(numbers), rest  # type: ignore[arg-type]
