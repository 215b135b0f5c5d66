"""Conversions of type, device and memory format, and copies."""

from typing import Any

import torch
from torch import Tensor

from ..algebra import as_batch, from_batch, value_of
from ..jet import Jet
from ..registry import Rule, rule
from ..series import Truncation


def _conversion(name: str) -> Rule:
    """Return the rule of a method that changes the type, device or memory format."""

    def applied(
        x: Tensor, *args: Any, memory_format: torch.memory_format | None = None, **kwargs: Any
    ) -> Any:
        args = tuple(value_of(arg) for arg in args)
        kwargs = {key: value_of(arg) for key, arg in kwargs.items()}
        ordered = kwargs if memory_format is None else {**kwargs, "memory_format": memory_format}
        if not isinstance(x, Jet):
            return getattr(x, name)(*args, **ordered)
        if memory_format is not None:
            value = x.value
            if getattr(value, name)(*args, **ordered) is value:
                return x
            x = clone(x, memory_format=memory_format)
        c = getattr(x.coefficients, name)(*args, **kwargs)
        if c is x.coefficients:
            return x
        return _series(c, x.truncation) if isinstance(c, Tensor) else c

    return applied


def _series(c: Tensor, truncation: Truncation) -> Tensor:
    """Return a jet, or the value alone if it has an integer or boolean type."""
    return Jet(c, truncation) if c.is_floating_point() or c.is_complex() else c[0]


for _name in (
    "bfloat16", "cdouble", "cfloat", "cpu", "cuda", "double", "float", "half", "to", "type",
    "type_as",
):  # fmt: skip
    rule(_name)(_conversion(_name))


@rule("contiguous")
def contiguous(input: Jet, memory_format: torch.memory_format = torch.contiguous_format) -> Jet:
    """Return a contiguous tensor, which is the tensor itself if it is contiguous."""
    if input.value.is_contiguous(memory_format=memory_format):
        return input
    return clone(input, memory_format=memory_format)


@rule("clone")
def clone(input: Jet, *, memory_format: torch.memory_format | None = None) -> Jet:
    """Return a copy, with every coefficient in a given memory format."""
    if memory_format in {torch.channels_last, torch.channels_last_3d}:
        return from_batch(as_batch(input, True).clone(memory_format=memory_format), input, True)
    return Jet(input.coefficients.clone(memory_format=memory_format), input.truncation)
