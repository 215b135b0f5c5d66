"""Functions without derivatives: comparisons, queries, roundings and constants."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ..algebra import Operand, value_of
from ..jet import Jet, assign_
from ..registry import Rule, extend_to_complex, rule

_FUNCTIONS_OF_VALUES = (
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


def _of_value(function: Callable[..., Any]) -> Rule:
    """Return the rule of a function that depends on the value alone."""

    def applied(*args: Any, **kwargs: Any) -> Any:
        kwargs = {key: value_of(x) for key, x in kwargs.items()}
        result = function(*map(value_of, args), **kwargs)
        return result.detach() if isinstance(result, Tensor) and result.requires_grad else result

    return applied


def _attribute(name: str) -> Rule:
    """Return the rule of an attribute of tensors that does not depend on their elements."""
    return lambda x: getattr(x.value, name)


for _namespace in (torch, Tensor):
    for _name in _FUNCTIONS_OF_VALUES:
        if callable(getattr(_namespace, _name, None)):
            rule(getattr(_namespace, _name))(_of_value(getattr(_namespace, _name)))
            if _name != "sgn":  # which has derivatives for complex numbers
                extend_to_complex(getattr(_namespace, _name))
for _name in (
    "is_cpu", "is_cuda", "is_meta", "is_mkldnn", "is_mps", "is_nested", "is_quantized",
    "is_sparse", "is_sparse_csr", "is_xpu", "itemsize", "layout", "nbytes",
):  # fmt: skip
    rule(getattr(Tensor, _name))(_attribute(_name))
    extend_to_complex(getattr(Tensor, _name))


@rule(Tensor.__floordiv__)
def floordiv(a: Operand, b: Operand) -> Tensor:
    """Return a quotient rounded down."""
    return torch.floor(torch.as_tensor(value_of(a) / value_of(b))).detach()


@rule(Tensor.__rfloordiv__)
def rfloordiv(b: Operand, a: Operand) -> Tensor:
    """Return a quotient rounded down, for the reflected operator."""
    return floordiv(a, b)


@rule(Tensor.__eq__)
def eq(a: Operand, b: Any) -> Tensor:
    """Return whether values are equal."""
    return torch.eq(value_of(a), value_of(b))


@rule(Tensor.__ne__)
def ne(a: Operand, b: Any) -> Tensor:
    """Return whether values differ."""
    return torch.ne(value_of(a), value_of(b))


@rule(Tensor.__contains__)
def contains(x: Jet, element: Any) -> bool:
    """Return whether a tensor contains a value."""
    return value_of(element) in x.value


@rule("detach", Tensor.data)
def detach(x: Jet) -> Tensor:
    """Return the value as a constant that shares its memory."""
    constant = x.value.detach()
    x.share(constant)
    return constant


def _constant(function: Callable[..., Tensor]) -> Rule:
    """Return the rule of a function that creates constants, into which jets can be written."""

    def applied(x: Jet, *args: Any, **kwargs: Any) -> Tensor:
        constant = function(x.value, *map(value_of, args), **kwargs)
        differentiable = constant.is_floating_point() or constant.is_complex()
        return Jet(constant[None], x.truncation) if differentiable else constant

    return applied


def _random(name: str) -> Rule:
    """Return the rule of a function that fills a tensor with random numbers."""
    return lambda x, *args, **kwargs: assign_(
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
