"""The biharmonic operator, exact or from random directions."""

import math
from collections.abc import Callable
from contextlib import suppress
from itertools import combinations

import torch
from torch import Generator, Tensor

from ..derivatives import MissingRule
from ..derivatives.exact import EXACT
from ..projections import Sphere, draw_directions
from ..tensors import dimension, per_example, tile
from ..typing import Condition, Derivative, Function, nests_gradients
from .arguments import STEP, prepare
from .coordinates import (
    MEMORY,
    MIN_CHUNK_ROWS,
    along_coordinates,
    along_directions,
    bytes_per_coefficient,
)

MOST = MEMORY // MIN_CHUNK_ROWS
"""Bytes for each row up to which all coefficients of a series are kept at a time."""


def biharmonic(
    f: Function,
    x: Tensor,
    *cond: Condition,
    directions: int | None = None,
    generator: Generator | None = None,
    derivative: Derivative = EXACT,
    step: float = STEP,
    chunk: int | None = None,
) -> Tensor:
    r"""Return the biharmonic operator $Δ²f = \sum_{ij} ∂⁴f / ∂x_i² ∂x_j²$ at each row of `x`.

    `Taylor` propagates one series in symbols $t_1, …, t_d$ whose products of four are
    $t_i t_j t_k t_l = (δ_{ij} δ_{kl} + δ_{ik} δ_{jl} + δ_{il} δ_{jk}) w$,

    $$f(x + t) = f(x) + ∇f(x)^T t + … + \tfrac18 Δ²f(x) \, w.$$

    It has $2 + 2d + d(d + 1)/2$ coefficients for every tensor in the model, as many as $f$, $∇f$,
    $∇²f$, $∇Δf$ and $Δ²f$ have elements. Other engines, and `Taylor` if so many do not fit into
    memory or if `chunk` is given, sum fourth derivatives along $d²$ directions,

    $$Δ²f = \tfrac16 \sum_{i<j} \left[ ((e_i + e_j)^T∇)^4 + ((e_i - e_j)^T∇)^4 \right] f
            + \left(1 - \tfrac{d - 1}3\right) \sum_i (e_i^T∇)^4 f.$$

    For `v` uniformly distributed on the sphere of radius $ε$,
    $E[(v^T∇)^4 f] = 3 ε^4 / (d (d + 2)) \, Δ²f$.

    Reference:
        Griewank, Utke and Walther (2000), Evaluating higher derivative tensors by forward
        propagation of univariate Taylor series.

    Args:
        f: A function `(B, *E), *cond -> (B, *O)`.
        x: The points, shape `(B, *E)`.
        cond: Further arguments of `f`: tensors with one row per example, or numbers.
        directions: Number of random directions per example, for an unbiased estimate. Default:
            the exact operator.
        generator: Random number generator. Default: the global generator of torch.
        derivative: The engine; see `laplacian`.
        step: The step of finite differences.
        chunk: Number of directions at a time, for the sum over directions. Default: chosen by
            memory.

    Returns:
        The values, shape `(B, *O)`.

    Example:
        >>> biharmonic(lambda x: x.square().sum(1).square(), torch.tensor([[1.0, 2.0]]))
        tensor([64.])
    """
    f, rows = prepare(f, x, cond, derivative, step)
    d = dimension(x)

    def along(v: Tensor, x: Tensor, *rows: Tensor) -> Tensor:
        """Return the fourth derivatives along the directions, shape `(V, N, *O)`."""
        n = len(v)
        copies = [tile(row, n) for row in rows]
        fourth = derivative.jet(f, tile(x, n), v.flatten(0, 1), 4, *copies)[4]
        return fourth.view(n, len(x), *fourth.shape[1:]) / step**4

    # An engine with a method of this name, such as Taylor, needs no sum over directions.
    from_one_series = getattr(derivative, "biharmonic", None)
    if directions is None and chunk is None and from_one_series is not None:
        coefficients = math.comb(d + 2, 2) + d + 1
        if bytes_per_coefficient(f, x, torch.is_grad_enabled()) * coefficients <= MOST:
            with suppress(MissingRule):
                return _in_chunks(from_one_series, f, x, *rows, coefficients=coefficients)
    if directions is not None:
        v = draw_directions(Sphere(step), x, directions, generator)
        return along(v, x, *rows).mean(0) * (d * (d + 2) / 3)
    units = torch.eye(d, dtype=x.dtype, device=x.device)
    pairs = [units[i] + sign * units[j] for i, j in combinations(range(d), 2) for sign in (1, -1)]
    v = step * torch.stack([*units, *pairs]).view(-1, *x.shape[1:])
    weights = [1 - (d - 1) / 3] * d + [1 / 6] * len(pairs)
    numbers = torch.arange(len(v), device=x.device)
    parts = along_directions(
        along, f, x, *rows,
        numbers=numbers, v=v.__getitem__, coefficients=5, chunk=chunk,
        nested=nests_gradients(derivative),
    )  # fmt: skip
    fourth = torch.cat([torch.cat(part) for part in parts], 1)
    return (per_example(x.new_tensor(weights), fourth) * fourth).sum(0)


def _in_chunks(
    from_one_series: Callable[..., Tensor],
    f: Function,
    x: Tensor,
    *rows: Tensor,
    coefficients: int,
) -> Tensor:
    """Return the operator from a series with a given number of coefficients, in chunks of rows."""
    d = dimension(x)
    parts = along_coordinates(
        lambda v, x, *some: from_one_series(f, x, v, *some), f, x, *rows,
        coefficients=math.ceil(coefficients / (d + 2)), chunk=d,
    )  # fmt: skip
    return torch.cat([part for (part,) in parts])
