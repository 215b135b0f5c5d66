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
    return _registration(_RULES, functions)


def complex_rule(*functions: object) -> Callable[[AnyRule], AnyRule]:
    """Return a decorator that registers a rule for functions with complex operands.

    The rules of real operands do not hold for them: their backward passes have no conjugates.

    Args:
        functions: As for `rule`.

    Returns:
        The decorator.
    """
    return _registration(_COMPLEX_RULES, functions)


def extend_to_complex(*functions: object) -> None:
    """Use the rules of some functions for complex operands, too: those of linear functions."""
    for function in functions:
        _LINEAR.update(_keys(function))


def _registration(
    rules: dict[Any, Rule], functions: tuple[object, ...]
) -> Callable[[AnyRule], AnyRule]:
    """Return a decorator that adds a rule to a table."""

    def register(rule: AnyRule) -> AnyRule:
        _IN_PLACE.clear()
        for function in functions:
            rules.update(dict.fromkeys(_keys(function), rule))
        return rule

    return register


def rule_of(
    function: object, in_place: Callable[[Rule, str], Rule], has_complex_operands: bool = False
) -> Rule:
    """Return the rule of a function of torch.

    Args:
        function: The function, or a method or attribute of tensors.
        in_place: Returns the rule of an in-place function, such as `Tensor.exp_`, from the rule of
            the out-of-place function and the name.
        has_complex_operands: Whether an operand is complex.

    Returns:
        The rule.

    Raises:
        MissingRule: If there is none.
    """
    existing = _registered(_key(function), has_complex_operands)
    existing = existing or _IN_PLACE.get((function, has_complex_operands))
    if existing is not None:
        return existing
    name = str(getattr(function, "__name__", function))
    if name.endswith("_") and not name.endswith("__"):
        for out_of_place in _named(name[:-1]):
            existing = _registered(out_of_place, has_complex_operands)
            if existing is not None:
                _IN_PLACE[function, has_complex_operands] = in_place(existing, name)
                return _IN_PLACE[function, has_complex_operands]
    if has_complex_operands:
        raise MissingRule(
            f"Taylor has no rule for `{_qualified(function)}` of complex numbers. Use real and "
            "imaginary parts, or another engine: `Taylor(fallback=Autodiff())`"
        )
    raise MissingRule(
        f"Taylor has no rule for `{_qualified(function)}`. Add one with "
        "`@fdsm.derivatives.rule(…)`, a function with the same arguments that computes the result "
        "from functions that have rules, or use another engine for models that need it: "
        "`Taylor(fallback=Autodiff())`"
    )


_RULES: dict[Any, Rule] = {}
_COMPLEX_RULES: dict[Any, Rule] = {}
_LINEAR: set[Any] = set()
_IN_PLACE: dict[Any, Rule] = {}
_NAMESPACES = (torch, Tensor, functional, torch.special, torch.linalg, torch._C._nn)
_PUBLIC_NAMES = {
    "torch._C._nn": "torch.nn.functional", "torch._C._special": "torch.special",
    "torch._C._linalg": "torch.linalg", "torch._tensor": "torch.Tensor",
}  # fmt: skip


def _registered(key: Any, has_complex_operands: bool) -> Rule | None:
    """Return the rule of a function from the tables, if there is one."""
    if not has_complex_operands:
        return _RULES.get(key)
    return _COMPLEX_RULES.get(key) or (_RULES.get(key) if key in _LINEAR else None)


def _keys(function: object) -> list[Any]:
    """Return the keys of a function, or of all functions of a name."""
    if not isinstance(function, str):
        return [_key(function)]
    named = _named(function)
    if not named:
        raise AttributeError(f"torch has no function called {function!r}")
    return named


def _key(function: Any) -> Any:
    """Return a function unchanged, and an attribute of tensors as the function that reads it."""
    return function if callable(function) else getattr(function, "__get__", function)


def _named(name: str) -> list[Any]:
    """Return all functions that torch has under a name."""
    members = [getattr(namespace, name) for namespace in _NAMESPACES if hasattr(namespace, name)]
    return [function for function in members if callable(function)]


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
