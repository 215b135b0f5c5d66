"""Smooth activation functions of `torch.nn.functional`."""

import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.nn import functional

from .. import recurrence
from ..composition import Derivatives, compose, smooth
from ..jet import Jet, assign_, snapshot
from ..registry import rule


@smooth(functional.softplus)
def softplus(x: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Iterator[Tensor]:
    r"""Yield the derivatives of $\log(1 + e^{βx}) / β$, which is `x` where $βx$ is large.

    At torch's default threshold, 20, the difference is $2 · 10^{-9}$ and is ignored.
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


def activation(
    name: str, solver: recurrence.Solver | None = None
) -> Callable[[Callable[[Tensor], Iterator[Tensor]]], Derivatives]:
    """Return a decorator that registers an activation by its derivatives, as `smooth` does.

    Args:
        name: The name of the activation in `torch.nn.functional`, where it has an `inplace`
            option.
        solver: As for `smooth`.

    Returns:
        The decorator.
    """
    function = getattr(functional, name)

    def register(derivatives: Derivatives) -> Derivatives:
        def applied(x: Jet, inplace: bool = False) -> Jet:
            if inplace:
                return assign_(x, compose(snapshot(x), function, derivatives, solver))
            return compose(x, function, derivatives, solver)

        rule(name)(applied)
        return derivatives

    return register


@activation("silu", recurrence.silu)
def silu(x: Tensor) -> Iterator[Tensor]:
    r"""Yield the derivatives of $x σ(x)$."""
    s = x.sigmoid()
    slope = torch.addcmul(s, s, s, value=-1)
    first = torch.addcmul(s, x, slope)
    yield first
    second = (s + first).addcmul_(s, first, value=-2)
    yield second
    yield (slope + second).addcmul_(slope, first, value=-2).addcmul_(s, second, value=-2)


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
    r"""Return $x Φ(x)$, or its approximation with a hyperbolic tangent."""
    derivatives = _gelu_tanh if approximate == "tanh" else _gelu
    return compose(x, lambda u: functional.gelu(u, approximate=approximate), derivatives)


def _gelu(x: Tensor) -> Iterator[Tensor]:
    density = (-0.5 * x * x).exp() / math.sqrt(2 * math.pi)
    yield torch.addcmul(0.5 * torch.erfc(x * -math.sqrt(0.5)), x, density)
    yield density * (2 - x * x)
    yield density * (x * x - 4) * x


def _gelu_tanh(x: Tensor) -> Iterator[Tensor]:
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


@rule(functional.tanhshrink)
def tanhshrink(x: Tensor) -> Tensor:
    r"""Return $x - \tanh x$."""
    return x - x.tanh()


@rule("glu")
def glu(input: Tensor, dim: int = -1) -> Tensor:
    r"""Return the first half of a tensor times the sigmoid of the second."""
    a, b = input.chunk(2, dim)
    return a * b.sigmoid()
