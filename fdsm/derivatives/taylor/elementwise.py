"""Rules of smooth functions of each element: the derivatives of each, $g'$, $g''$ and $g'''$."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional

from .composition import compose, smooth
from .jet import Jet, rule

_LN2, _LN10 = math.log(2), math.log(10)
_SQRT2, _SQRT2PI, _SQRTPI = math.sqrt(2), math.sqrt(2 * math.pi), math.sqrt(math.pi)


@smooth("exp")
def exp(x: Tensor) -> Iterator[Tensor]:
    """Yield the derivatives of $e^x$, which are $e^x$."""
    return _exponentials(x)


@smooth("expm1")
def expm1(x: Tensor) -> Iterator[Tensor]:
    """Yield the derivatives of $e^x - 1$."""
    return _exponentials(x)


@smooth("exp2")
def exp2(x: Tensor) -> Iterator[Tensor]:
    """Yield the derivatives of $2^x$."""
    y = x.exp2()
    while True:
        y = y * _LN2
        yield y


@smooth("log")
def log(x: Tensor) -> Iterator[Tensor]:
    r"""Yield the derivatives of $\log x$."""
    return _logarithm(x, 1.0)


@smooth("log2")
def log2(x: Tensor) -> Iterator[Tensor]:
    r"""Yield the derivatives of $\log_2 x$."""
    return _logarithm(x, 1 / _LN2)


@smooth("log10")
def log10(x: Tensor) -> Iterator[Tensor]:
    r"""Yield the derivatives of $\log_{10} x$."""
    return _logarithm(x, 1 / _LN10)


@smooth("log1p")
def log1p(x: Tensor) -> Iterator[Tensor]:
    r"""Yield the derivatives of $\log(1 + x)$."""
    return _logarithm(1 + x, 1.0)


def _exponentials(x: Tensor) -> Iterator[Tensor]:
    y = x.exp()
    while True:
        yield y


def _logarithm(x: Tensor, scale: float) -> Iterator[Tensor]:
    r = x.reciprocal()
    yield r * scale
    square = r * r
    yield -scale * square
    yield 2 * scale * square * r


@smooth("reciprocal")
def reciprocal(x: Tensor) -> Iterator[Tensor]:
    """Yield the derivatives of $1/x$."""
    return _power(x, -1.0)


@smooth("sqrt")
def sqrt(x: Tensor) -> Iterator[Tensor]:
    r"""Yield the derivatives of $\sqrt x$."""
    return _power(x, 0.5)


@smooth("rsqrt")
def rsqrt(x: Tensor) -> Iterator[Tensor]:
    r"""Yield the derivatives of $1/\sqrt x$."""
    return _power(x, -0.5)


@smooth("square")
def square(x: Tensor) -> Iterator[Tensor]:
    """Yield the derivatives of $x²$."""
    return _power(x, 2.0)


def power(x: Jet, exponent: float) -> Jet:
    """Return $x^p$ for a number $p$."""
    return compose(x, lambda u: u**exponent, lambda u: _power(u, exponent))


def _power(x: Tensor, p: float) -> Iterator[Tensor]:
    """Yield $p x^{p-1}, p(p-1) x^{p-2}, …$, which for a natural `p` end in zeros."""
    factor = p
    while True:
        p -= 1
        if p == 0 or factor == 0:
            yield torch.full_like(x, factor)
        else:
            yield factor * x**p if p != 1 else factor * x
        factor *= p


@smooth("sin")
def sin(x: Tensor) -> Iterator[Tensor]:
    r"""Yield the derivatives of $\sin x$."""
    cosine = x.cos()
    yield cosine
    yield -x.sin()
    yield -cosine


@smooth("cos")
def cos(x: Tensor) -> Iterator[Tensor]:
    r"""Yield the derivatives of $\cos x$."""
    sine = x.sin()
    yield -sine
    yield -x.cos()
    yield sine


@smooth("tan")
def tan(x: Tensor) -> Iterator[Tensor]:
    r"""Yield the derivatives of $\tan x$."""
    y = x.tan()
    first = 1 + y * y
    yield first
    yield 2 * y * first
    yield 2 * first * (1 + 3 * y * y)


@smooth("asin", "arcsin")
def asin(x: Tensor) -> Iterator[Tensor]:
    r"""Yield the derivatives of $\arcsin x$."""
    return _inverse_root(x, 1 - x * x, 1.0)


@smooth("acos", "arccos")
def acos(x: Tensor) -> Iterator[Tensor]:
    r"""Yield the derivatives of $\arccos x$."""
    return _inverse_root(-x, 1 - x * x, -1.0)


@smooth("asinh", "arcsinh")
def asinh(x: Tensor) -> Iterator[Tensor]:
    r"""Yield the derivatives of $\mathrm{arsinh}\, x$."""
    r = (1 + x * x).rsqrt()
    yield r
    cube = r**3
    yield -x * cube
    yield (2 * x * x - 1) * cube * r * r


@smooth("acosh", "arccosh")
def acosh(x: Tensor) -> Iterator[Tensor]:
    r"""Yield the derivatives of $\mathrm{arcosh}\, x$."""
    r = (x * x - 1).rsqrt()
    yield r
    cube = r**3
    yield -x * cube
    yield (2 * x * x + 1) * cube * r * r


def _inverse_root(x: Tensor, w: Tensor, sign: float) -> Iterator[Tensor]:
    r"""Yield the derivatives of $w^{-1/2}$ with $w = 1 - x²$, from the zeroth."""
    r = w.rsqrt()
    yield sign * r
    cube = r**3
    yield x * cube
    yield sign * (1 + 2 * x * x) * cube * r * r


@smooth("atan", "arctan")
def atan(x: Tensor) -> Iterator[Tensor]:
    r"""Yield the derivatives of $\arctan x$."""
    r = (1 + x * x).reciprocal()
    yield r
    yield -2 * x * r * r
    yield (6 * x * x - 2) * r**3


@smooth("atanh", "arctanh")
def atanh(x: Tensor) -> Iterator[Tensor]:
    r"""Yield the derivatives of $\mathrm{artanh}\, x$."""
    r = (1 - x * x).reciprocal()
    yield r
    yield 2 * x * r * r
    yield (6 * x * x + 2) * r**3


@smooth("sinh")
def sinh(x: Tensor) -> Iterator[Tensor]:
    r"""Yield the derivatives of $\sinh x$."""
    y = x.cosh()
    yield y
    yield x.sinh()
    yield y


@smooth("cosh")
def cosh(x: Tensor) -> Iterator[Tensor]:
    r"""Yield the derivatives of $\cosh x$."""
    y = x.sinh()
    yield y
    yield x.cosh()
    yield y


@smooth("tanh")
def tanh(x: Tensor) -> Iterator[Tensor]:
    r"""Yield the derivatives of $\tanh x$."""
    y = x.tanh()
    first = 1 - y * y
    yield first
    yield -2 * y * first
    yield first * (4 - 6 * first)


@smooth("sigmoid", "expit")
def sigmoid(x: Tensor) -> Iterator[Tensor]:
    r"""Yield the derivatives of $σ(x) = 1 / (1 + e^{-x})$."""
    s = x.sigmoid()
    return _slopes_of_sigmoid(s, s - s * s)


def _slopes_of_sigmoid(s: Tensor, first: Tensor) -> Iterator[Tensor]:
    yield first
    yield first * (1 - 2 * s)
    yield first * (1 - 6 * first)


@smooth("logit")
def logit(x: Tensor, eps: float | None = None) -> Iterator[Tensor]:
    r"""Yield the derivatives of $\log x - \log(1 - x)$; the clamp `eps` has slope one inside."""
    if eps is not None:
        x = x.clamp(eps, 1 - eps)
    r = (x - x * x).reciprocal()
    yield r
    yield (2 * x - 1) * r * r
    yield (2 - 6 * (x - x * x)) * r**3


@smooth(functional.softplus)
def softplus(x: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Iterator[Tensor]:
    r"""Yield the derivatives of $\log(1 + e^{βx}) / β$; the threshold makes no difference."""
    s = (x * beta if beta != 1 else x).sigmoid()
    yield s
    first = torch.addcmul(s, s, s, value=-1)
    yield first if beta == 1 else beta * first
    second = torch.addcmul(first, first, s, value=-2)
    yield second if beta == 1 else beta**2 * second


@smooth(functional.logsigmoid)
def logsigmoid(x: Tensor) -> Iterator[Tensor]:
    r"""Yield the derivatives of $-\log(1 + e^{-x})$."""
    s = (-x).sigmoid()
    yield s
    first = s * s - s
    yield first
    yield first * (2 * s - 1)


@smooth(functional.silu)
def silu(x: Tensor, inplace: bool = False) -> Iterator[Tensor]:
    r"""Yield the derivatives of $x σ(x)$."""
    s = x.sigmoid()
    w = s - s * s
    yield s + x * w
    slope = w * (1 - 2 * s)
    yield 2 * w + x * slope
    yield 3 * slope + x * w * (1 - 6 * w)


@rule(functional.gelu)
def gelu(x: Jet, approximate: str = "none") -> Tensor:
    r"""Return $x Φ(x)$, or its approximation by a hyperbolic tangent."""
    if approximate == "tanh":
        return 0.5 * x * (1 + (math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)).tanh())
    return compose(x, functional.gelu, _gelu)


def _gelu(x: Tensor) -> Iterator[Tensor]:
    density = (-0.5 * x * x).exp() / _SQRT2PI
    yield 0.5 * torch.erfc(-x / _SQRT2) + x * density
    yield density * (2 - x * x)
    yield density * (x * x - 4) * x


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
    """Return $ψ^{(n)}(x)$, as a method."""
    return polygamma(n, x)


@rule(functional.mish)
def mish(x: Tensor, inplace: bool = False) -> Tensor:
    r"""Return $x \tanh(\mathrm{softplus}(x))$."""
    return x * functional.softplus(x).tanh()


@rule(functional.tanhshrink)
def tanhshrink(x: Tensor) -> Tensor:
    r"""Return $x - \tanh x$."""
    return x - x.tanh()
