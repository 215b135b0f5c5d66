r"""Softmax, logsumexp and related functions.

Let $p$ be the softmax of the values $u_0$, $d_i = u_{1i} - \sum p u_{1i}$ and
$q = u_2 + \tfrac12 \sum_i d_i²$. Then

$$\mathrm{logsumexp}(u) = \mathrm{logsumexp}(u_0) + \sum_i t_i \sum p u_{1i} + s \sum p q.$$
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from ..algebra import Dims, dims_of, shift_dim, value_of, widened
from ..jet import Jet
from ..registry import rule
from ..series import Truncation, empty_rows


@rule("logsumexp")
def logsumexp(input: Jet, dim: Dims, keepdim: bool = False) -> Tensor:
    r"""Return $\log \sum e^x$ over some dimensions."""
    dims = dims_of(input, dim)
    result = _logsumexp(widened(input), dims).to(input.dtype)
    return result if keepdim or not input.ndim else result.squeeze(dims)


def _logsumexp(x: Jet, dims: tuple[int, ...]) -> Tensor:
    r"""Return $\log \sum e^x$, keeping the dimensions."""
    value = x.value.logsumexp(dims, True)
    if x.degree == 0:
        return Jet(value[None], x.truncation)
    if x.truncation.order > 2:
        shift = _finite(value.detach())
        return (x - shift).exp().sum(dims, keepdim=True).log() + shift
    p = (x.value - _finite(value)).exp()
    over = tuple(shift_dim(d) for d in dims)
    slopes = x.part(1)
    mean = (p * slopes).sum(over, True)
    terms = [value[None], mean]
    if x.truncation.order == 2:
        q = (slopes - mean).square().sum(0, True) / 2
        terms.append((p * (q + x.part(2) if x.degree == 2 else q)).sum(over, True))
    return Jet(torch.cat(terms), x.truncation)


def _finite(shift: Tensor) -> Tensor:
    """Return a shift for exponents, with zero where it is infinite."""
    return shift.masked_fill(shift.isinf(), 0)


@rule("softmax")
def softmax(input: Jet, dim: int | None = None, *args: Any, **kwargs: Any) -> Tensor:
    r"""Return $e^x / \sum e^x$."""
    x, axis = _arguments("softmax", input, dim, *args, **kwargs)
    return softmax_with(torch.softmax, widened(x), axis).to(x.dtype)


def softmax_with(function: Callable[[Tensor, int], Tensor], x: Jet, dim: int) -> Tensor:
    """Return the softmax, given a function that computes its value."""
    if x.degree == 0:
        return Jet(function(x.value, dim)[None], x.truncation)
    if x.truncation.order > 2:
        powers = (x - _finite(x.value.detach().amax(dim, True))).exp()
        total = powers.sum(dim, keepdim=True)
        return powers / torch.where(value_of(total) == 0, 1, total)
    stacked: Tensor = _Softmax.apply(x.coefficients, x.truncation, function, shift_dim(dim))  # type: ignore[no-untyped-call]
    return Jet(stacked, x.truncation)


class _Softmax(torch.autograd.Function):
    r"""The coefficients of a softmax up to degree two: $p$, $p d_i$ and $p (q - \sum p q)$.

    The backward pass is in closed form and saves only `u` and the result.
    """

    @staticmethod
    def forward(
        ctx: Any,
        u: Tensor,
        truncation: Truncation,
        function: Callable[[Tensor, int], Tensor],
        dim: int,
    ) -> Tensor:
        y = empty_rows(u, truncation.rows(truncation.order))
        y[0] = function(u[0], _value_dim(dim))
        for row, centered in zip(y[1:], _centered(u, y[0], truncation, dim), strict=True):
            torch.mul(centered, y[0], out=row)
        ctx.save_for_backward(u, y)
        ctx.truncation, ctx.dim = truncation, dim
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        r"""Return the gradient with respect to `u`, given the gradient of the result.

        With $⟨·⟩ = \sum p\, ·$, $\tilde q = q - ⟨q⟩$, $\bar q = p (\bar y_2 - ⟨\bar y_2⟩)$ and
        $\bar d_i = p \bar y_{1i} + \bar q d_i$,

        $$\bar u_2 = \bar q, \quad \bar u_{1i} = \bar d_i - p \sum \bar d_i, \quad
          \bar p = \bar y_0 + \sum_i d_i (\bar y_{1i} - \sum \bar d_i)
                   + \tilde q (\bar y_2 - ⟨\bar y_2⟩), \quad \bar u_0 = p (\bar p - ⟨\bar p⟩).$$
        """
        u, y = ctx.saved_tensors
        p, dim, slopes = y[0], ctx.dim, ctx.truncation.block(1)
        centered = _centered(u, p, ctx.truncation, dim)
        deviation = centered[: slopes.stop - 1]
        bar = p * grad[slopes]
        rest, parts = grad[0], []
        if ctx.truncation.order == 2:
            outer = grad[-1] - (p * grad[-1]).sum(_value_dim(dim), True)
            parts = [(p * outer)[None]] if len(u) == len(y) else []
            bar = bar + p * outer * deviation
            rest = rest + centered[-1] * outer
        total = bar.sum(dim, True)
        rest = rest + (deviation * (grad[slopes] - total)).sum(0)
        value = p * (rest - (p * rest).sum(_value_dim(dim), True))
        return torch.cat([value[None], bar - p * total, *parts]), None, None, None


def _value_dim(dim: int) -> int:
    """Return the dimension of the value for a dimension of the coefficients."""
    return dim - 1 if dim > 0 else dim


def _centered(u: Tensor, p: Tensor, truncation: Truncation, dim: int) -> Tensor:
    r"""Return $d_i$ and, if there are second coefficients, $q - \sum p q$."""
    slopes = u[truncation.block(1)]
    deviation = slopes - (p * slopes).sum(dim, True)
    if truncation.order == 1:
        return deviation
    q = deviation.square().sum(0) / 2
    q = q + u[-1] if len(u) == truncation.rows(2) else q
    return torch.cat([deviation, (q - (p * q).sum(_value_dim(dim), True))[None]])


@rule("log_softmax")
def log_softmax(input: Jet, dim: int | None = None, *args: Any, **kwargs: Any) -> Tensor:
    r"""Return $x - \log \sum e^x$."""
    x, axis = _arguments("log_softmax", input, dim, *args, **kwargs)
    wide = widened(x)
    return (wide - _logsumexp(wide, (axis,))).to(x.dtype)


@rule(functional.softmin)
def softmin(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Return the softmax of $-x$."""
    return functional.softmax(-input, *args, **kwargs)


def _arguments(
    name: str,
    x: Jet,
    dim: int | None,
    third: torch.dtype | int | None = None,
    dtype: torch.dtype | None = None,
    _stacklevel: int = 3,
) -> tuple[Jet, int]:
    """Return the tensor and the dimension. The third argument is a type only in `torch`."""
    dtype = third if isinstance(third, torch.dtype) else dtype
    if dim is None:
        dim = functional._get_softmax_dim(name, x.ndim, _stacklevel + 2)  # type: ignore[attr-defined]
    return widened(x, dtype or x.dtype), dim


@rule("logaddexp")
def logaddexp(input: Tensor, other: Tensor) -> Tensor:
    r"""Return $\log(e^a + e^b)$."""
    return torch.stack(torch.broadcast_tensors(input, other)).logsumexp(0)  # type: ignore[no-untyped-call]


@rule("logaddexp2")
def logaddexp2(input: Tensor, other: Tensor) -> Tensor:
    r"""Return $\log_2(2^a + 2^b)$."""
    scale = math.log(2)
    return logaddexp(input * scale, other * scale) / scale
