"""Tensors that carry their derivatives, and the table of rules that torch's functions follow."""

import dis
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from types import FrameType
from typing import Any, TypeVar
from weakref import ReferenceType, ref

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils import _pytree

from .truncation import Truncation

Rule = Callable[..., Any]
"""What a function of torch does to jets, with the signature of that function."""
AnyRule = TypeVar("AnyRule", bound=Rule)


class MissingRule(NotImplementedError):
    """A model does something to its input that `Taylor` cannot follow."""


class Jet(Tensor):
    """A tensor with the coefficients of its power series along some directions.

    It has the shape and type of its value, and torch's functions act on it by rules. Whatever
    would look past the coefficients finds no memory behind it, and fails rather than lose them.

    Attributes:
        coefficients: The value, the slopes and so on, shape `(rows, *shape)`; trailing ones that
            vanish are left out.
        truncation: Which coefficients there are.
        relatives: Tensors that may share memory with this one, and it itself.
    """

    @staticmethod
    def __new__(cls: type["Jet"], coefficients: Tensor, truncation: Truncation) -> "Jet":
        """Return a tensor of the shape of the value, without memory."""
        if truncation.run.recording and not torch.is_grad_enabled():
            _refuse_custom_functions()
            raise MissingRule(
                "gradients are switched off inside the model, by `torch.no_grad()`, where "
                "autograd makes constants: write `.detach()` if that is meant, or differentiate "
                "the model by another engine, e.g. `Taylor(fallback=Autodiff())`"
            )
        if coefficients.is_complex():
            raise MissingRule("Taylor has no rules for complex numbers")
        jet: Jet = Tensor._make_wrapper_subclass(
            cls, coefficients.shape[1:], dtype=coefficients.dtype, device=coefficients.device
        )
        return jet

    def __init__(self, coefficients: Tensor, truncation: Truncation) -> None:
        self.coefficients = coefficients
        self.truncation = truncation
        self.relatives: list[ReferenceType[Tensor]] = []

    @classmethod
    def __torch_function__(
        cls,
        function: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Return what the rule of a function of torch makes of jets."""
        _check_context(args)
        if not kwargs:
            return rule_of(function)(*args)
        if kwargs.pop("out", None) is not None:
            raise MissingRule("Taylor cannot write results into `out`: use the returned tensor")
        options = {_SYNONYMS.get(name, name): value for name, value in kwargs.items()}
        by_name = not args and "input" in options and "condition" not in options
        first = [options.pop("input")] if by_name else []
        return rule_of(function)(*args, *first, **options)

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls,
        function: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Refuse what has come past the rules.

        Raises:
            MissingRule: Always.
        """
        raise MissingRule(
            f"`{function}` was to be applied to the memory of a jet, which has none. That is how "
            "C code and `torch.tensor(x)` go past the rules of Taylor: use functions of torch on "
            "the tensor itself, or another engine, e.g. `Taylor(fallback=Autodiff())`"
        )

    @property
    def value(self) -> Tensor:
        """The coefficient of degree zero."""
        return self.coefficients[0]

    @property
    def degree(self) -> int:
        """The highest degree that is not known to vanish."""
        return self.truncation.degree(len(self.coefficients))

    @property
    def shared(self) -> bool:
        """Whether it has views, which then cannot follow if it gets more coefficients."""
        return any(x() is not None and x() is not self for x in self.relatives)

    def share(self, other: Tensor) -> None:
        """Remember that another tensor shares the memory of this one."""
        self.relatives = self.relatives or [ref(self)]
        self.relatives.append(ref(other))
        if isinstance(other, Jet):
            other.relatives = self.relatives

    def part(self, degree: int) -> Tensor:
        """Return the coefficients of a degree, shape `(V, *shape)` or `(1, *shape)`."""
        return self.coefficients[self.truncation.block(degree)]

    @property
    def shape(self) -> torch.Size:  # type: ignore[override]
        """The shape of the value."""
        return self.coefficients.shape[1:]

    @property
    def ndim(self) -> int:  # type: ignore[override]
        """How many dimensions the value has."""
        return self.coefficients.ndim - 1

    @property
    def dtype(self) -> torch.dtype:  # type: ignore[override]
        """The type of the coefficients."""
        return self.coefficients.dtype

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        """Where the coefficients are."""
        return self.coefficients.device

    @property
    def requires_grad(self) -> bool:
        """Whether gradients can be taken with respect to it: whether it was made to require them.

        Not whether its coefficients depend on parameters; else FSDP would put its hooks on the jet
        rather than on the coefficients.
        """
        return self.coefficients.requires_grad and self.coefficients.is_leaf

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    def __len__(self) -> int:
        return len(self.value)

    def __iter__(self) -> Iterator[Tensor]:
        return iter(torch.unbind(self))

    def __bool__(self) -> bool:
        return bool(self.value)

    def __float__(self) -> float:
        return float(self.value)

    def __int__(self) -> int:
        return int(self.value)

    def __format__(self, how: str) -> str:
        return format(self.value.detach(), how)

    def __repr__(self) -> str:  # type: ignore[override]
        return f"Jet({self.coefficients!r}, {self.truncation!r})"


def _check_context(args: tuple[Any, ...]) -> None:
    """Refuse what would mix up series, or lose them.

    Raises:
        MissingRule: If jets are of several runs, or are used where autograd or `torch.func` does
            not see them.
    """
    runs = {id(x.truncation.run) for x in _jets(args)}
    if len(runs) > 1:
        raise MissingRule(
            "series of two calls of Taylor meet: a model has kept a tensor from an earlier call, "
            "or differentiates inside by Taylor itself. Differentiate inside by Autodiff()"
        )
    if torch._C._functorch.maybe_current_level() is not None:
        raise MissingRule("Taylor has no rules for `torch.vmap` and other functions of torch.func")
    if not torch.is_grad_enabled():
        _refuse_custom_functions()


def _jets(args: Iterable[Any]) -> Iterator[Jet]:
    for x in args:
        if type(x) is Jet:
            yield x
        elif type(x) in (list, tuple):
            yield from _jets(x)


def _refuse_custom_functions() -> None:
    """Raise `MissingRule` if an `autograd.Function` is between here and the engine."""
    frame: FrameType | None = sys._getframe(1)
    while frame and frame.f_globals.get("__name__") != _ENGINE:
        if frame.f_globals.get("__name__") == torch.autograd.function.__name__:
            raise MissingRule(
                "Taylor has no rule for a custom `autograd.Function`, which a checkpoint is, too, "
                "unless it is made with `use_reentrant=False`: use functions of torch, or "
                "differentiate the model by another engine, e.g. `Taylor(fallback=Autodiff())`"
            )
        frame = frame.f_back


_ENGINE = f"{__package__}.engine"
_SYNONYMS = {"axis": "dim", "keepdims": "keepdim", "self": "input"}


@dataclass
class _Parts:
    """What FSDP, which looks for tensors in dataclasses, finds in a jet."""

    coefficients: Tensor
    truncation: Truncation


Jet.__dataclass_fields__ = _Parts.__dataclass_fields__  # type: ignore[attr-defined]


def _unflattened(leaves: Iterable[Any], truncation: Truncation) -> Jet:
    """Return the jet of what FSDP and others have made of its coefficients."""
    (coefficients,) = leaves
    if type(coefficients) is not Tensor or torch._C._functorch.is_batchedtensor(coefficients):
        raise MissingRule("Taylor has no rule for `torch.vmap` and the like inside a model")
    return Jet(coefficients, truncation)


_pytree.register_pytree_node(
    Jet,
    lambda jet: ([jet.coefficients], jet.truncation),
    _unflattened,
    serialized_type_name="fdsm.derivatives.taylor.Jet",
)


def rule(*functions: object) -> Callable[[AnyRule], AnyRule]:
    """Return a decorator that makes a function the rule of functions of torch for jets.

    The rule takes what the function takes, with jets among the arguments, and returns jets; it is
    used for the in-place form of the function too. The simplest is a formula in functions that
    have rules.

    Args:
        functions: The functions of torch, such as `torch.special.entr`, or the name that torch has
            for them in several places, such as `"exp"` for `torch.exp` and `Tensor.exp`.

    Returns:
        The decorator.

    Raises:
        AttributeError: If torch has nothing of a name.

    Example:
        >>> from fdsm.derivatives import Taylor
        >>> @rule(torch.special.entr)
        ... def entropy(x):
        ...     return -x * x.log()
        >>> f = lambda x: torch.special.entr(x).sum(1)
        >>> x, v = torch.tensor([[1.0]]), torch.tensor([[1.0]])
        >>> [term.item() for term in Taylor().jet(f, x, v, 2)]
        [0.0, -1.0, -1.0]
    """

    def register(function: AnyRule) -> AnyRule:
        _IN_PLACE.clear()
        for key in functions:
            if isinstance(key, str) and not _named(key):
                raise AttributeError(f"torch has no function called {key!r}")
            for target in _named(key) if isinstance(key, str) else (key,):
                _RULES[_key(target)] = function
        return function

    return register


def rule_of(function: object) -> Rule:
    """Return the rule of a function of torch.

    Args:
        function: The function, or a method or property of tensors.

    Returns:
        The rule; for a function that works in place, that of its pure form, with its result put
        in the place of the first argument.

    Raises:
        MissingRule: If there is none.
    """
    known = _RULES.get(_key(function)) or _IN_PLACE.get(function)
    if known is not None:
        return known
    name = str(getattr(function, "__name__", function))
    if name.endswith("_") and not name.endswith("__"):
        for pure in _named(name[:-1]):
            if pure in _RULES:
                _IN_PLACE[function] = _in_place(_RULES[pure], name)
                return _IN_PLACE[function]
    raise MissingRule(
        f"Taylor has no rule for `{_qualified(function)}`: add one with "
        "`@fdsm.derivatives.rule(…)`, a function of the same arguments that computes it from "
        "functions with rules, or let another engine differentiate models that need it, with "
        "`Taylor(fallback=Autodiff())`"
    )


def _qualified(function: object) -> str:
    """Return the name under which a function of torch is known."""
    owner = getattr(function, "__self__", None)
    name = str(getattr(function, "__name__", function))
    if name == "__get__":
        name = str(getattr(owner, "__name__", name))
    place = str(getattr(function, "__module__", None) or "torch.Tensor")
    for hidden, shown in _SHOWN.items():
        place = place.replace(hidden, shown)
    return f"{place}.{name.removeprefix('special_').removeprefix('linalg_')}"


_SHOWN = {
    "torch._C._nn": "torch.nn.functional", "torch._C._special": "torch.special",
    "torch._C._linalg": "torch.linalg", "torch._tensor": "torch.Tensor",
}  # fmt: skip


_RULES: dict[Any, Rule] = {}
_IN_PLACE: dict[Any, Rule] = {}
_PLACES = (torch, Tensor, functional, torch.special, torch.linalg, torch._C._nn)


def _key(function: Any) -> Any:
    """Return a function, and an attribute of tensors as the function that gets it."""
    return function if callable(function) else getattr(function, "__get__", function)


def _named(name: str) -> list[Any]:
    """Return all functions that torch has under a name."""
    found = [getattr(place, name) for place in _PLACES if hasattr(place, name)]
    return [function for function in found if callable(function)]


def _in_place(pure: Rule, name: str) -> Rule:
    """Return a rule whose result takes the place of its first argument."""

    def assigning(target: Tensor | Jet, *args: Any, **kwargs: Any) -> Any:
        if isinstance(target, Jet):
            return replace(target, pure(kept(target), *args, **kwargs))
        if _Probe.counts is not None:
            _Probe.counts.append(sys.getrefcount(target))
            return target
        alone = sys.getrefcount(target) <= _references() and not target._is_view()
        if alone and _is_assigned_to_a_name():
            return pure(target, *args, **kwargs)  # which takes the name, the only one there is
        raise MissingRule(
            f"`{name}` would write derivatives into a plain tensor that others may see, and which "
            "cannot hold them: make the tensor from the input of the model, e.g. with "
            f"`torch.zeros_like`, or use `{name[:-1]}`"
        )

    return assigning


def kept(jet: Jet) -> Jet:
    """Return a jet that stays as it is when the given one changes in place."""
    return Jet(jet.coefficients.clone() if jet.shared else jet.coefficients, jet.truncation)


def replace(target: Jet, result: Jet | Tensor) -> Jet:
    """Put a result in the place of a jet, and in those of its views.

    Args:
        target: The jet to change.
        result: What it is to be.

    Returns:
        The jet.

    Raises:
        MissingRule: If it has views, which cannot follow.
        RuntimeError: If the result has another shape.
    """
    if result.shape != target.shape:
        raise RuntimeError(
            f"a result of shape {tuple(result.shape)} does not fit in the place of a tensor of "
            f"shape {tuple(target.shape)}"
        )
    new = (result.coefficients if isinstance(result, Jet) else result[None]).to(target.dtype)
    if not target.shared:
        target.coefficients = new
    elif len(new) <= len(target.coefficients):
        target.coefficients.zero_()
        target.coefficients[: len(new)].copy_(new)
    else:
        raise MissingRule(
            "an operation in place would give derivatives to a tensor that shares its memory with "
            "another, which Taylor cannot follow: use the operation that returns a new tensor, "
            "e.g. `inplace=False`"
        )
    return target


class _Probe:
    """Where the references to a tensor are counted, while it is found out how many are usual."""

    counts: list[int] | None = None


@cache
def _references() -> int:
    """Return how many references there are to `x` in `x += y` if that is its only name."""
    x, y = torch.zeros(()), Jet(torch.zeros(1), Truncation(1))
    counts: list[int] = []
    _Probe.counts = counts
    try:
        x += y
    finally:
        _Probe.counts = None
    return counts[0]


def _is_assigned_to_a_name() -> bool:
    """Return whether the code that called torch is at `x += y`, with a variable for `x`."""
    frame: FrameType | None = sys._getframe()
    while frame and (
        frame.f_code.co_filename == __file__ or frame.f_code.co_name == "__torch_function__"
    ):
        frame = frame.f_back
    if frame is None:
        return False
    code = dis.get_instructions(frame.f_code)
    here = next((i for i in code if i.offset == frame.f_lasti), None)
    augmented = here is not None and here.opname == "BINARY_OP" and here.argrepr.endswith("=")
    return augmented and next(code).opname in {"STORE_FAST", "STORE_NAME"}


def _attribute(name: str) -> Rule:
    return lambda x: getattr(x.value, name)


for _name in (
    "is_cpu", "is_cuda", "is_meta", "is_mkldnn", "is_mps", "is_nested", "is_quantized",
    "is_sparse", "is_sparse_csr", "is_xpu", "itemsize", "layout", "nbytes",
):  # fmt: skip
    rule(getattr(Tensor, _name))(_attribute(_name))
