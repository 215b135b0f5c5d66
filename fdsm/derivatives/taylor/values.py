"""Rules of functions that have no derivatives: questions, comparisons, constants."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .jet import Jet, Rule, rule
from .products import value_of

_OF_VALUES = (
    "all", "allclose", "any", "argmax", "argmin", "argsort", "bool", "bucketize", "ceil",
    "count_nonzero", "data_ptr", "dim", "element_size", "eq", "equal", "floor", "floor_divide",
    "ge", "get_device", "gt", "heaviside", "histc", "int", "is_complex", "is_contiguous",
    "is_floating_point", "is_inference", "is_nonzero", "is_same_size", "isclose", "isfinite",
    "isinf", "isnan", "item", "le", "logical_and", "logical_not", "logical_or", "long", "lt", "ne",
    "nelement", "nonzero", "numel", "rand_like", "randint_like", "randn_like", "round",
    "searchsorted", "sgn", "sign", "signbit", "size", "storage_offset", "stride", "tolist",
    "trunc",
)  # fmt: skip


def _of_value(name: str, place: Any) -> Rule:
    function = getattr(place, name)

    def applied(*args: Any, **kwargs: Any) -> Any:
        kwargs = {key: value_of(x) for key, x in kwargs.items()}
        return function(*map(value_of, args), **kwargs)

    return applied


for _place in (torch, Tensor):
    for _name in _OF_VALUES:
        if hasattr(_place, _name):
            rule(getattr(_place, _name))(_of_value(_name, _place))


@rule("detach", Tensor.data)
def detach(x: Jet) -> Tensor:
    """Return the value as a constant."""
    return x.value.detach()


def _constant(function: Callable[..., Tensor]) -> Rule:
    """Return the rule of what makes a tensor of constants, into which jets may be written."""

    def made(x: Jet, *args: Any, **kwargs: Any) -> Jet:
        return Jet(function(x.value, *args, **kwargs)[None], x.truncation)

    return made


for _name in ("empty_like", "full_like", "ones_like", "zeros_like"):
    rule(_name)(_constant(getattr(torch, _name)))
for _name in ("new_empty", "new_full", "new_ones", "new_zeros"):
    rule(_name)(_constant(getattr(Tensor, _name)))
rule(Tensor.new_tensor)(lambda x, *args, **kwargs: x.value.new_tensor(*args, **kwargs))
