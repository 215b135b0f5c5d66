"""Rules of smooth functions of each element: the derivatives of each, $g'$, $g''$ and $g'''$."""

import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.nn import functional

from .composition import Derivatives, compose, smooth
from .jet import Jet, kept, replace, rule

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
    r = x.reciprocal()
    square = r * r
    yield -square
    cube = square * r
    yield 2 * cube
    yield -6 * cube * r


@smooth("sqrt")
def sqrt(x: Tensor) -> Iterator[Tensor]:
    r"""Yield the derivatives of $\sqrt x$."""
    first = 0.5 * x.rsqrt()
    yield first
    r = x.reciprocal()
    second = -0.5 * first * r
    yield second
    yield -1.5 * second * r


@smooth("rsqrt")
def rsqrt(x: Tensor) -> Iterator[Tensor]:
    r"""Yield the derivatives of $1/\sqrt x$."""
    r = x.rsqrt()
    square = r * r
    first = -0.5 * square * r
    yield first
    second = -1.5 * first * square
    yield second
    yield -2.5 * second * square


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
    return _inverse_root(x, 1.0)


@smooth("acos", "arccos")
def acos(x: Tensor) -> Iterator[Tensor]:
    r"""Yield the derivatives of $\arccos x$, which are those of $-\arcsin x$."""
    return _inverse_root(x, -1.0)


def _inverse_root(x: Tensor, sign: float) -> Iterator[Tensor]:
    r"""Yield the derivatives of $(1 - x²)^{-1/2}$, from the zeroth."""
    r = ((1 - x) * (1 + x)).rsqrt()
    yield sign * r
    cube = sign * r**3
    yield x * cube
    yield (1 + 2 * x * x) * cube * r * r


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
    r = ((x - 1) * (x + 1)).rsqrt()
    yield r
    cube = r**3
    yield -x * cube
    yield (2 * x * x + 1) * cube * r * r


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
    r = ((1 - x) * (1 + x)).reciprocal()
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
    first = torch.addcmul(s, s, s, value=-1)
    yield first
    yield torch.addcmul(first, first, s, value=-2)
    yield torch.addcmul(first, first, first, value=-6)


@rule("logit")
def logit(x: Jet, eps: float | None = None) -> Tensor:
    r"""Return $\log x - \log(1 - x)$, constant where `eps` clamps `x`."""
    if eps is None:
        return compose(x, torch.logit, _logit)
    inside = (x >= eps) & (x <= 1 - eps)
    return torch.where(inside, torch.where(inside, x, 0.5).logit(), x.detach().logit(eps))


def _logit(x: Tensor) -> Iterator[Tensor]:
    w = x * (1 - x)
    r = w.reciprocal()
    yield r
    yield (2 * x - 1) * r * r
    yield (2 - 6 * w) * r**3


@smooth(functional.softplus)
def softplus(x: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Iterator[Tensor]:
    r"""Yield the derivatives of $\log(1 + e^{βx}) / β$, which is `x` where $βx$ is large.

    At torch's threshold, 20, the difference is $2 · 10^{-9}$ and nothing need be done about it.
    """
    z = x * beta if beta != 1 else x
    s = z.sigmoid()
    if threshold < 20:
        s = torch.where(z > threshold, 1.0, s)
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
    first = torch.addcmul(-s, s, s)
    yield first
    yield torch.addcmul(-first, first, s, value=2)


def activation(name: str) -> Callable[[Callable[[Tensor], Iterator[Tensor]]], Derivatives]:
    """Return a decorator that makes a rule of the derivatives of an activation, as `smooth` does.

    Args:
        name: What the activation is called in `torch.nn.functional`, where it has an option to
            work in place.

    Returns:
        The decorator.
    """
    function = getattr(functional, name)

    def register(derivatives: Derivatives) -> Derivatives:
        def applied(x: Jet, inplace: bool = False) -> Jet:
            if inplace:
                return replace(x, compose(kept(x), function, derivatives))
            return compose(x, function, derivatives)

        rule(name)(applied)
        return derivatives

    return register


@activation("silu")
def silu(x: Tensor) -> Iterator[Tensor]:
    r"""Yield the derivatives of $x σ(x)$."""
    s = x.sigmoid()
    first = torch.addcmul(s, s, s, value=-1)
    yield torch.addcmul(s, x, first)
    second = torch.addcmul(first, first, s, value=-2)
    yield torch.addcmul(first, x, second).add_(first)
    third = torch.addcmul(first, first, first, value=-6)
    yield torch.addcmul(3 * second, x, third)


@activation("mish")
def mish(x: Tensor) -> Iterator[Tensor]:
    r"""Yield the derivatives of $x t$ with $t = \tanh(\mathrm{softplus}(x))$."""
    s, t = x.sigmoid(), functional.softplus(x).tanh()
    q = 1 - t * t
    first = q * s
    yield torch.addcmul(t, x, first)
    slope = s - s * s
    second = q * slope - 2 * t * s * first
    yield 2 * first + x * second
    third = q * slope * (1 - 2 * s) - 2 * s * (first * first + t * second) - 4 * t * first * slope
    yield 3 * second + x * third


@rule("gelu")
def gelu(x: Jet, approximate: str = "none") -> Tensor:
    r"""Return $x Φ(x)$, or its approximation by a hyperbolic tangent."""
    derivatives = _gelu_by_tanh if approximate == "tanh" else _gelu
    return compose(x, lambda u: functional.gelu(u, approximate=approximate), derivatives)


def _gelu(x: Tensor) -> Iterator[Tensor]:
    density = (-0.5 * x * x).exp() / _SQRT2PI
    yield torch.addcmul(0.5 * torch.erfc(x * -math.sqrt(0.5)), x, density)
    yield density * (2 - x * x)
    yield density * (x * x - 4) * x


def _gelu_by_tanh(x: Tensor) -> Iterator[Tensor]:
    r"""Yield the derivatives of $x σ(w)$ with $w = \sqrt{8/π} (x + 0.044715 x³)$."""
    scale, cubic = math.sqrt(8 / math.pi), 0.044715
    square = x * x
    s = (scale * x * (1 + cubic * square)).sigmoid()
    inner = scale * (1 + 3 * cubic * square)
    slope = s - s * s
    first = slope * inner
    yield torch.addcmul(s, x, first)
    curvature, bend = slope * (1 - 2 * s), 6 * scale * cubic
    second = curvature * inner * inner + bend * slope * x
    yield 2 * first + x * second
    third = slope * (1 - 6 * slope) * inner**3 + 3 * bend * curvature * inner * x + bend * slope
    yield 3 * second + x * third


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
    r"""Yield the derivatives of $\log Φ(x)$, of which the first is $h = φ / Φ$."""
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
    r"""Return $\sin(πx) / (πx)$, by its power series near zero."""
    z = math.pi * x
    small = z.detach().abs() < 1.5
    square = torch.where(small, z, 0.0).square()
    series = torch.ones_like(x)
    for k in range(13, 0, -1):
        series = 1 - series * square / (2 * k * (2 * k + 1))
    large = torch.where(small, 1.0, z)
    return torch.where(small, series, large.sin() / large)


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


@rule(functional.tanhshrink)
def tanhshrink(x: Tensor) -> Tensor:
    r"""Return $x - \tanh x$."""
    return x - x.tanh()


@rule("deg2rad")
def deg2rad(x: Tensor) -> Tensor:
    """Return an angle in radians."""
    return x * (math.pi / 180)


@rule("rad2deg")
def rad2deg(x: Tensor) -> Tensor:
    """Return an angle in degrees."""
    return x * (180 / math.pi)
