"""Building blocks of the rules: constants as series, products, and linear functions."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from . import fourth_order, separate_directions
from .jet import Jet
from .registry import Rule
from .series import ClosedForm

Number = float | int
Operand = Tensor | Number
Dims = int | tuple[int, ...]


def value_of(x: Any) -> Any:
    """Return the value of a jet, and anything else unchanged."""
    return x.value if isinstance(x, Jet) else x


def as_jet(x: Operand, like: Jet) -> Jet:
    """Return a jet unchanged, and a constant as a jet of degree zero."""
    if isinstance(x, Jet):
        return x
    constant = x if isinstance(x, Tensor) else torch.tensor(x, dtype=like.dtype)
    return Jet(constant.to(like.device)[None], like.truncation)


def view(x: Jet, coefficients: Tensor) -> Jet:
    """Return a jet of coefficients that may share memory with those of `x`, and record it."""
    result = Jet(coefficients, x.truncation)
    x.share(result)
    return result


def without_value(x: Jet) -> Jet:
    """Return a series without its value. Its powers above the order are zero."""
    c = x.coefficients
    return Jet(torch.cat([torch.zeros_like(c[:1]), c[1:]]), x.truncation)


def widened(x: Jet, dtype: torch.dtype | None = None) -> Jet:
    """Return a jet in a given type, by default the type in which torch accumulates sums."""
    if dtype is None:
        dtype = torch.float32 if x.dtype in {torch.float16, torch.bfloat16} else x.dtype
    return x if x.dtype == dtype else Jet(x.coefficients.to(dtype), x.truncation)


def padded(x: Jet, rows: int) -> Jet:
    """Return a jet with zeros for the coefficients that were left out."""
    c = x.coefficients
    if len(c) == rows:
        return x
    return Jet(torch.cat([c, c.new_zeros(rows - len(c), *c.shape[1:])]), x.truncation)


def aligned(x: Jet, ndim: int) -> Jet:
    """Return a jet with leading dimensions of length one, so that it has at least `ndim`."""
    if x.ndim >= ndim:
        return x
    c = x.coefficients
    return Jet(c.reshape(len(c), *[1] * (ndim - x.ndim), *c.shape[1:]), x.truncation)


def match_operand(x: Jet, other: Operand) -> Jet:
    """Return a jet in the type of its product with `other`, with at least as many dimensions."""
    if not isinstance(other, Tensor):
        return x
    if x.dtype != other.dtype:
        dtype = torch.result_type(x.value, value_of(other))
        x = Jet(x.coefficients.to(dtype), x.truncation)
    return aligned(x, other.ndim)


def shift_dim(dim: int) -> int:
    """Return the dimension of the coefficients that corresponds to a dimension of the value."""
    return dim + 1 if dim >= 0 else dim


def dims_of(x: Tensor, dim: Dims | None) -> tuple[int, ...]:
    """Return dimensions as a tuple: all of them if none are given."""
    if dim is None or dim in ((), []):
        return tuple(range(x.ndim))
    return (dim,) if isinstance(dim, int) else tuple(dim)


def unpack_sizes(given: tuple[Any, ...]) -> tuple[int, ...]:
    """Return sizes that are given as separate arguments or as one sequence."""
    return tuple(given[0]) if len(given) == 1 and not hasattr(given[0], "__index__") else given


def bilinear(product: Callable[[Tensor, Tensor], Tensor], a: Jet, b: Jet) -> Jet:
    r"""Return the series of a product, $y_k = \sum_{i + j = k} a_i b_j$.

    Along one direction it takes one product for each $a_i$, with all $b_j$ that are needed.

    Args:
        product: Linear in each argument. Either or both arguments may have one more leading
            dimension, over which the product is repeated.
        a: The first factor.
        b: The second factor.

    Returns:
        The product.
    """
    truncation = a.truncation
    if b.degree == 0:
        return Jet(product(a.coefficients, b.value), truncation)
    if a.degree == 0:
        return Jet(product(a.value, b.coefficients), truncation)
    rows = truncation.rows(min(truncation.order, a.degree + b.degree))
    x, y = a.coefficients, b.coefficients
    if truncation.keeps_pairs:
        starts, parts = [0, 1], [product(x, y[0]), product(x[0], y[1:])]
        both = (fourth_order.blocks(c, truncation) for c in (x, y))
        for degree, part in fourth_order.mixed_products(product, *both):
            starts.append(truncation.block(degree).start)
            parts.append(part)
    elif truncation.orders:
        starts, parts = [0, 1], [product(x, y[0]), product(x[0], y[1:])]
        for degree, part in separate_directions.mixed_products(product, x, y, truncation):
            starts.append(truncation.block(degree).start)
            parts.append(part)
    elif truncation.directions == 1:
        starts = list(range(len(x)))
        parts = [product(c, y[: rows - i]) for i, c in enumerate(x)]
    else:
        starts, parts = [0, 1], [product(x, y[0]), product(x[0], y[1:])]
        if truncation.order == 2:
            starts.append(rows - 1)
            parts.append(product(a.part(1), b.part(1)).sum(0, keepdim=True))
    return Jet(_Staggered.apply(rows, starts, *parts), truncation)


class _Staggered(ClosedForm):
    """The sum of tensors that begin at different rows of the result, the first at row zero."""

    @staticmethod
    def forward(ctx: Any, rows: int, starts: list[int], *parts: Tensor) -> Tensor:
        ctx.blocks = [slice(i, i + len(part)) for i, part in zip(starts, parts, strict=True)]
        result = parts[0].new_zeros(rows, *parts[0].shape[1:])
        for block, part in zip(ctx.blocks, parts, strict=True):
            result[block].add_(part)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return (None, None, *(grad[block] for block in ctx.blocks))


def map_coefficients(function: Callable[..., Any]) -> Rule:
    """Return the rule of a linear function: apply it to each coefficient."""

    def applied(x: Jet, *args: Any, **kwargs: Any) -> Any:
        results = torch.vmap(lambda c: function(c, *args, **kwargs))(x.coefficients)
        if isinstance(results, Tensor):
            return Jet(results, x.truncation)
        return type(results)([Jet(result, x.truncation) for result in results])

    return applied


def stack_coefficients(*operands: Any) -> tuple[list[Tensor], Jet]:
    """Return the coefficients of jets and constants, padded to equal length, and one jet."""
    like = next(x for x in operands if isinstance(x, Jet))
    jets = [as_jet(x, like) for x in operands]
    rows = max(len(jet.coefficients) for jet in jets)
    return [padded(jet, rows).coefficients for jet in jets], like


def linear_in_both(function: Callable[..., Tensor], a: Tensor, b: Operand) -> Jet:
    """Return a function that is jointly linear in two arguments, such as a sum or a copy."""
    (first, second), like = stack_coefficients(a, b)
    results = [function(x, y) for x, y in zip(first, second.to(first.dtype), strict=True)]
    return Jet(torch.stack(results), like.truncation)


def as_batch(x: Jet, batched: bool) -> Tensor:
    """Return the coefficients as one batch, for functions of batches of images."""
    return x.coefficients.flatten(0, 1) if batched else x.coefficients


def from_batch(y: Tensor, x: Jet, batched: bool) -> Jet:
    """Return a batch of coefficients as a jet: the inverse of `as_batch`."""
    rows = len(x.coefficients)
    return Jet(y.view(rows, len(y) // rows, *y.shape[1:]) if batched else y, x.truncation)


def map_images(function: Callable[..., Tensor], dimensions: int) -> Rule:
    """Return the rule of a linear function of images with `dimensions` dimensions each."""

    def applied(x: Jet, *args: Any, **kwargs: Any) -> Jet:
        batched = x.ndim > dimensions
        return from_batch(function(as_batch(x, batched), *args, **kwargs), x, batched)

    return applied
