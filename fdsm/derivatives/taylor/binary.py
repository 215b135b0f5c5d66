"""Rules of smooth functions of two arguments."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .jet import Jet, rule
from .products import Operand, lifted, value_of
from .reductions import root


@rule("hypot")
def hypot(input: Tensor, other: Tensor) -> Tensor:
    r"""Return $\sqrt{a² + b²}$."""
    return root(input.square() + other.square())


@rule("atan2", "arctan2")
def atan2(input: Tensor, other: Tensor) -> Tensor:
    r"""Return the angle of $(x, y)$: turned by a constant angle $θ$, $θ + \arctan(y' / x')$."""
    y, x = input, other
    angle = torch.atan2(value_of(y).detach(), value_of(x).detach())
    sine, cosine = angle.sin(), angle.cos()
    return angle + ((y * cosine - x * sine) / (x * cosine + y * sine)).atan()


@rule("xlogy")
def xlogy(input: Operand, other: Operand) -> Tensor:
    r"""Return $a \log b$, and zero where $a$ is."""
    return _times_log(torch.log, input, other, 0)


@rule(torch.special.xlog1py)
def xlog1py(input: Operand, other: Operand) -> Tensor:
    r"""Return $a \log(1 + b)$, and zero where $a$ is."""
    return _times_log(torch.log1p, input, other, -1)


def _times_log(log: Callable[[Tensor], Tensor], a: Any, b: Any, pole: float) -> Tensor:
    nothing = (value_of(a) == 0) & (value_of(b) <= pole)
    like = a if isinstance(a, Jet) else b
    safe = torch.where(torch.as_tensor(nothing), pole + 1, lifted(b, like))
    return torch.where(torch.as_tensor(nothing), 0, a * log(safe))
