"""Smooth elementwise functions, each given by its derivatives $g'$, $g''$ and $g'''$."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from .. import recurrence
from ..algebra import Operand, as_jet, value_of
from ..composition import compose, smooth
from ..jet import Jet
from ..registry import rule

_LN2, _LN10 = math.log(2), math.log(10)


def _riccati(a: float, b: float, c: float, *names: str, relative: bool = False) -> None:
    r"""Register a function with $g' = a + b g + c g²$.

    Its other derivatives are $g'' = (b + 2 c g) g'$ and $g''' = (b² - 4 a c + 6 c g') g'$.

    Args:
        a: The constant coefficient.
        b: The linear coefficient.
        c: The quadratic coefficient.
        names: Its names in torch.
        relative: As for `compose`.
    """
    function = getattr(torch, names[0])
    solver = recurrence.riccati(function, a, b, c)

    def derivatives(y: Tensor) -> Iterator[Tensor]:
        first = recurrence.quadratic(y, y, a, b, c)
        yield first
        yield recurrence.quadratic(first, y, 0, b, 2 * c)
        yield recurrence.quadratic(first, first, 0, b * b - 4 * a * c, 6 * c)

    def applied(x: Jet) -> Jet:
        return compose(x, function, derivatives, solver, of_value=True, relative=relative)

    rule(*names)(applied)


_riccati(0, 1, 0, "exp")
_riccati(0, _LN2, 0, "exp2")
_riccati(0, 0, -1, "reciprocal", relative=True)
_riccati(0, 1, -1, "sigmoid", "expit")
_riccati(1, 0, -1, "tanh")
_riccati(1, 0, 1, "tan")


@smooth("expm1")
def expm1(x: Tensor) -> Iterator[Tensor]:
    """Yield the derivatives of $e^x - 1$, which are $e^x$."""
    y = x.exp()
    while True:
        yield y


@smooth("log", relative=True)
def log(x: Tensor) -> Iterator[Tensor]:
    r"""Yield the derivatives of $\log x$."""
    return _logarithm(x, 1.0)


@smooth("log2", relative=True)
def log2(x: Tensor) -> Iterator[Tensor]:
    r"""Yield the derivatives of $\log_2 x$."""
    return _logarithm(x, 1 / _LN2)


@smooth("log10", relative=True)
def log10(x: Tensor) -> Iterator[Tensor]:
    r"""Yield the derivatives of $\log_{10} x$."""
    return _logarithm(x, 1 / _LN10)


@smooth("log1p")
def log1p(x: Tensor) -> Iterator[Tensor]:
    r"""Yield the derivatives of $\log(1 + x)$."""
    return _logarithm(1 + x, 1.0)


def _logarithm(x: Tensor, scale: float) -> Iterator[Tensor]:
    r = x.reciprocal()
    yield r * scale
    square = r * r
    yield -scale * square
    yield 2 * scale * square * r


@smooth("sqrt", solver=recurrence.power(torch.sqrt, 0.5), relative=True)
def sqrt(x: Tensor) -> Iterator[Tensor]:
    r"""Yield the derivatives of $\sqrt x$."""
    first = 0.5 * x.rsqrt()
    yield first
    r = x.reciprocal()
    second = -0.5 * first * r
    yield second
    yield -1.5 * second * r


@smooth("rsqrt", solver=recurrence.power(torch.rsqrt, -0.5), relative=True)
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
    g = lambda u: u**exponent
    solver = recurrence.power(g, exponent) if exponent < 1 and exponent != 0 else None
    relative = exponent < 0 or exponent != int(exponent)
    return compose(x, g, lambda u: _power(u, exponent), solver, relative=relative)


def _power(x: Tensor, p: float) -> Iterator[Tensor]:
    """Yield $p x^{p-1}, p(p-1) x^{p-2}, …$, which end in zeros if `p` is a natural number."""
    factor = p
    while True:
        p -= 1
        if p == 0 or factor == 0:
            yield torch.full_like(x, factor)
        else:
            yield factor * x**p if p != 1 else factor * x
        factor *= p


@smooth("sin", solver=recurrence.oscillator(torch.sin, torch.cos, -1))
def sin(x: Tensor) -> Iterator[Tensor]:
    r"""Yield the derivatives of $\sin x$."""
    cosine = x.cos()
    yield cosine
    yield -x.sin()
    yield -cosine


@smooth("cos", solver=recurrence.oscillator(torch.cos, lambda u: -u.sin(), -1))
def cos(x: Tensor) -> Iterator[Tensor]:
    r"""Yield the derivatives of $\cos x$."""
    sine = x.sin()
    yield -sine
    yield -x.cos()
    yield sine


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


@smooth("sinh", solver=recurrence.oscillator(torch.sinh, torch.cosh, 1))
def sinh(x: Tensor) -> Iterator[Tensor]:
    r"""Yield the derivatives of $\sinh x$."""
    y = x.cosh()
    yield y
    yield x.sinh()
    yield y


@smooth("cosh", solver=recurrence.oscillator(torch.cosh, torch.sinh, 1))
def cosh(x: Tensor) -> Iterator[Tensor]:
    r"""Yield the derivatives of $\cosh x$."""
    y = x.sinh()
    yield y
    yield x.cosh()
    yield y


@rule("logit")
def logit(x: Jet, eps: float | None = None) -> Tensor:
    r"""Return $\log x - \log(1 - x)$, which is constant where `eps` clamps `x`."""
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


@rule("deg2rad")
def deg2rad(x: Tensor) -> Tensor:
    """Convert degrees to radians."""
    return x * (math.pi / 180)


@rule("rad2deg")
def rad2deg(x: Tensor) -> Tensor:
    """Convert radians to degrees."""
    return x * (180 / math.pi)


def sqrt_or_zero(x: Tensor) -> Tensor:
    r"""Return $\sqrt x$ with zero derivatives where $x$ is zero, as torch does for norms."""
    zero = value_of(x) == 0
    return torch.where(zero, 0, torch.where(zero, 1, x).sqrt())


@rule("hypot")
def hypot(input: Tensor, other: Tensor) -> Tensor:
    r"""Return $\sqrt{a² + b²}$."""
    return sqrt_or_zero(input.square() + other.square())


@rule("atan2", "arctan2")
def atan2(input: Tensor, other: Tensor) -> Tensor:
    r"""Return $θ + \arctan(y' / x')$, with $(x', y')$ the point rotated by minus its angle $θ$."""
    y, x = input, other
    angle = torch.atan2(value_of(y).detach(), value_of(x).detach())
    sine, cosine = angle.sin(), angle.cos()
    return angle + ((y * cosine - x * sine) / (x * cosine + y * sine)).atan()


@rule("xlogy")
def xlogy(input: Operand, other: Operand) -> Tensor:
    r"""Return $a \log b$, with zero where $a$ is zero."""
    return _times_log(torch.log, input, other, 0)


@rule(torch.special.xlog1py)
def xlog1py(input: Operand, other: Operand) -> Tensor:
    r"""Return $a \log(1 + b)$, with zero where $a$ is zero."""
    return _times_log(torch.log1p, input, other, -1)


def _times_log(log: Callable[[Tensor], Tensor], a: Any, b: Any, pole: float) -> Tensor:
    zero = (value_of(a) == 0) & (value_of(b) <= pole)
    like = a if isinstance(a, Jet) else b
    safe = torch.where(torch.as_tensor(zero), pole + 1, as_jet(b, like))
    return torch.where(torch.as_tensor(zero), 0, a * log(safe))


@rule("nan_to_num")
def nan_to_num(input: Jet, *args: Any, **kwargs: Any) -> Tensor:
    """Replace elements that are not finite by constants."""
    finite = input.isfinite()
    return torch.where(finite, input, input.detach().nan_to_num(*args, **kwargs))
