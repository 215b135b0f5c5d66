"""State that is kept for each model, and how models are recognized."""

import sys
import threading
from collections import OrderedDict, deque
from collections.abc import Generator, Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from types import CellType, CodeType, FrameType, FunctionType, MethodType
from weakref import ReferenceType, WeakKeyDictionary, WeakSet

from torch import Tensor, nn
from torch.utils.weak import WeakIdKeyDictionary

MOST_REFERENCES = 16
"""Maximum number of items of a container that are searched for the modules of a model."""

MOST_FUNCTIONS = 1024
"""Maximum number of functions without modules that are remembered."""


class _Thread(threading.local):
    due = False


_THREAD = _Thread()


@contextmanager
def inspections_due() -> Generator[None]:
    """Inspect models at every evaluation, as for a compiled step, which has few eager ones."""
    before, _THREAD.due = _THREAD.due, True
    try:
        yield
    finally:
        _THREAD.due = before


@dataclass
class Record:
    """State kept for one model.

    Attributes:
        evaluations: Number of evaluations so far.
        warned: Names of the warnings already shown for this model.
        modules: The modules that the model called when it was last inspected.
        batch_norms: References to those of them that are batch norms.
        is_compiled: Whether it had compiled parts when it was last inspected.
        is_traced: Whether the code is being traced, so that nothing is recorded.
    """

    evaluations: int = 0
    warned: set[str] = field(default_factory=set)
    modules: WeakSet[nn.Module] = field(default_factory=WeakSet)
    batch_norms: tuple[ReferenceType[nn.Module], ...] = ()
    is_compiled: bool = False
    is_traced: bool = False

    @property
    def is_due(self) -> bool:
        """Whether to inspect the model at this evaluation: the 1st, 2nd, 4th, 8th, …."""
        return self.evaluations.bit_count() == 1 or _THREAD.due

    @contextmanager
    def still_due_if_refused(self) -> Generator[None]:
        """Inspect the model again at its next evaluation if an inspection raises an error."""
        try:
            yield
        except BaseException:
            self.evaluations = 0
            raise


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


def model_behind(f: object) -> object:
    """Return the object that identifies a model.

    Lambdas, methods and partials are new objects at every call. The model is the first module or
    parameter that they belong to, wrap, close over, take as an argument or name as a global, also
    through other functions. Other objects identify themselves, and functions that refer to no
    module are identified by a `Function`.
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
        return list(islice(getattr(f, "__dict__", {}).values(), MOST_REFERENCES * callable(f)))
    cells = [cell for cell in f.__closure__ or () if cell != CellType()]
    named = [f.__globals__.get(name) for name in f.__code__.co_names]
    used = [
        g
        for g in named
        if isinstance(g, nn.Module)
        or (isinstance(g, FunctionType) and g.__module__ == f.__module__)
    ]
    return [*(cell.cell_contents for cell in cells), *(f.__defaults__ or ()), *used]


def levels_to_caller() -> int:
    """Return the `stacklevel` at which a warning names code outside of this package and torch."""
    packages = (__name__.partition(".")[0], "torch")
    frame: FrameType | None = sys._getframe(1)
    level = 1
    while frame and frame.f_globals.get("__name__", "").partition(".")[0] in packages:
        frame, level = frame.f_back, level + 1
    return level
