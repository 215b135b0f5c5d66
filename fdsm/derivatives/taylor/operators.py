"""Rules of operators that torch does not treat as one of its functions."""

from typing import Any

import torch
from torch import Tensor

from .jet import Jet, rule
from .products import value_of

Operand = Tensor | float


@rule(Tensor.__rpow__)
def rpow(x: Jet, base: Operand) -> Tensor:
    """Return $a^x$."""
    return torch.pow(base, x)


@rule(Tensor.__rmatmul__)
def rmatmul(x: Tensor, other: Tensor) -> Tensor:
    """Return $A x$."""
    return other @ x


@rule(Tensor.__floordiv__)
def floordiv(a: Operand, b: Operand) -> Tensor:
    """Return a quotient rounded down, which has no derivatives."""
    return torch.floor(torch.as_tensor(value_of(a) / value_of(b)))


@rule(Tensor.__rfloordiv__)
def rfloordiv(b: Operand, a: Operand) -> Tensor:
    """Return a quotient rounded down, which has no derivatives."""
    return floordiv(a, b)


@rule("remainder")
def remainder(a: Operand, b: Operand) -> Tensor:
    r"""Return $a - b \lfloor a / b \rfloor$."""
    return a - b * floordiv(a, b)


@rule(Tensor.__rmod__)
def rmod(b: Operand, a: Operand) -> Tensor:
    r"""Return $a - b \lfloor a / b \rfloor$, where `b` comes first."""
    return remainder(a, b)


@rule("fmod")
def fmod(a: Operand, b: Operand) -> Tensor:
    r"""Return $a - b t$ with $t = a / b$ rounded towards zero."""
    return a - b * torch.trunc(torch.as_tensor(value_of(a) / value_of(b)))


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
    """Return whether a value is among those of a tensor."""
    return value_of(element) in x.value


@rule(Tensor.__reversed__)
def reversed_(x: Tensor) -> Tensor:
    """Return a tensor with its first dimension back to front."""
    return x.flip(0) if x.ndim else x
