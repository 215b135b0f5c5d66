"""Functions of `torch.special`: error functions, gamma functions and others."""

import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from ..algebra import match_operand
from ..composition import compose, smooth
from ..jet import Jet
from ..registry import MissingRule, rule

_SQRT2PI, _SQRTPI = math.sqrt(2 * math.pi), math.sqrt(math.pi)


@smooth("erf")
def erf(x: Tensor) -> Iterator[Tensor]:
    r"""Yield the derivatives of $\mathrm{erf}\, x$."""
    return _bell(x, 2 / _SQRTPI)


@smooth("erfc")
def erfc(x: Tensor) -> Iterator[Tensor]:
    r"""Yield the derivatives of $1 - \mathrm{erf}\, x$."""
    return _bell(x, -2 / _SQRTPI)


def _bell(x: Tensor, scale: float) -> Iterator[Tensor]:
    y = scale * (-x * x).exp()
    yield y
    yield -2 * x * y
    yield (4 * x * x - 2) * y


@smooth("erfinv")
def erfinv(x: Tensor) -> Iterator[Tensor]:
    r"""Yield the derivatives of the inverse of $\mathrm{erf}$."""
    y = x.erfinv()
    first = _SQRTPI / 2 * (y * y).exp()
    yield first
    yield 2 * y * first * first
    yield (2 + 8 * y * y) * first**3


@smooth(torch.special.ndtr)
def ndtr(x: Tensor) -> Iterator[Tensor]:
    r"""Yield the derivatives of the standard normal distribution function."""
    y = (-0.5 * x * x).exp() / _SQRT2PI
    yield y
    yield -x * y
    yield (x * x - 1) * y


@smooth(torch.special.log_ndtr)
def log_ndtr(x: Tensor) -> Iterator[Tensor]:
    r"""Yield the derivatives of $\log Φ(x)$. The first is $h = φ / Φ$."""
    h = (-0.5 * x * x - torch.special.log_ndtr(x) - math.log(_SQRT2PI)).exp()
    yield h
    yield -h * (x + h)
    yield h * ((x + h) * (x + 2 * h) - 1)


@smooth(torch.special.erfcx)
def erfcx(x: Tensor) -> Iterator[Tensor]:
    r"""Yield the derivatives of $e^{x²} \mathrm{erfc}\, x$."""
    y = torch.special.erfcx(x)
    first = 2 * x * y - 2 / _SQRTPI
    yield first
    second = 2 * (y + x * first)
    yield second
    yield 4 * first + 2 * x * second


@rule("sinc")
def sinc(x: Tensor) -> Tensor:
    r"""Return $\sin(πx) / (πx)$, using the power series near zero."""
    z = math.pi * x
    small = z.detach().abs() < 1.5
    square = torch.where(small, z, 0.0).square()
    series = torch.ones_like(x)
    for k in range(13, 0, -1):
        series = 1 - series * square / (2 * k * (2 * k + 1))
    large = torch.where(small, 1.0, z)
    return torch.where(small, series, large.sin() / large)


@smooth(torch.special.ndtri)
def ndtri(x: Tensor) -> Iterator[Tensor]:
    r"""Yield the derivatives of the inverse of the standard normal distribution function."""
    y = torch.special.ndtri(x)
    first = _SQRT2PI * (0.5 * y * y).exp()
    yield first
    yield y * first * first
    yield (1 + 2 * y * y) * first**3


@smooth("lgamma", torch.special.gammaln)
def lgamma(x: Tensor) -> Iterator[Tensor]:
    r"""Yield the derivatives of $\log |Γ(x)|$."""
    return _polygamma(x, 0)


@smooth("digamma", torch.special.psi)
def digamma(x: Tensor) -> Iterator[Tensor]:
    r"""Yield the derivatives of $ψ(x)$."""
    return _polygamma(x, 1)


def _polygamma(x: Tensor, n: int) -> Iterator[Tensor]:
    while True:
        yield torch.polygamma(n, x)
        n += 1


@rule(torch.polygamma, torch.special.polygamma)
def polygamma(n: int, x: Jet) -> Jet:
    """Return $ψ^{(n)}(x)$."""
    return compose(x, lambda u: torch.polygamma(n, u), lambda u: _polygamma(u, n + 1))


@rule(Tensor.polygamma)
def polygamma_of(x: Jet, n: int) -> Jet:
    """Return $ψ^{(n)}(x)$, called as a method."""
    return polygamma(n, x)


@rule("igamma", torch.special.gammainc)
def igamma(input: Tensor, other: Tensor) -> Tensor:
    r"""Return $P(a, x)$, with $∂P/∂x = x^{a-1} e^{-x} / Γ(a)$."""
    return _incomplete_gamma(torch.special.gammainc, 1, input, other)


@rule("igammac", torch.special.gammaincc)
def igammac(input: Tensor, other: Tensor) -> Tensor:
    r"""Return $Q(a, x) = 1 - P(a, x)$."""
    return _incomplete_gamma(torch.special.gammaincc, -1, input, other)


def _incomplete_gamma(
    function: Callable[[Tensor, Tensor], Tensor], sign: int, a: Tensor, x: Tensor
) -> Tensor:
    """Return an incomplete gamma function.

    Raises:
        MissingRule: If its first argument depends on the input of the model.
    """
    if isinstance(a, Jet) or a.requires_grad:
        raise MissingRule(
            "Taylor has no rule for incomplete gamma functions whose first argument depends on "
            "the input of the model or on parameters"
        )
    assert isinstance(x, Jet)

    def derivatives(u: Tensor) -> Iterator[Tensor]:
        first = sign * ((a - 1) * u.log() - u - a.lgamma()).exp()
        yield first
        r = (a - 1) / u
        second = first * (r - 1)
        yield second
        yield second * (r - 1) - first * r / u

    return compose(match_operand(x, a), lambda u: function(a, u), derivatives)
