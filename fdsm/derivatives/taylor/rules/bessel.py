r"""Modified Bessel functions of the first kind, $I_0$ and $I_1$, and $e^{-|x|} I_n(x)$.

Near zero $I_n$ is a sum of powers, $(x/2)^n \sum_k (x²/4)^k / (k!\, (k + n)!)$. Elsewhere its
derivatives are $I_0' = I_1$ and $I_1' = I_0 - I_1 / x$. For large $x$ these cancel in the
derivatives of the scaled functions, which are computed from their asymptotic series.

Reference:
    Abramowitz and Stegun (1972), Handbook of mathematical functions, Eq. 9.6.10, 9.6.26, 9.7.1.
"""

import math
from collections.abc import Iterator
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from ..algebra import value_of
from ..composition import compose
from ..jet import Jet
from ..registry import rule
from .piecewise import absolute, warn_kink

_SMALL, _LARGE = 4.0, 20.0
_POWERS, _TERMS = 24, 30
"""Numbers of terms for relative errors below $10^{-10}$ up to the fourth derivative."""


@rule("i0")
def i0(x: Jet) -> Tensor:
    r"""Return $I_0(x)$."""
    return _unscaled(x, 0)


@rule(torch.special.i1)
def i1(x: Jet) -> Tensor:
    r"""Return $I_1(x)$."""
    return _unscaled(x, 1)


@rule(torch.special.i0e)
def i0e(x: Jet) -> Tensor:
    r"""Return $e^{-|x|} I_0(x)$."""
    return _scaled(x, 0)


@rule(torch.special.i1e)
def i1e(x: Jet) -> Tensor:
    r"""Return $e^{-|x|} I_1(x)$."""
    return _scaled(x, 1)


def _unscaled(x: Jet, n: int) -> Tensor:
    """Return $I_n(x)$, using the sum of powers near zero."""
    small = x.value.detach().abs() < _SMALL
    far: Any = torch.where(small, _SMALL, x)
    if n:
        far = compose(far, torch.special.i1, _derivatives_of_i1)
    else:
        far = compose(far, torch.special.i0, _derivatives_of_i0)
    return torch.where(small, _powers(torch.where(small, x, 0), n), far)


def _powers(x: Tensor, n: int) -> Tensor:
    r"""Return $(x/2)^n \sum_k (x²/4)^k / (k!\, (k + n)!)$."""
    square = x.square() / 4
    result = torch.ones_like(value_of(x))
    for k in range(_POWERS, 0, -1):
        result = 1 + square * result / (k * (k + n))
    return result * x / 2 if n else result


def _derivatives_of_i0(x: Tensor) -> Iterator[Tensor]:
    r"""Yield $I_0' = I_1$, $I_0'' = I_0 - q$, $I_1 - q'$, $I_0'' - q''$, where $q = I_1 / x$."""
    first = torch.special.i1(x)
    yield first
    q = first / x
    second = torch.special.i0(x) - q
    yield second
    slope = (second - q) / x
    third = first - slope
    yield third
    yield second - (third - 2 * slope) / x


def _derivatives_of_i1(x: Tensor) -> Iterator[Tensor]:
    return islice(_derivatives_of_i0(x), 1, None)


def _scaled(x: Jet, n: int) -> Tensor:
    r"""Return $e^{-|x|} I_n(x)$, using the asymptotic series if $x$ is large."""
    warn_kink(f"i{n}e", x)
    large = x.value.detach().abs() > _LARGE
    near: Any = torch.where(large, 1, x)
    far: Any = torch.where(large, x, _LARGE)
    sign = far.detach().sign() if n else 1
    scaled = _unscaled(near, n) * (-absolute(near)).exp()
    return torch.where(large, sign * _asymptotic(absolute(far), n), scaled)


def _asymptotic(x: Tensor, n: int) -> Tensor:
    r"""Return $\sum_k (-1)^k a_k / (x^k \sqrt{2πx})$, $a_k = a_{k-1} (4n² - (2k - 1)²) / 8k$."""
    r, result = x.reciprocal(), torch.ones_like(value_of(x))
    for k in range(_TERMS, 0, -1):
        result = 1 - result * r * ((4 * n * n - (2 * k - 1) ** 2) / (8 * k))
    return result * (r / (2 * math.pi)).sqrt()
