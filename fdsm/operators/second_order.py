r"""Laplacian, diagonal of the Hessian, and divergence: exact, or from random directions.

The exact forms are sums over the unit vectors $e_i$. The stochastic forms are means over random
directions with $E[v v^T] = (C_v / d) I$, so that $E[v^T A v] = (C_v / d) \, \mathrm{tr}\, A$.
"""

import torch
from torch import Generator, Tensor

from ..derivatives import as_log_density
from ..derivatives.autodiff import requires_grad_alias
from ..derivatives.checks.arguments import checked_score
from ..derivatives.exact import EXACT
from ..projections import Rademacher, draw_directions
from ..tensors import dimension, dot, tile
from ..typing import Condition, Derivative, Function, Projection, Score, nests_gradients
from .arguments import STEP, prepare, refuse_distributed
from .coordinates import along_coordinates, sum_over_coordinates
from .directional import gradients_of_outputs

SIGNS = Rademacher(STEP)
"""Random signs, whose variance is smallest for traces of nearly diagonal matrices."""


def laplacian(
    f: Function,
    x: Tensor,
    *cond: Condition,
    weights: Tensor | None = None,
    directions: int | None = None,
    projection: Projection = SIGNS,
    generator: Generator | None = None,
    derivative: Derivative = EXACT,
    step: float = STEP,
    chunk: int | None = None,
) -> Tensor:
    r"""Return the Laplacian $Δf = \sum_i ∂²f / ∂x_i²$ at each row of `x`, or a weighted one.

    With `Taylor` the exact Laplacian takes $d + 2$ coefficients of every tensor in the model. Only
    the sum of the curvatures is propagated (the forward Laplacian).

    Reference:
        Li et al. (2023), https://arxiv.org/abs/2307.08214.
        Hutchinson (1989), A stochastic estimator of the trace, for random directions.

    Args:
        f: A function `(B, *E), *cond -> (B, *O)`.
        x: The points, shape `(B, *E)`.
        cond: Further arguments of `f`: tensors with one row per example, or numbers.
        weights: Weights $w$ of $\sum_i w_i ∂²f / ∂x_i²$, of any sign. They broadcast against
            `x`: shape `E` or `(B, *E)`. Coordinates of weight zero cost nothing if their weight
            is zero in all examples.
        directions: Number of random directions per example, for an unbiased estimate. Default:
            the exact Laplacian.
        projection: The distribution of random directions.
        generator: Random number generator. Default: the global generator of torch.
        derivative: The engine. Default: `Taylor`, with `Autodiff` for models that use functions
            without a Taylor rule.
        step: The step of finite differences along coordinates. Other engines do not depend on it.
        chunk: Number of coordinates at a time. Default: chosen by memory.

    Returns:
        The Laplacians, shape `(B, *O)`.

    Example:
        >>> x = torch.tensor([[1.0, 2.0], [0.0, 3.0]])
        >>> cubes = lambda x: x.pow(3).sum(1)
        >>> laplacian(cubes, x)
        tensor([18., 18.])
        >>> laplacian(cubes, x, weights=torch.tensor([1.0, -1.0]))
        tensor([ -6., -18.])
    """
    f, rows = prepare(f, x, cond, derivative, step)
    nested = nests_gradients(derivative)

    def total(root: Tensor | None, among: Tensor | None) -> Tensor:
        """Return the Laplacian along some coordinates, given the square roots of the weights."""
        if directions is not None:
            v = draw_directions(projection, x, directions, generator)
            _, curvature = derivative.sliced(f, x, v if root is None else v * root, *rows)
            return curvature * (dimension(x) / (directions * projection.second_moment(x)))

        def along(v: Tensor, x: Tensor, scale: Tensor, *rows: Tensor) -> Tensor:
            return derivative.sliced(f, x, v if root is None else scale * v, *rows)[1]

        scale = x if root is None else root
        sums = sum_over_coordinates(
            along, f, x, scale, *rows, step=step, among=among, chunk=chunk, nested=nested
        )
        return sums / step**2

    if weights is None:
        return total(None, None)
    terms = []
    for sign, w in zip((1, -1), _positive_parts(weights.to(x).expand(x.shape)), strict=True):
        used = w.reshape(len(x), -1).any(0).nonzero().flatten()
        if len(used):
            terms.append(sign * total(w.sqrt(), used))
    return sum(terms[1:], terms[0]) if terms else torch.zeros_like(as_log_density(f)(x, *rows))


def _positive_parts(w: Tensor) -> tuple[Tensor, Tensor]:
    """Return weights as a difference of two, in each of which a coordinate is positive or unused.

    A constant is added to both weights of a coordinate whose weight changes its sign between the
    examples, or vanishes in some.
    """
    same_sign = (w > 0).all(0) | (w < 0).all(0) | (w == 0).all(0)
    added = torch.where(same_sign, 0, w.detach().abs().amax())
    return w.clamp(min=0) + added, (-w).clamp(min=0) + added


def hessian_diagonal(
    f: Function,
    x: Tensor,
    *cond: Condition,
    directions: int | None = None,
    projection: Projection = SIGNS,
    generator: Generator | None = None,
    derivative: Derivative = EXACT,
    step: float = STEP,
    chunk: int | None = None,
) -> Tensor:
    r"""Return the diagonal of the Hessian, $∂²f / ∂x_i²$, at each row of `x`.

    The exact diagonal takes a series of degree two along each coordinate. The stochastic one is
    the mean of $v ⊙ ∇²f v$, with $∇²f v$ the gradient of the slope along `v`.

    Reference:
        Bekas, Kokiopoulou and Saad (2007), An estimator for the diagonal of a matrix.

    Args:
        f: A function `(B, *E), *cond -> (B, *O)`.
        x: The points, shape `(B, *E)`.
        cond: Further arguments of `f`: tensors with one row per example, or numbers.
        directions: Number of random directions per example, for an unbiased estimate. Default:
            the exact diagonal.
        projection: The distribution of random directions.
        generator: Random number generator. Default: the global generator of torch.
        derivative: The engine; see `laplacian`.
        step: The step of finite differences along coordinates.
        chunk: Number of coordinates at a time. Default: chosen by memory.

    Returns:
        The diagonals, shape `(B, *O, *E)`; `(B, *E)` for a function that returns `(B,)`.

    Example:
        >>> hessian_diagonal(lambda x: x.pow(3).sum(1), torch.tensor([[1.0, 2.0]]))
        tensor([[ 6., 12.]])
    """
    f, rows = prepare(f, x, cond, derivative, step)
    if directions is None:

        def along(v: Tensor, x: Tensor, *rows: Tensor) -> Tensor:
            n = len(v)
            copies = [tile(row, n) for row in rows]
            second = derivative.jet(f, tile(x, n), v.flatten(0, 1), 2, *copies)[2]
            return second.view(n, len(x), *second.shape[1:]) / step**2

        nested = nests_gradients(derivative)
        parts = along_coordinates(along, f, x, *rows, step=step, chunk=chunk, nested=nested)
        diagonals = torch.cat([torch.cat(part) for part in parts], 1).movedim(0, -1)
        return diagonals.reshape(*diagonals.shape[:-1], *x.shape[1:])
    refuse_distributed(f)
    keep = torch.is_grad_enabled()
    v = draw_directions(projection, x, directions, generator)
    with torch.enable_grad():
        points = requires_grad_alias(x)
        copies = tile(points, directions), v.flatten(0, 1)
        slopes = derivative.jet(f, *copies, 1, *(tile(c, directions) for c in rows))[1]
        products = gradients_of_outputs(slopes, copies[0], keep)
        products = products.view(*v.shape[:2], *products.shape[1:])
        v = v.view(*v.shape[:2], *[1] * (slopes.ndim - 1), *x.shape[1:])
        estimate: Tensor = (v * products).mean(0)
        return estimate * (dimension(x) / projection.second_moment(x))


def divergence(
    s: Score,
    x: Tensor,
    *cond: Condition,
    directions: int | None = None,
    projection: Projection = SIGNS,
    generator: Generator | None = None,
    derivative: Derivative = EXACT,
    step: float = STEP,
    chunk: int | None = None,
) -> Tensor:
    r"""Return the divergence $∇·s = \sum_i ∂s_i / ∂x_i$ of a vector field at each row of `x`.

    The exact divergence is half the Laplacian of $s(x)^T (x - c)$ at $c = x$, which `Taylor`
    propagates as one sum for all coordinates.

    Reference:
        Grathwohl et al. (2019), https://arxiv.org/abs/1810.01367, for random directions.

    Args:
        s: A vector field `(B, *E) -> (B, *E)`, such as a score or a velocity.
        x: The points, shape `(B, *E)`.
        cond: Further arguments of `s`: tensors with one row per example, or numbers.
        directions: Number of random directions per example, for an unbiased estimate. Default:
            the exact divergence.
        projection: The distribution of random directions.
        generator: Random number generator. Default: the global generator of torch.
        derivative: The engine; see `laplacian`.
        step: The step of finite differences along coordinates.
        chunk: Number of coordinates at a time. Default: chosen by memory.

    Returns:
        The divergences, shape `(B,)`.

    Example:
        >>> divergence(lambda x: x.pow(3), torch.tensor([[1.0, 2.0]]))
        tensor([15.])
    """
    f, rows = prepare(s, x, cond, derivative, step)
    field = as_log_density(f)
    if directions is None and not nests_gradients(derivative):
        checked = checked_score(field)

        def product(x: Tensor, c: Tensor, *rows: Tensor) -> Tensor:
            return dot(checked(x, *rows), x - c)

        product.__wrapped__ = field  # type: ignore[attr-defined]
        doubled = laplacian(product, x, x, *rows, derivative=derivative, step=step, chunk=chunk)
        return doubled / 2

    def along(v: Tensor, x: Tensor, *rows: Tensor) -> Tensor:
        """Return the sum of $v^T ∇s v$ over directions."""
        n = len(v)
        copies = [tile(row, n) for row in rows]
        slopes = derivative.quadratic(field, tile(x, n), v.flatten(0, 1), *copies)[1]
        return slopes.view(n, -1).sum(0)

    if directions is not None:
        v = draw_directions(projection, x, directions, generator)
        return along(v, x, *rows) * (dimension(x) / (directions * projection.second_moment(x)))
    sums = sum_over_coordinates(along, field, x, *rows, step=step, chunk=chunk, nested=True)
    return sums / step**2
