"""Norms and distances."""

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from ..algebra import Dims, dims_of, value_of, widened
from ..jet import Jet
from ..registry import rule
from .elementwise import sqrt_or_zero
from .piecewise import absolute, amax, amin, clamp, warn_kink


@rule(torch.linalg.vector_norm)
def vector_norm(
    x: Jet,
    ord: float = 2,
    dim: Dims | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Tensor:
    r"""Return $(\sum |x|^p)^{1/p}$ over some dimensions, or all of them."""
    x, dims = widened(x, dtype or x.dtype), dims_of(x, dim)
    if ord == 2:
        return sqrt_or_zero(x.square().sum(dims, keepdim=keepdim))
    if ord == 0:
        count: Tensor = torch.linalg.vector_norm(x.value.detach(), 0, dims, keepdim)
        return count
    if ord in {1, math.inf, -math.inf}:
        warn_kink("norm", x)
    if math.isinf(ord):
        return (amax if ord > 0 else amin)(absolute(x), dims, keepdim)
    total = (absolute(x) ** ord if ord != 1 else absolute(x)).sum(dims, keepdim=keepdim)
    return total if ord == 1 else _power_or_zero(total, 1 / ord)


def _power_or_zero(x: Tensor, p: float) -> Tensor:
    """Return $x^p$, with zero derivatives where $x$ is zero."""
    zero = value_of(x) == 0
    return torch.where(zero, 0, torch.where(zero, 1, x) ** p)


@rule("norm")
def norm(
    input: Jet,
    p: float | str | None = "fro",
    dim: Dims | None = None,
    keepdim: bool = False,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Return a vector norm, the Frobenius norm or the nuclear norm."""
    if p == "nuc":
        return matrix_norm(input, p, dims_of(input, dim), keepdim, dtype=dtype)
    order = 2.0 if p is None or isinstance(p, str) else p
    return vector_norm(input, order, dim, keepdim, dtype=dtype)


@rule(torch.linalg.norm)
def linalg_norm(
    A: Jet,
    ord: float | str | None = None,
    dim: Dims | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Return a vector norm, or a matrix norm if an order and two dimensions are given."""
    dims = dims_of(A, dim)
    if ord is None:
        return vector_norm(A, 2, dims, keepdim, dtype=dtype)
    if len(dims) == 2:
        return matrix_norm(A, ord, dims, keepdim, dtype=dtype)
    return vector_norm(A, float(ord), dims, keepdim, dtype=dtype)


@rule(torch.linalg.matrix_norm)
def matrix_norm(
    A: Jet,
    ord: float | str = "fro",
    dim: tuple[int, ...] = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Return the Frobenius norm, the sum or the largest or smallest of the singular values.

    For orders of one and infinity, return the largest or smallest sum of columns or rows.
    """
    if ord == "fro":
        return vector_norm(A, 2, dim, keepdim, dtype=dtype)
    A = widened(A, dtype or A.dtype)
    if ord == "nuc" or abs(float(ord)) == 2:
        values: Tensor = torch.linalg.svdvals(A.movedim(dim, (-2, -1)))
        sizes = values.sum(-1) if ord == "nuc" else values[..., 0 if float(ord) > 0 else -1]
        first, second = sorted(d % A.ndim for d in dim)
        return sizes.unsqueeze(first).unsqueeze(second) if keepdim else sizes
    warn_kink("norm", A)
    order = float(ord)
    row, column = dim if math.isinf(order) else dim[::-1]
    x = absolute(A)
    sums: Any = x.sum(column, keepdim=True)
    result: Tensor = (amax if order > 0 else amin)(sums, row, True)
    return result if keepdim else result.squeeze(dim)


@rule("dist")
def dist(input: Tensor, other: Tensor, p: float = 2) -> Tensor:
    """Return the norm of a difference."""
    difference: Any = input - other
    return vector_norm(difference, p)


@rule("pairwise_distance")
def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """Return the norms of differences along the last dimension."""
    difference: Any = x1 - x2 + eps
    return vector_norm(difference, p, -1, keepdim)


_FEW = 25
"""The number of rows up to which torch computes distances from differences."""


@rule(torch.cdist)
def cdist(
    x1: Tensor,
    x2: Tensor,
    p: float = 2.0,
    compute_mode: str = "use_mm_for_euclid_dist_if_necessary",
) -> Tensor:
    """Return the distances of all pairs of rows, from inner products if there are many."""
    if (
        p != 2
        or compute_mode == "donot_use_mm_for_euclid_dist"
        or max(x1.shape[-2], x2.shape[-2]) <= _FEW
    ):
        difference: Any = x1.unsqueeze(-2) - x2.unsqueeze(-3)
        return vector_norm(difference, p, -1)
    squares = x1.square().sum(-1)[..., None] + x2.square().sum(-1)[..., None, :]
    y: Any = squares - 2 * x1 @ x2.mT
    value = torch.cdist(value_of(x1), value_of(x2)).square()
    return sqrt_or_zero(Jet(torch.cat([value[None], y.coefficients[1:]]), y.truncation))


@rule("pdist")
def pdist(input: Jet, p: float = 2.0) -> Tensor:
    """Return the distances of all pairs of different rows."""
    n = input.shape[0]
    i, j = torch.triu_indices(n, n, 1, device=input.device)
    difference: Any = input[i] - input[j]
    return vector_norm(difference, p, -1)


@rule("cosine_similarity")
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    r"""Return $a^T b / ‖a‖ ‖b‖$."""
    a, b = torch.broadcast_tensors(x1, x2)  # type: ignore[no-untyped-call]
    return (
        functional.normalize(a, dim=dim, eps=eps) * functional.normalize(b, dim=dim, eps=eps)
    ).sum(dim)


@rule(functional.normalize)
def normalize(input: Tensor, p: float = 2.0, dim: Dims = 1, eps: float = 1e-12) -> Tensor:
    """Return vectors divided by their norms, which are at least `eps`."""
    return input / clamp(torch.linalg.vector_norm(input, p, dim, True), eps)
