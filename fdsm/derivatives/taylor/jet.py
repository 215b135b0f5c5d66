"""Tensors that carry their derivatives, and the table of rules that torch's functions follow."""

import dis
import sys
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils import _pytree

from .truncation import Truncation

Rule = Callable[..., Any]
"""What a function of torch does to jets, with the signature of that function."""
AnyRule = TypeVar("AnyRule", bound=Rule)


if TYPE_CHECKING:
    _Tensor = Tensor
else:
    _Tensor = object


class MissingRule(NotImplementedError):
    """A model does something to its input that `Taylor` cannot follow."""


class Jet(_Tensor):
    """A tensor with the coefficients of its power series along some directions.

    It passes for a tensor: it has the shape of its value, torch's functions accept it, its methods
    are those of tensors, and `isinstance(jet, torch.Tensor)` holds. Yet it is none, so that code
    which would look past the coefficients fails rather than lose them.

    Attributes:
        coefficients: The value, the slopes and so on, shape `(rows, *shape)`; trailing ones that
            vanish are left out.
        truncation: Which coefficients there are.
        shared: Whether another jet may be a view of this one, which then cannot be given more
            coefficients in place.
    """

    __slots__ = ("__weakref__", "coefficients", "shared", "truncation")

    _FORWARDED: ClassVar = frozenset({
        "device", "dtype", "is_cpu", "is_cuda", "is_meta", "is_mps", "is_quantized", "is_sparse",
        "is_xpu", "itemsize", "layout", "names",
    })  # fmt: skip

    def __init__(self, coefficients: Tensor, truncation: Truncation) -> None:
        if truncation.recording and not torch.is_grad_enabled():
            raise MissingRule(
                "gradients are switched off inside the model, by `torch.no_grad()`, by a custom "
                "`autograd.Function` or by a checkpoint with `use_reentrant=True`, where "
                "derivatives would be lost: write `.detach()` for what is to be constant, use "
                "`use_reentrant=False`, or differentiate with another engine, e.g. "
                "`Taylor(fallback=Autodiff())`"
            )
        self.coefficients = coefficients
        self.truncation = truncation
        self.shared = False

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """What `isinstance` sees besides the true type."""
        return Tensor

    @classmethod
    def __torch_function__(
        cls,
        function: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Return what the rule of a function of torch makes of jets."""
        return rule_of(function)(*args, **(kwargs or {}))

    @property
    def value(self) -> Tensor:
        """The coefficient of degree zero."""
        return self.coefficients[0]

    @property
    def degree(self) -> int:
        """The highest degree that is not known to vanish."""
        return self.truncation.degree(len(self.coefficients))

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
    def requires_grad(self) -> bool:  # type: ignore[override]
        """Whether autograd records what becomes of the coefficients."""
        return self.coefficients.requires_grad

    def __len__(self) -> int:
        return len(self.value)

    def __iter__(self) -> Iterator[Any]:
        return iter(rule_of(torch.unbind)(self))

    def __bool__(self) -> bool:
        return bool(self.value)

    def __float__(self) -> float:
        return float(self.value)

    def __repr__(self) -> str:  # type: ignore[override]
        return f"Jet({self.coefficients!r}, {self.truncation!r})"

    def __getattr__(self, name: str) -> Any:
        if name in Jet._FORWARDED:
            return getattr(self.value, name)
        attribute = getattr(Tensor, name, None)
        if attribute is None or name.startswith("__"):
            raise AttributeError(f"'Tensor' object has no attribute {name!r}")
        if callable(attribute):
            return lambda *args, **kwargs: rule_of(attribute)(self, *args, **kwargs)
        return rule_of(attribute)(self)


_pytree.register_pytree_node(
    Jet,
    lambda jet: ([jet.coefficients], jet.truncation),
    lambda leaves, truncation: Jet(next(iter(leaves)), truncation),
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
        [-0.0, -1.0, -1.0]
    """

    def register(function: AnyRule) -> AnyRule:
        for key in functions:
            if isinstance(key, str) and not _named(key):
                raise AttributeError(f"torch has no function called {key!r}")
            for target in _named(key) if isinstance(key, str) else (key,):
                _RULES[target] = function
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
    known = _RULES.get(function)
    if known is not None:
        return known
    name = str(getattr(function, "__name__", function))
    if name.endswith("_") and not name.endswith("__"):
        for pure in _named(name[:-1]):
            if pure in _RULES:
                return _in_place(_RULES[pure], name)
    place = str(getattr(function, "__module__", None) or "torch.Tensor")
    raise MissingRule(
        f"Taylor has no rule for `{place.replace('torch._C._nn', 'torch.nn.functional')}.{name}`: "
        "add one with `@fdsm.derivatives.rule(…)`, a function of the same arguments that computes "
        "it from functions with rules, or let another engine differentiate models that need it, "
        "with `Taylor(fallback=Autodiff())`"
    )


_RULES: dict[Any, Rule] = {}
_PLACES = (torch, Tensor, functional, torch.special, torch.linalg, torch._C._nn)


def _named(name: str) -> list[Any]:
    """Return all that torch has under a name."""
    return [getattr(place, name) for place in _PLACES if hasattr(place, name)]


def _in_place(pure: Rule, name: str) -> Rule:
    """Return a rule whose result takes the place of its first argument."""

    def assigning(target: Tensor | Jet, *args: Any, **kwargs: Any) -> Any:
        if isinstance(target, Jet):
            return replace(target, pure(kept(target), *args, **kwargs))
        if _in_augmented_assignment():  # the name is bound to what is returned
            return pure(target, *args, **kwargs)
        raise MissingRule(
            f"`{name}` would write derivatives into a plain tensor, which cannot hold them: make "
            "the tensor from the input of the model, e.g. with `torch.zeros_like`, or use "
            f"`{name[:-1]}`"
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
    """
    if not isinstance(result, Jet):
        result = Jet(result[None], target.truncation)
    if not target.shared:
        target.coefficients = result.coefficients
    elif len(result.coefficients) <= len(target.coefficients):
        target.coefficients.zero_()
        target.coefficients[: len(result.coefficients)].copy_(result.coefficients)
    else:
        raise MissingRule(
            "an operation in place would give derivatives to a tensor that shares its memory with "
            "another, which Taylor cannot follow: use the operation that returns a new tensor, "
            "e.g. `inplace=False`"
        )
    return target


def _in_augmented_assignment() -> bool:
    """Return whether the code that called torch is at a statement such as `x += y`."""
    frame: FrameType | None = sys._getframe()
    while frame and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    if frame is None:
        return False
    code = dis.get_instructions(frame.f_code)
    here = next((i for i in code if i.offset == frame.f_lasti), None)
    return here is not None and here.opname == "BINARY_OP" and here.argrepr.endswith("=")


_OPERATORS = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "truediv": torch.div, "pow": torch.pow,
    "matmul": torch.matmul, "mod": torch.remainder, "floordiv": torch.floor_divide,
}  # fmt: skip
_COMPARISONS = {
    "lt": torch.lt, "le": torch.le, "gt": torch.gt, "ge": torch.ge, "eq": torch.eq, "ne": torch.ne,
}  # fmt: skip


def _operator(function: object) -> Rule:
    return lambda *args: rule_of(function)(*args)


def _reflected(function: object) -> Rule:
    return lambda jet, other: rule_of(function)(other, jet)


def _assigning(function: object) -> Rule:
    return lambda jet, other: replace(jet, rule_of(function)(kept(jet), other))


for _name, _function in _OPERATORS.items():
    setattr(Jet, f"__{_name}__", _operator(_function))
    setattr(Jet, f"__r{_name}__", _reflected(_function))
    setattr(Jet, f"__i{_name}__", _assigning(_function))
for _name, _function in _COMPARISONS.items():
    setattr(Jet, f"__{_name}__", _operator(_function))
Jet.__hash__ = object.__hash__  # type: ignore[method-assign]
for _name, _function in {
    "neg": torch.neg, "pos": torch.positive, "abs": torch.abs,
    "getitem": Tensor.__getitem__, "setitem": Tensor.__setitem__,
}.items():  # fmt: skip
    setattr(Jet, f"__{_name}__", _operator(_function))
