r"""Piecewise functions, whose derivatives jump where the pieces meet.

The rule of a piecewise linear function is linear on each piece. Where the pieces meet, the second
derivative is infinite or jumps. Exact derivatives leave this out, but gradients with respect to
parameters depend on it, so a `KinkWarning` is issued, once per function and model.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from ...checks.findings import warn
from ..algebra import Dims, Operand, dims_of, shift_dim, value_of
from ..composition import compose
from ..jet import Jet, assign_, snapshot
from ..registry import AnyRule, rule


class KinkWarning(UserWarning):
    """A second derivative leaves out the points where the pieces of a function meet."""


_KINK = (
    "has kinks, where its slope jumps. Almost everywhere its second derivatives are those of its "
    "pieces, zero if they are straight. Training depends on the kinks, which are left out (by "
    "Autodiff too): use a smooth function instead, such as softplus, SiLU or average pooling"
)
JUMP = (
    "has a second derivative that jumps. Values are exact, but parameter gradients of second "
    "derivatives miss the jump (with Autodiff too): use a smoother function, such as softplus, "
    "SiLU or tanh, or FiniteDifference(), which includes it"
)


def warn_kink(name: str, *operands: object, problem: str = _KINK) -> None:
    """Warn that second derivatives leave something out, once per function and model.

    Args:
        name: The name of the function.
        operands: Its arguments. There is no warning if none of them has derivatives.
        problem: What the second derivatives leave out.
    """
    affected = [x for x in operands if isinstance(x, Jet) and x.degree and x.truncation.order > 1]
    if not affected or torch.compiler.is_compiling():
        return
    warn(
        "kinks",
        f"`{name}` {problem}",
        KinkWarning,
        warned=affected[0].truncation.propagation.warned,
        name=name,
        per="function and model",
    )


def _piecewise(
    name: str, *others: str, problem: str | None = _KINK
) -> Callable[[AnyRule], AnyRule]:
    """Return a decorator that registers a rule which warns and accepts `inplace`.

    The decorated function itself is unchanged, so that other rules can call it.

    Args:
        name: The name of the function in torch, which the warning uses.
        others: Other names of the same function.
        problem: What second derivatives leave out, or `None` if the function warns itself.

    Returns:
        The decorator.
    """

    def register(function: AnyRule) -> AnyRule:
        def applied(input: Any, *args: Any, inplace: bool = False, **kwargs: Any) -> Any:
            if problem is not None:
                warn_kink(name, input, *args, *kwargs.values(), problem=problem)
            if inplace:
                return assign_(input, function(snapshot(input), *args, **kwargs))
            return function(input, *args, **kwargs)

        rule(name, *others)(applied)
        return function

    return register


def _zero_where(x: Jet, flat: Tensor, value: Tensor | None = None) -> Jet:
    """Return a function with slope one, but zero where it is flat, with a given value or zero."""
    if value is None:
        return Jet(x.coefficients.masked_fill(flat, 0), x.truncation)
    return Jet(torch.cat([value[None], x.coefficients[1:].masked_fill(flat, 0)]), x.truncation)


@_piecewise("relu")
def relu(x: Jet) -> Jet:
    r"""Return $\max(0, x)$, with slope zero at zero."""
    return _zero_where(x, x.value <= 0)


@_piecewise("relu6")
def relu6(x: Jet) -> Jet:
    """Return $x$ clamped to $[0, 6]$."""
    return hardtanh(x, 0, 6)


@_piecewise("hardtanh")
def hardtanh(x: Jet, min_val: float = -1.0, max_val: float = 1.0) -> Jet:
    """Return $x$ clamped to an interval, with slope zero on its ends."""
    u = x.value
    return _zero_where(
        x, (u <= min_val) | (u >= max_val), functional.hardtanh(u, min_val, max_val)
    )


@_piecewise("hardsigmoid")
def hardsigmoid(x: Jet) -> Tensor:
    """Return $x / 6 + 1/2$ clamped to $[0, 1]$."""
    return hardtanh(x, -3, 3) / 6 + 0.5


@_piecewise("hardswish")
def hardswish(x: Jet) -> Tensor:
    """Return $x$ times its hard sigmoid."""
    return x * hardsigmoid(x)


@_piecewise("leaky_relu")
def leaky_relu(x: Jet, negative_slope: Tensor | float = 0.01) -> Jet:
    """Return $x$ where it is positive, and a multiple of it elsewhere."""
    c = x.coefficients
    return Jet(torch.where(x.value > 0, c, c * negative_slope), x.truncation)


@_piecewise("rrelu")
def rrelu(x: Jet, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False) -> Jet:
    """Return $x$ where it is positive, and a multiple elsewhere, which is random in training."""
    if not training:
        return leaky_relu(x, (lower + upper) / 2)
    return leaky_relu(x, torch.empty_like(x.value).uniform_(lower, upper))


@_piecewise("prelu")
def prelu(x: Tensor, weight: Tensor) -> Tensor:
    """Return $x$ where it is positive, and $w x$ elsewhere, with a weight for each channel."""
    if x.ndim > 1:
        weight = weight.reshape(-1, *[1] * (x.ndim - 2))
    return torch.where(value_of(x) > 0, x, weight * x)


@_piecewise("threshold")
def threshold(x: Jet, threshold: float, value: float) -> Jet:
    """Return $x$ where it is above a threshold, and a number elsewhere."""
    u = x.value
    return _zero_where(x, u <= threshold, functional.threshold(u, threshold, value))


@_piecewise("hardshrink")
def hardshrink(x: Jet, lambd: float = 0.5) -> Jet:
    """Return $x$, but zero on $[-λ, λ]$."""
    return _zero_where(x, (x.value >= -lambd) & (x.value <= lambd))


@_piecewise("softshrink")
def softshrink(x: Jet, lambd: float = 0.5) -> Jet:
    """Return $x$ moved toward zero by $λ$, and zero on $[-λ, λ]$."""
    u = x.value
    return _zero_where(x, (u >= -lambd) & (u <= lambd), functional.softshrink(u, lambd))


@_piecewise("abs", "absolute")
def absolute(x: Jet) -> Jet:
    """Return $|x|$, with slope zero at zero."""
    return Jet(x.coefficients * x.value.detach().sgn(), x.truncation)


@_piecewise("clamp", "clip")
def clamp(x: Tensor, min: Operand | None = None, max: Operand | None = None) -> Tensor:
    """Return $x$ clamped between two numbers or tensors, with the slopes of torch on them."""
    if min is not None:
        x = _bounded(x, min, value_of(x) < value_of(min))
    if max is not None:
        x = _bounded(x, max, value_of(x) > value_of(max))
    return x


def _bounded(x: Tensor, bound: Operand, outside: Tensor) -> Tensor:
    """Return $x$, but the bound outside of it. Where they are equal, torch's versions differ."""
    if _CLAMP_HAS_SLOPE_ONE_ON_BOUNDS:
        return torch.where(outside, bound, x)
    equal = value_of(x) == value_of(bound)
    if not isinstance(bound, Tensor):
        return torch.where(outside | equal, bound, x)
    return torch.where(equal, (x + bound) / 2, torch.where(outside, bound, x))


def _slope_of_clamp_on_a_bound() -> float:
    """Return the derivative of `clamp(x, min=0)` at zero: one before torch 2.15, then zero."""
    with torch.inference_mode(False), torch.enable_grad():
        x = torch.zeros((), device="cpu", requires_grad=True)
        return torch.autograd.grad(x.clamp(min=0), x)[0].item()


_CLAMP_HAS_SLOPE_ONE_ON_BOUNDS = _slope_of_clamp_on_a_bound() == 1


@_piecewise("clamp_min")
def clamp_min(x: Tensor, min: Operand) -> Tensor:
    """Return the larger of $x$ and a number."""
    return clamp(x, min)


@_piecewise("clamp_max")
def clamp_max(x: Tensor, max: Operand) -> Tensor:
    """Return the smaller of $x$ and a number."""
    return clamp(x, None, max)


@_piecewise("maximum")
def maximum(x: Tensor, other: Tensor) -> Tensor:
    """Return the larger of two tensors, with the mean of both where they are equal."""
    a, b = value_of(x), value_of(other)
    return torch.where(a > b, x, torch.where(a < b, other, (x + other) / 2))


@_piecewise("minimum")
def minimum(x: Tensor, other: Tensor) -> Tensor:
    """Return the smaller of two tensors, with the mean of both where they are equal."""
    a, b = value_of(x), value_of(other)
    return torch.where(a < b, x, torch.where(a > b, other, (x + other) / 2))


@_piecewise("fmax")
def fmax(x: Tensor, other: Tensor) -> Tensor:
    """Return the larger of two tensors, ignoring NaN in either."""
    a, b = value_of(x), value_of(other)
    return torch.where((a >= b) | b.isnan(), x, other)


@_piecewise("fmin")
def fmin(x: Tensor, other: Tensor) -> Tensor:
    """Return the smaller of two tensors, ignoring NaN in either."""
    a, b = value_of(x), value_of(other)
    return torch.where((a <= b) | b.isnan(), x, other)


@_piecewise("amax")
def amax(x: Jet, dim: Dims = (), keepdim: bool = False) -> Tensor:
    """Return the maximum over some dimensions, or all, with the mean over ties."""
    return _mean_of_equal(x, x.value.amax(dim, True), dim, keepdim)


@_piecewise("amin")
def amin(x: Jet, dim: Dims = (), keepdim: bool = False) -> Tensor:
    """Return the minimum over some dimensions, or all, with the mean over ties."""
    return _mean_of_equal(x, x.value.amin(dim, True), dim, keepdim)


def _mean_of_equal(x: Jet, chosen: Tensor, dim: Dims = (), keepdim: bool = False) -> Tensor:
    """Return the chosen values, with the mean of the series over ties."""
    if not x.ndim:
        return x.clone()
    dims = dims_of(x, dim)
    equal = x.value == chosen
    over = [d % x.ndim + 1 for d in dims]
    rest = x.coefficients[1:].masked_fill(~equal, 0).sum(over, True) / equal.sum(dims, True)
    result: Tensor = Jet(torch.cat([chosen.reshape(1, *rest.shape[1:]), rest]), x.truncation)
    return result if keepdim else result.squeeze(dims)


@_piecewise("aminmax")
def aminmax(x: Jet, *, dim: int | None = None, keepdim: bool = False) -> Any:
    """Return the minimum and the maximum along a dimension, or over all elements."""
    dims = () if dim is None else dim
    return torch.return_types.aminmax((amin(x, dims, keepdim), amax(x, dims, keepdim)))


def _with_indices(name: str, before: int = 0) -> Callable[..., Any]:
    """Return the rule of a function that selects elements along a dimension, with indices.

    Args:
        name: The name of the function.
        before: The number of its arguments between the tensor and the dimension.

    Returns:
        The rule.
    """
    function = getattr(torch, name)

    def applied(input: Jet, *args: Any, **kwargs: Any) -> Any:
        warn_kink(name, input)
        selected = function(input.value.detach(), *args, **kwargs)
        dim = kwargs.get("dim", args[before] if len(args) > before else -1)
        return type(selected)((_gather(input, dim, selected.indices), selected.indices))

    return applied


def _gather(x: Jet, dim: int, indices: Tensor) -> Tensor:
    """Return elements along a dimension. If the indices lack the dimension, so does the result."""
    if not x.ndim:
        return x.clone()
    dropped = indices.ndim < x.ndim
    indices = indices.unsqueeze(dim) if dropped else indices
    c = x.coefficients
    c = c.gather(shift_dim(dim), indices.expand(len(c), *indices.shape))
    return Jet(c.squeeze(shift_dim(dim)) if dropped else c, x.truncation)


for _name in ("cummax", "cummin", "mode", "sort"):
    rule(_name)(_with_indices(_name))
for _name in ("kthvalue", "topk"):
    rule(_name)(_with_indices(_name, 1))


@rule("msort")
def msort(input: Tensor) -> Tensor:
    """Sort along the first dimension."""
    return input.sort(0).values


def _over_all_or_along(name: str) -> Callable[..., Any]:
    """Return the rule of a function over all elements, or along a dimension with indices."""
    along, of_all = _with_indices(name), getattr(torch, name)

    def applied(input: Tensor, *args: Any, **kwargs: Any) -> Any:
        if (args and isinstance(args[0], Tensor)) or "other" in kwargs:
            return getattr(torch, f"{name}imum")(input, *args, **kwargs)
        assert isinstance(input, Jet)
        if args or "dim" in kwargs:
            return along(input, *args, **kwargs)
        warn_kink(name, input)
        return _mean_of_equal(input, of_all(input.value))

    return applied


for _name in ("max", "median", "min", "nanmedian"):
    rule(_name)(_over_all_or_along(_name))
_ALPHA, _SCALE = 1.6732632423543772, 1.0507009873554805


@_piecewise("elu", problem=None)
def elu(x: Jet, alpha: float = 1.0) -> Jet:
    """Return $x$ where it is positive, and $α (e^x - 1)$ elsewhere."""
    warn_kink("elu", x, problem=JUMP if alpha == 1 else _KINK)
    return compose(x, lambda u: functional.elu(u, alpha), lambda u: _saturating(u, 1, alpha, 1))


@_piecewise("celu", problem=JUMP)
def celu(x: Jet, alpha: float = 1.0) -> Jet:
    """Return $x$ where it is positive, and $α (e^{x / α} - 1)$ elsewhere."""
    return compose(
        x, lambda u: functional.celu(u, alpha), lambda u: _saturating(u, 1, 1, 1 / alpha)
    )


@_piecewise("selu")
def selu(x: Jet) -> Jet:
    """Return $λ x$ where it is positive, and $λ α (e^x - 1)$ elsewhere, with constants $λ, α$."""
    return compose(x, functional.selu, lambda u: _saturating(u, _SCALE, _SCALE * _ALPHA, 1))


def _saturating(x: Tensor, above: float, below: float, rate: float) -> Iterator[Tensor]:
    """Yield the derivatives of a function with slope $b e^{r x}$ below zero, constant above."""
    y = below * (rate * torch.where(x > 0, 0, x)).exp()
    yield torch.where(x > 0, above, y)
    while True:
        y = rate * y
        yield torch.where(x > 0, 0, y)


@_piecewise("softsign", problem=JUMP)
def softsign(x: Jet) -> Jet:
    """Return $x / (1 + |x|)$."""
    return compose(x, functional.softsign, _softsign)


def _softsign(x: Tensor) -> Iterator[Tensor]:
    r = (1 + (absolute(x) if isinstance(x, Jet) else x.abs())).reciprocal()
    yield r * r
    yield -2 * x.sgn() * r**3
    yield 6 * r**4
