"""Rules of functions that have no derivatives: questions, comparisons, constants."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .jet import Jet, Rule, replace, rule
from .products import value_of

_OF_VALUES = (
    "all", "allclose", "any", "argmax", "argmin", "argsort", "argwhere", "bernoulli", "bool",
    "bucketize", "byte", "ceil", "char", "count_nonzero", "data_ptr", "dim", "element_size", "eq",
    "equal", "fix", "floor", "floor_divide", "ge", "get_device", "greater", "greater_equal", "gt",
    "heaviside", "histc", "int", "is_complex", "is_conj", "is_contiguous", "is_floating_point",
    "is_inference", "is_neg", "is_nonzero", "is_same_size", "is_signed", "isclose", "isfinite",
    "isin", "isinf", "isnan", "isneginf", "isposinf", "isreal", "item", "le", "less", "less_equal",
    "logical_and", "logical_not", "logical_or", "logical_xor", "long", "lt", "multinomial",
    "ndimension", "ne", "nelement", "nonzero", "not_equal", "numel", "rand_like", "randint_like",
    "randn_like", "result_type", "round", "searchsorted", "sgn", "short", "sign", "signbit",
    "size", "storage_offset", "stride", "tolist", "trunc",
)  # fmt: skip


def _of_value(name: str, place: Any) -> Rule:
    function = getattr(place, name)

    def applied(*args: Any, **kwargs: Any) -> Any:
        kwargs = {key: value_of(x) for key, x in kwargs.items()}
        return function(*map(value_of, args), **kwargs)

    return applied


for _place in (torch, Tensor):
    for _name in _OF_VALUES:
        if callable(getattr(_place, _name, None)):
            rule(getattr(_place, _name))(_of_value(_name, _place))


@rule("detach", Tensor.data)
def detach(x: Jet) -> Tensor:
    """Return the value as a constant, which shares its memory."""
    constant = x.value.detach()
    x.share(constant)
    return constant


def _constant(function: Callable[..., Tensor]) -> Rule:
    """Return the rule of what makes a tensor of constants, into which jets may be written."""

    def made(x: Jet, *args: Any, **kwargs: Any) -> Tensor:
        constant = function(x.value, *map(value_of, args), **kwargs)
        return Jet(constant[None], x.truncation) if constant.is_floating_point() else constant

    return made


def _random(name: str) -> Rule:
    """Return the rule of what fills a tensor with random numbers."""
    return lambda x, *args, **kwargs: replace(
        x, getattr(torch.empty_like(x.value), name)(*args, **kwargs)
    )


for _name in (
    "bernoulli_", "cauchy_", "exponential_", "geometric_", "log_normal_", "normal_", "random_",
    "uniform_",
):  # fmt: skip
    rule(getattr(Tensor, _name))(_random(_name))
for _name in ("empty_like", "full_like", "ones_like", "zeros_like"):
    rule(_name)(_constant(getattr(torch, _name)))
for _name in ("new_empty", "new_full", "new_ones", "new_zeros"):
    rule(_name)(_constant(getattr(Tensor, _name)))
rule(Tensor.new_tensor)(lambda x, *args, **kwargs: x.value.new_tensor(*args, **kwargs))
