r"""Rules of functions whose derivatives jump.

Where a function is linear, so is its rule; nothing is said of the points where pieces meet. There
the curvature is infinite or jumps, which the parameters of a model feel and exact derivatives do
not, so that a `KinkWarning` tells, once for each function.
"""

import sys
import warnings
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from .composition import compose
from .jet import AnyRule, Jet, kept, replace, rule
from .products import Operand, value_of
from .shapes import Dims, beside, dims_of


class KinkWarning(UserWarning):
    """A second derivative that leaves out what happens where the pieces of a function meet."""


class _Warned:
    """The functions that have been warned of, which is done once for each."""

    names: frozenset[str] = frozenset()


_KINK = (
    "has kinks, where its slope jumps. Almost everywhere its second derivatives are those of its "
    "pieces, zero if they are straight, and training needs what happens at the kinks, which is "
    "left out (by Autodiff too): use a smooth function instead, such as softplus, SiLU or average "
    "pooling"
)
_JUMP = (
    "has a second derivative that jumps: values are exact, but parameter gradients of second "
    "derivatives miss the jump (those of Autodiff too): use a smoother function instead, such as "
    "softplus, SiLU or tanh, or FiniteDifference(), which sees it"
)


def warn_of_kink(name: str, *operands: object, what: str = _KINK) -> None:
    """Warn, once for each function, that second derivatives leave something out.

    Args:
        name: Of the function.
        operands: Its arguments; nothing is said if none has derivatives.
        what: Is wrong with it.
    """
    affected = [x for x in operands if isinstance(x, Jet) and x.degree and x.truncation.order > 1]
    if not affected or name in _Warned.names or torch.compiler.is_compiling():
        return
    _Warned.names |= {name}
    warnings.warn(
        f"`{name}` {what}. This is said once for each function",
        KinkWarning,
        stacklevel=_levels_to_caller(),
    )


def _levels_to_caller() -> int:
    """Return how far up the stack the model is, past what is of this package or torch."""
    packages = (__name__.partition(".")[0], "torch")
    frame: FrameType | None = sys._getframe(1)
    level = 1
    while frame and frame.f_globals.get("__name__", "").partition(".")[0] in packages:
        frame, level = frame.f_back, level + 1
    return level


def _kinked(name: str, *others: str, what: str | None = _KINK) -> Callable[[AnyRule], AnyRule]:
    """Return a decorator that makes a rule of a function of jets, which it leaves as it is.

    Args:
        name: Of the function in torch, which is warned of.
        others: More names of the same.
        what: Is wrong with it; nothing if the function says so itself.

    Returns:
        The decorator; the rule takes `inplace` too.
    """

    def register(function: AnyRule) -> AnyRule:
        def applied(input: Any, *args: Any, inplace: bool = False, **kwargs: Any) -> Any:
            if what is not None:
                warn_of_kink(name, input, *args, *kwargs.values(), what=what)
            if inplace:
                return replace(input, function(kept(input), *args, **kwargs))
            return function(input, *args, **kwargs)

        rule(name, *others)(applied)
        return function

    return register


def _without(x: Jet, flat: Tensor, value: Tensor | None = None) -> Jet:
    """Return a function with slope one, but zero where it is flat; zero itself, or of a value."""
    if value is None:
        return Jet(x.coefficients.masked_fill(flat, 0), x.truncation)
    return Jet(torch.cat([value[None], x.coefficients[1:].masked_fill(flat, 0)]), x.truncation)


@_kinked("relu")
def relu(x: Jet) -> Jet:
    r"""Return $\max(0, x)$, with slope zero at zero."""
    return _without(x, x.value <= 0)


@_kinked("relu6")
def relu6(x: Jet) -> Jet:
    """Return $x$ between zero and six."""
    return hardtanh(x, 0, 6)


@_kinked("hardtanh")
def hardtanh(x: Jet, min_val: float = -1.0, max_val: float = 1.0) -> Jet:
    """Return $x$ between two numbers, with slope zero on them."""
    u = x.value
    return _without(x, (u <= min_val) | (u >= max_val), functional.hardtanh(u, min_val, max_val))


@_kinked("hardsigmoid")
def hardsigmoid(x: Jet) -> Tensor:
    """Return $x / 6 + 1/2$ between zero and one."""
    return hardtanh(x, -3, 3) / 6 + 0.5


@_kinked("hardswish")
def hardswish(x: Jet) -> Tensor:
    """Return $x$ times its hard sigmoid."""
    return x * hardsigmoid(x)


@_kinked("leaky_relu")
def leaky_relu(x: Jet, negative_slope: Tensor | float = 0.01) -> Jet:
    """Return $x$ where it is positive, and a multiple of it elsewhere."""
    c = x.coefficients
    return Jet(torch.where(x.value > 0, c, c * negative_slope), x.truncation)


@_kinked("rrelu")
def rrelu(x: Jet, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False) -> Jet:
    """Return $x$ where it is positive, and elsewhere a multiple, random in training."""
    if not training:
        return leaky_relu(x, (lower + upper) / 2)
    return leaky_relu(x, torch.empty_like(x.value).uniform_(lower, upper))


@_kinked("prelu")
def prelu(x: Tensor, weight: Tensor) -> Tensor:
    """Return $x$ where it is positive, and $w x$ elsewhere, with a weight for each channel."""
    if x.ndim > 1:
        weight = weight.reshape(-1, *[1] * (x.ndim - 2))
    return torch.where(value_of(x) > 0, x, weight * x)


@_kinked("threshold")
def threshold(x: Jet, threshold: float, value: float) -> Jet:
    """Return $x$ where it is above a threshold, and a number elsewhere."""
    u = x.value
    return _without(x, u <= threshold, functional.threshold(u, threshold, value))


@_kinked("hardshrink")
def hardshrink(x: Jet, lambd: float = 0.5) -> Jet:
    """Return $x$, but zero near zero."""
    return _without(x, (x.value >= -lambd) & (x.value <= lambd))


@_kinked("softshrink")
def softshrink(x: Jet, lambd: float = 0.5) -> Jet:
    """Return $x$ moved towards zero, and zero near it."""
    u = x.value
    return _without(x, (u >= -lambd) & (u <= lambd), functional.softshrink(u, lambd))


@_kinked("abs", "absolute")
def absolute(x: Jet) -> Jet:
    """Return $|x|$, with slope zero at zero."""
    return Jet(x.coefficients * x.value.detach().sgn(), x.truncation)


@_kinked("clamp", "clip")
def clamp(x: Tensor, min: Operand | None = None, max: Operand | None = None) -> Tensor:
    """Return $x$ between two numbers or tensors, with slope one on them."""
    if min is not None:
        x = torch.where(value_of(x) < value_of(min), min, x)
    if max is not None:
        x = torch.where(value_of(x) > value_of(max), max, x)
    return x


@_kinked("clamp_min")
def clamp_min(x: Tensor, min: Operand) -> Tensor:
    """Return $x$, but at least a number."""
    return clamp(x, min)


@_kinked("clamp_max")
def clamp_max(x: Tensor, max: Operand) -> Tensor:
    """Return $x$, but at most a number."""
    return clamp(x, None, max)


@_kinked("maximum")
def maximum(x: Tensor, other: Tensor) -> Tensor:
    """Return the larger of two tensors, or their mean where they are equal."""
    a, b = value_of(x), value_of(other)
    return torch.where(a > b, x, torch.where(a < b, other, (x + other) / 2))


@_kinked("minimum")
def minimum(x: Tensor, other: Tensor) -> Tensor:
    """Return the smaller of two tensors, or their mean where they are equal."""
    a, b = value_of(x), value_of(other)
    return torch.where(a < b, x, torch.where(a > b, other, (x + other) / 2))


@_kinked("fmax")
def fmax(x: Tensor, other: Tensor) -> Tensor:
    """Return the larger of two tensors, of which one may be no number."""
    a, b = value_of(x), value_of(other)
    return torch.where((a >= b) | b.isnan(), x, other)


@_kinked("fmin")
def fmin(x: Tensor, other: Tensor) -> Tensor:
    """Return the smaller of two tensors, of which one may be no number."""
    a, b = value_of(x), value_of(other)
    return torch.where((a <= b) | b.isnan(), x, other)


@_kinked("amax")
def amax(x: Jet, dim: Dims = (), keepdim: bool = False) -> Tensor:
    """Return the largest elements over some dimensions, or all; the mean of equal ones."""
    return _mean_of_equal(x, x.value.amax(dim, True), dim, keepdim)


@_kinked("amin")
def amin(x: Jet, dim: Dims = (), keepdim: bool = False) -> Tensor:
    """Return the smallest elements over some dimensions, or all; the mean of equal ones."""
    return _mean_of_equal(x, x.value.amin(dim, True), dim, keepdim)


def _mean_of_equal(x: Jet, chosen: Tensor, dim: Dims = (), keepdim: bool = False) -> Tensor:
    """Return what was chosen over some dimensions, with the mean series of equal elements."""
    if not x.ndim:
        return x.clone()
    dims = dims_of(x, dim)
    equal = x.value == chosen
    places = [d % x.ndim + 1 for d in dims]
    rest = x.coefficients[1:].masked_fill(~equal, 0).sum(places, True) / equal.sum(dims, True)
    result: Tensor = Jet(torch.cat([chosen.reshape(1, *rest.shape[1:]), rest]), x.truncation)
    return result if keepdim else result.squeeze(dims)


@_kinked("aminmax")
def aminmax(x: Jet, *, dim: int | None = None, keepdim: bool = False) -> Any:
    """Return the smallest and the largest elements along a dimension, or of all."""
    dims = () if dim is None else dim
    return torch.return_types.aminmax((amin(x, dims, keepdim), amax(x, dims, keepdim)))


def _by_place(name: str, before: int = 0) -> Callable[..., Any]:
    """Return the rule of a function that returns elements along a dimension, and their places.

    Args:
        name: Of the function.
        before: How many arguments it has between the tensor and the dimension.

    Returns:
        The rule.
    """
    function = getattr(torch, name)

    def applied(input: Jet, *args: Any, **kwargs: Any) -> Any:
        warn_of_kink(name, input)
        found = function(input.value.detach(), *args, **kwargs)
        dim = kwargs.get("dim", args[before] if len(args) > before else -1)
        return type(found)((_taken(input, dim, found.indices), found.indices))

    return applied


def _taken(x: Jet, dim: int, places: Tensor) -> Tensor:
    """Return elements along a dimension by their places, which may be without the dimension."""
    if not x.ndim:
        return x.clone()
    dropped = places.ndim < x.ndim
    places = places.unsqueeze(dim) if dropped else places
    c = x.coefficients
    c = c.gather(beside(dim), places.expand(len(c), *places.shape))
    return Jet(c.squeeze(beside(dim)) if dropped else c, x.truncation)


for _name in ("cummax", "cummin", "mode", "sort"):
    rule(_name)(_by_place(_name))
for _name in ("kthvalue", "topk"):
    rule(_name)(_by_place(_name, 1))


@rule("msort")
def msort(input: Tensor) -> Tensor:
    """Return elements in order along the first dimension."""
    return input.sort(0).values


def _of_all_or_by_place(name: str) -> Callable[..., Any]:
    """Return the rule of a function over all elements, or along a dimension and with places."""
    along, of_all = _by_place(name), getattr(torch, name)

    def applied(input: Tensor, *args: Any, **kwargs: Any) -> Any:
        if (args and isinstance(args[0], Tensor)) or "other" in kwargs:
            return getattr(torch, f"{name}imum")(input, *args, **kwargs)
        assert isinstance(input, Jet)
        if args or "dim" in kwargs:
            return along(input, *args, **kwargs)
        warn_of_kink(name, input)
        return _mean_of_equal(input, of_all(input.value))

    return applied


for _name in ("max", "median", "min", "nanmedian"):
    rule(_name)(_of_all_or_by_place(_name))


def _pooling(name: str, function: Callable[..., Any], dimensions: int) -> Callable[..., Any]:
    """Return the rule of a largest element and its place in every window of an image."""

    def applied(input: Jet, *args: Any, return_indices: bool = True, **kwargs: Any) -> Any:
        warn_of_kink(name, input)
        _, places = function(input.value.detach(), *args, **kwargs)
        c = input.coefficients.flatten(-dimensions)
        c = c.gather(
            -1, places.flatten(-dimensions).expand(len(c), *places.shape[:-dimensions], -1)
        )
        return Jet(c.reshape(len(c), *places.shape), input.truncation), places

    return applied


def _largest(pooling: Callable[..., Any]) -> Callable[..., Any]:
    """Return the rule without the places."""
    return lambda *args, **kwargs: pooling(*args, **kwargs)[0]


for _n in (1, 2, 3):
    _name = f"max_pool{_n}d"
    _pool = _pooling(_name, getattr(functional, f"{_name}_with_indices"), _n)
    rule(_name)(_largest(_pool))
    rule(f"{_name}_with_indices")(_pool)
    _name = f"adaptive_max_pool{_n}d"
    _pool = _pooling(_name, getattr(functional, f"{_name}_with_indices"), _n)
    rule(_name, f"{_name}_with_indices")(_pool)
    rule(getattr(functional, _name))(_largest(_pool))


_ALPHA, _SCALE = 1.6732632423543772, 1.0507009873554805


@_kinked("elu", what=None)
def elu(x: Jet, alpha: float = 1.0) -> Jet:
    """Return $x$ where it is positive, and $α (e^x - 1)$ elsewhere."""
    warn_of_kink("elu", x, what=_JUMP if alpha == 1 else _KINK)
    return compose(x, lambda u: functional.elu(u, alpha), lambda u: _saturating(u, 1, alpha, 1))


@_kinked("celu", what=_JUMP)
def celu(x: Jet, alpha: float = 1.0) -> Jet:
    """Return $x$ where it is positive, and $α (e^{x / α} - 1)$ elsewhere."""
    return compose(
        x, lambda u: functional.celu(u, alpha), lambda u: _saturating(u, 1, 1, 1 / alpha)
    )


@_kinked("selu")
def selu(x: Jet) -> Jet:
    """Return $λ x$ where it is positive, and $λ α (e^x - 1)$ elsewhere, for two given numbers."""
    return compose(x, functional.selu, lambda u: _saturating(u, _SCALE, _SCALE * _ALPHA, 1))


def _saturating(x: Tensor, above: float, below: float, rate: float) -> Iterator[Tensor]:
    """Yield the derivatives of a function with slope $b e^{r x}$, but a constant above zero."""
    y = below * (rate * torch.where(x > 0, 0, x)).exp()
    yield torch.where(x > 0, above, y)
    while True:
        y = rate * y
        yield torch.where(x > 0, 0, y)


@_kinked("softsign", what=_JUMP)
def softsign(x: Jet) -> Jet:
    """Return $x / (1 + |x|)$."""
    return compose(x, functional.softsign, _softsign)


def _softsign(x: Tensor) -> Iterator[Tensor]:
    r = (1 + (absolute(x) if isinstance(x, Jet) else x.abs())).reciprocal()
    yield r * r
    yield -2 * x.sgn() * r**3
    yield 6 * r**4


@rule("glu")
def glu(input: Tensor, dim: int = -1) -> Tensor:
    r"""Return the first half of a tensor times the sigmoid of the second."""
    a, b = input.chunk(2, dim)
    return a * b.sigmoid()
