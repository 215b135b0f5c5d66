"""How models are recognized, although a lambda or a method is a new object at every call."""

import sys
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, is_dataclass
from functools import partial
from itertools import islice
from types import CellType, CodeType, FunctionType, MethodType

from torch import Tensor, nn

MOST_REFERENCES = 16
"""Maximum number of items of a container that are searched for the modules of a model."""

_CONSTANTS = {bool, int, float, str}


@dataclass(frozen=True)
class Function:
    """Identity of a function that refers to no module: its codes, and constants it closes over.

    Attributes:
        codes: The codes of the function and of those that it refers to.
        constants: Numbers and strings in their closures.
    """

    codes: tuple[CodeType, ...]
    constants: tuple[object, ...]

    def key(self) -> tuple[object, ...]:
        """Return a key. Codes compare equal across files, so their identities are compared."""
        return (*map(id, self.codes), *self.constants)


def model_behind(f: object) -> object:
    """Return the object that identifies a model.

    Lambdas, methods and partials are new objects at every call. The model is the first module or
    parameter that they belong to, wrap, close over, take as an argument or name as a global,
    also through other functions and dataclasses. Other objects identify themselves, and
    functions that refer to no module are identified by a `Function`.
    """
    references = []
    for reference in _reachable(f):
        if isinstance(reference, nn.Module):
            return reference
        if isinstance(reference, Tensor) and reference.requires_grad and reference.is_leaf:
            return reference
        references.append(reference)
    if isinstance(f, MethodType):
        return f.__self__
    if isinstance(f, (FunctionType, partial)):
        codes = (g.__code__ for g in references if isinstance(g, FunctionType))
        return Function(tuple(codes), tuple(r for r in references if type(r) in _CONSTANTS))
    return f


def is_compiled(f: object) -> bool:
    """Return whether a model has parts that run through `torch.compile`."""
    # Importing the compiler takes a second. If nothing has, no module is compiled.
    compiler = sys.modules.get("torch._dynamo.eval_frame")
    compiled_module = getattr(compiler, "OptimizedModule", ())
    return any(
        getattr(part, "_compiled_call_impl", None) is not None
        or hasattr(part, "_torchdynamo_orig_callable")
        or isinstance(part, compiled_module)
        for reference in _reachable(f)
        for part in (reference.modules() if isinstance(reference, nn.Module) else [reference])
    )


def _reachable(f: object) -> Iterator[object]:
    """Yield `f` and the objects that it refers to, each once, nearest first."""
    pending: deque[object] = deque([f])
    seen: set[int] = set()
    while pending and len(seen) < MOST_REFERENCES**2:
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
        is_searched = callable(f) or is_dataclass(f)
        return list(islice(getattr(f, "__dict__", {}).values(), MOST_REFERENCES * is_searched))
    cells = [cell for cell in f.__closure__ or () if cell != CellType()]
    named = [f.__globals__.get(name) for name in f.__code__.co_names]
    used = [
        g
        for g in named
        if isinstance(g, nn.Module)
        or (isinstance(g, FunctionType) and g.__module__ == f.__module__)
    ]
    return [*(cell.cell_contents for cell in cells), *(f.__defaults__ or ()), *used]
