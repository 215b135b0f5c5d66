"""Rules of moments and products over dimensions."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .jet import Jet, Rule, rule
from .products import value_of
from .shapes import Dims, dims_of

_HALF = {torch.float16, torch.bfloat16}


def widened(x: Jet, dtype: torch.dtype | None = None) -> Jet:
    """Return a jet in a given type, or in the one that torch computes sums in."""
    if dtype is None:
        dtype = torch.float32 if x.dtype in _HALF else x.dtype
    return x if x.dtype == dtype else Jet(x.coefficients.to(dtype), x.truncation)


@rule("std_mean")
def std_mean(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
    """Return the standard deviation and the mean."""
    variance, mean = var_mean(*args, **kwargs)
    return root(variance), mean


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
    """Return the rule of what comes first, without the mean."""
    return lambda *args, **kwargs: function(*args, **kwargs)[0]


rule("var")(_first(var_mean))
rule("std")(_first(std_mean))


def root(x: Tensor) -> Tensor:
    r"""Return $\sqrt x$, without derivatives where it is zero, which is how torch takes norms."""
    zero = value_of(x) == 0
    return torch.where(zero, 0, torch.where(zero, 1, x).sqrt())


@rule("prod")
def prod(
    input: Tensor,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Return the product over a dimension, or of all elements; any may be zero."""
    x = input if dtype is None else input.to(dtype)
    if dim is None:
        x, dim, keepdim = x.reshape(-1), 0, False
    if x.ndim == 0:
        return x.clone()
    if x.shape[dim] == 0:
        return torch.ones_like(x.sum(dim, keepdim=keepdim))
    if x.shape[dim] == 1:
        x = x.clone()
    while x.shape[dim] > 1:  # halves are multiplied, so that nothing is divided
        half = x.shape[dim] // 2
        product = x.narrow(dim, 0, half) * x.narrow(dim, half, half)
        odd = x.narrow(dim, 2 * half, x.shape[dim] - 2 * half)
        x = torch.cat([product, odd], dim)
    return x if keepdim else x.squeeze(dim)


@rule("cumprod")
def cumprod(input: Tensor, dim: int, *, dtype: torch.dtype | None = None) -> Tensor:
    """Return the products of all elements up to each; any may be zero."""
    return _scanned(torch.mul, input if dtype is None else input.to(dtype), dim)


@rule("logcumsumexp")
def logcumsumexp(input: Tensor, dim: int) -> Tensor:
    r"""Return $\log \sum_{j \le i} e^{x_j}$ for all $i$."""
    return _scanned(torch.logaddexp, input, dim)


def _scanned(function: Callable[[Tensor, Tensor], Tensor], x: Tensor, dim: int) -> Tensor:
    """Return what an associative function makes of all elements up to each, by doubling."""
    length, step = x.shape[dim] if x.ndim else 1, 1
    if length == 1:
        return x.clone()
    while step < length:
        rest = length - step
        both = function(x.narrow(dim, 0, rest), x.narrow(dim, step, rest))
        x = torch.cat([x.narrow(dim, 0, step), both], dim)
        step *= 2
    return x
