"""The table of rules, which say how functions of torch act on jets."""

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn import functional

Rule = Callable[..., Any]
"""A function with the arguments of a function of torch that also accepts jets."""
AnyRule = TypeVar("AnyRule", bound=Rule)


class MissingRule(NotImplementedError):
    """The model does something to its input that `Taylor` cannot differentiate."""


def rule(*functions: object) -> Callable[[AnyRule], AnyRule]:
    """Return a decorator that registers a rule for functions of torch.

    A rule takes the arguments of the function, with jets among them, and returns jets. It is used
    for the in-place form of the function as well. The simplest rule is a formula in functions that
    have rules.

    Args:
        functions: Functions of torch, such as `torch.special.entr`, or names that torch uses in
            several places, such as `"exp"` for `torch.exp` and `Tensor.exp`.

    Returns:
        The decorator.

    Raises:
        AttributeError: If torch has no function of that name.

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


def rule_of(function: object, in_place: Callable[[Rule, str], Rule]) -> Rule:
    """Return the rule of a function of torch.

    Args:
        function: The function, or a method or attribute of tensors.
        in_place: Returns the rule of an in-place function, such as `Tensor.exp_`, from the rule of
            the out-of-place function and the name.

    Returns:
        The rule.

    Raises:
        MissingRule: If there is none.
    """
    known = _RULES.get(_key(function)) or _IN_PLACE.get(function)
    if known is not None:
        return known
    name = str(getattr(function, "__name__", function))
    if name.endswith("_") and not name.endswith("__"):
        for out_of_place in _named(name[:-1]):
            if out_of_place in _RULES:
                _IN_PLACE[function] = in_place(_RULES[out_of_place], name)
                return _IN_PLACE[function]
    raise MissingRule(
        f"Taylor has no rule for `{_qualified(function)}`. Add one with "
        "`@fdsm.derivatives.rule(…)`, a function with the same arguments that computes the result "
        "from functions that have rules, or use another engine for models that need it: "
        "`Taylor(fallback=Autodiff())`"
    )


_RULES: dict[Any, Rule] = {}
_IN_PLACE: dict[Any, Rule] = {}
_PLACES = (torch, Tensor, functional, torch.special, torch.linalg, torch._C._nn)
_PUBLIC_NAMES = {
    "torch._C._nn": "torch.nn.functional", "torch._C._special": "torch.special",
    "torch._C._linalg": "torch.linalg", "torch._tensor": "torch.Tensor",
}  # fmt: skip


def _key(function: Any) -> Any:
    """Return a function unchanged, and an attribute of tensors as the function that reads it."""
    return function if callable(function) else getattr(function, "__get__", function)


def _named(name: str) -> list[Any]:
    """Return all functions that torch has under a name."""
    found = [getattr(place, name) for place in _PLACES if hasattr(place, name)]
    return [function for function in found if callable(function)]


def _qualified(function: object) -> str:
    """Return the documented name of a function of torch."""
    owner = getattr(function, "__self__", None)
    name = str(getattr(function, "__name__", function))
    if name == "__get__":
        name = str(getattr(owner, "__name__", name))
    module = str(getattr(function, "__module__", None) or "torch.Tensor")
    for private, public in _PUBLIC_NAMES.items():
        module = module.replace(private, public)
    return f"{module}.{name.removeprefix('special_').removeprefix('linalg_')}"
