"""Reductions: sums, means, moments, products, and the cumulative forms."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ..algebra import Dims, Number, dims_of, map_coefficients
from ..jet import Jet
from ..registry import MissingRule, Rule, rule
from .elementwise import sqrt_or_zero


def _sum_or_mean(function: Callable[..., Tensor]) -> Rule:
    """Return the rule of a sum or mean over some dimensions, or all of them."""

    def applied(
        input: Jet,
        dim: Dims | None = None,
        keepdim: bool = False,
        *,
        dtype: torch.dtype | None = None,
    ) -> Jet:
        c = input.coefficients
        if not input.ndim:
            return Jet(c.to(dtype or c.dtype, copy=True), input.truncation)
        over = tuple(d % input.ndim + 1 for d in dims_of(input, dim))
        return Jet(function(c, over, keepdim, dtype=dtype), input.truncation)

    return applied


rule("sum")(_sum_or_mean(torch.sum))
rule("mean")(_sum_or_mean(torch.mean))
for _name in ("cumsum", "trace"):  # fmt: skip
    rule(_name)(map_coefficients(getattr(torch, _name)))


@rule("std_mean")
def std_mean(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
    """Return the standard deviation and the mean."""
    variance, mean = var_mean(*args, **kwargs)
    return sqrt_or_zero(variance), mean


@rule("var_mean")
def var_mean(
    input: Jet,
    dim: Dims | None = None,
    unbiased: bool = True,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the variance and the mean."""
    if isinstance(dim, bool):  # `var(x, unbiased)`
        unbiased = dim
    dims = dims_of(input, None if isinstance(dim, bool) else dim)
    mean = input.mean(dims, keepdim=True)
    count = math.prod(input.shape[d] for d in dims)
    freedom = max(count - (int(unbiased) if correction is None else correction), 0)
    variance = (input - mean).square().sum(dims, keepdim=keepdim) / freedom
    return variance, mean if keepdim else mean.squeeze(dims)


def _first(function: Callable[..., tuple[Tensor, Tensor]]) -> Rule:
    """Return the rule of the first result alone."""
    return lambda *args, **kwargs: function(*args, **kwargs)[0]


rule("var")(_first(var_mean))
rule("std")(_first(std_mean))


@rule("prod")
def prod(
    input: Tensor,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Return the product over a dimension, or of all elements. Elements may be zero."""
    x = input if dtype is None else input.to(dtype)
    if dim is None:
        x, dim, keepdim = x.reshape(-1), 0, False
    if x.ndim == 0:
        return x.clone()
    if x.shape[dim] == 0:
        return torch.ones_like(x.sum(dim, keepdim=keepdim))
    if x.shape[dim] == 1:
        x = x.clone()
    while x.shape[dim] > 1:  # multiply the halves, which needs no division
        half = x.shape[dim] // 2
        product = x.narrow(dim, 0, half) * x.narrow(dim, half, half)
        odd = x.narrow(dim, 2 * half, x.shape[dim] - 2 * half)
        x = torch.cat([product, odd], dim)
    return x if keepdim else x.squeeze(dim)


@rule("cumprod")
def cumprod(input: Tensor, dim: int, *, dtype: torch.dtype | None = None) -> Tensor:
    """Return the cumulative product. Elements may be zero."""
    return _scan(torch.mul, input if dtype is None else input.to(dtype), dim)


@rule("logcumsumexp")
def logcumsumexp(input: Tensor, dim: int) -> Tensor:
    r"""Return $\log \sum_{j \le i} e^{x_j}$ for all $i$."""
    return _scan(torch.logaddexp, input, dim)


def _scan(function: Callable[[Tensor, Tensor], Tensor], x: Tensor, dim: int) -> Tensor:
    """Return the cumulative form of an associative function, computed by doubling."""
    length, step = x.shape[dim] if x.ndim else 1, 1
    if length == 1:
        return x.clone()
    while step < length:
        rest = length - step
        both = function(x.narrow(dim, 0, rest), x.narrow(dim, step, rest))
        x = torch.cat([x.narrow(dim, 0, step), both], dim)
        step *= 2
    return x


@rule("diff")
def diff(
    input: Tensor,
    n: int = 1,
    dim: int = -1,
    prepend: Tensor | None = None,
    append: Tensor | None = None,
) -> Tensor:
    """Return the differences of neighboring elements, `n` times."""
    x = torch.cat([part for part in (prepend, input, append) if part is not None], dim)
    for _ in range(n):
        x = x.narrow(dim, 1, x.shape[dim] - 1) - x.narrow(dim, 0, x.shape[dim] - 1)
    return x


@rule("nansum")
def nansum(
    input: Jet,
    dim: Dims | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Return the sum over some dimensions, or all, without elements that are NaN."""
    without_nan = torch.where(input.isnan(), 0, input)
    return without_nan.sum(dims_of(input, dim), keepdim=keepdim, dtype=dtype)


@rule("nanmean")
def nanmean(
    input: Jet,
    dim: Dims | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Return the mean over some dimensions, or all, without elements that are NaN."""
    count = (~input.isnan()).sum(dims_of(input, dim), keepdim=keepdim)
    return nansum(input, dim, keepdim, dtype=dtype) / count


@rule("cov")
def cov(
    input: Tensor,
    *,
    correction: int = 1,
    fweights: Tensor | None = None,
    aweights: Tensor | None = None,
) -> Tensor:
    """Return the covariance matrix of the rows.

    Raises:
        MissingRule: If weights are given.
    """
    if fweights is not None or aweights is not None:
        raise MissingRule("Taylor has no rule for `torch.cov` with weights")
    rows = input.reshape(-1, input.shape[-1]) if input.ndim < 2 else input
    centered = rows - rows.mean(1, keepdim=True)
    return (centered @ centered.mT / (rows.shape[1] - correction)).squeeze()


@rule("corrcoef")
def corrcoef(input: Tensor) -> Tensor:
    """Return the correlation matrix of the rows."""
    covariance = cov(input)
    deviation = covariance.diagonal().sqrt()
    return covariance / deviation[:, None] / deviation


@rule("trapezoid", "trapz")
def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: Number = 1, dim: int = -1) -> Tensor:
    r"""Return the integral by the trapezoidal rule, $\sum_i (y_i + y_{i+1}) Δ_i / 2$."""
    return _trapezoids(y, x, dx, dim).sum(dim)


@rule("cumulative_trapezoid")
def cumulative_trapezoid(
    y: Tensor, x: Tensor | None = None, *, dx: Number = 1, dim: int = -1
) -> Tensor:
    """Return the integrals up to all points by the trapezoidal rule."""
    return _trapezoids(y, x, dx, dim).cumsum(dim)


def _trapezoids(y: Tensor, x: Tensor | None, dx: Number, dim: int) -> Tensor:
    """Return the areas between neighboring points along a dimension."""
    n = y.shape[dim] - 1
    sums = (y.narrow(dim, 1, n) + y.narrow(dim, 0, n)) / 2
    if x is None:
        return sums * dx
    if x.ndim == 1:
        x = x.reshape([-1 if d == dim % y.ndim else 1 for d in range(y.ndim)])
    return sums * x.diff(dim=dim)
