"""Functions that change the shape of a tensor or the order of its elements."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..algebra import map_coefficients, shift_dim, unpack_sizes, view
from ..jet import Jet
from ..registry import MissingRule, Rule, rule


@rule("reshape", "view")
def reshape(x: Jet, *shape: Any, **kwargs: Any) -> Jet:
    """Return the same elements in another shape.

    Raises:
        MissingRule: If a type is given instead of a shape.
    """
    given = shape or tuple(kwargs.values())
    if isinstance(given[0], torch.dtype):
        raise MissingRule("Taylor cannot reinterpret the bits of a tensor: use `.to(dtype)`")
    c = x.coefficients
    return view(x, c.reshape(len(c), *unpack_sizes(given)))


@rule("view_as", "reshape_as")
def view_as(x: Tensor, other: Tensor) -> Tensor:
    """Return the same elements in the shape of another tensor."""
    return x.reshape(other.shape)


@rule("flatten")
def flatten(x: Jet, start_dim: int = 0, end_dim: int = -1) -> Jet:
    """Merge some dimensions into one."""
    if start_dim == 1 and x.factors is not None and x.factors[0].ndim == 2:
        return x
    if x.ndim == 0:
        return reshape(x, 1)
    return view(x, x.coefficients.flatten(start_dim % x.ndim + 1, end_dim % x.ndim + 1))


@rule("ravel")
def ravel(x: Tensor) -> Tensor:
    """Merge all dimensions into one."""
    return x.reshape(-1)


@rule("unflatten")
def unflatten(x: Jet, dim: int, sizes: Sequence[int]) -> Jet:
    """Split one dimension into several."""
    return view(x, x.coefficients.unflatten(shift_dim(dim), sizes))  # type: ignore[no-untyped-call]


@rule("squeeze")
def squeeze(x: Jet, dim: int | Sequence[int] | None = None) -> Tensor:
    """Remove all dimensions of length one, or some of them."""
    if dim is None:
        return x.reshape([n for n in x.shape if n != 1])
    dims = (dim,) if isinstance(dim, int) else dim
    return view(x, x.coefficients.squeeze(tuple(shift_dim(d) for d in dims)))


@rule("unsqueeze")
def unsqueeze(x: Jet, dim: int) -> Jet:
    """Insert a dimension of length one."""
    return view(x, x.coefficients.unsqueeze(shift_dim(dim)))


@rule("transpose", "swapdims")
def transpose(input: Jet, dim0: int, dim1: int) -> Jet:
    """Exchange two dimensions."""
    return view(input, input.coefficients.transpose(shift_dim(dim0), shift_dim(dim1)))


@rule("swapaxes")
def swapaxes(input: Jet, axis0: int, axis1: int) -> Jet:
    """Exchange two dimensions."""
    return transpose(input, axis0, axis1)


@rule("t", Tensor.T, Tensor.H)
def t(x: Tensor) -> Tensor:
    """Return the transpose of a matrix, or a vector unchanged.

    Raises:
        ValueError: If there are more than two dimensions.
    """
    if x.ndim > 2:
        raise ValueError(f"expected at most two dimensions, but got shape {tuple(x.shape)}")
    return x.transpose(0, 1) if x.ndim == 2 else x


@rule(Tensor.mT, Tensor.mH, "adjoint")
def matrix_transpose(x: Tensor) -> Tensor:
    """Transpose matrices."""
    return x.transpose(-2, -1)


@rule("permute")
def permute(x: Jet, *dims: Any, **kwargs: Any) -> Jet:
    """Reorder the dimensions."""
    order = unpack_sizes(dims or tuple(kwargs.values()))
    return view(x, x.coefficients.permute(0, *(d % x.ndim + 1 for d in order)))


@rule("expand", "broadcast_to")
def expand(x: Jet, *given: Any, **kwargs: Any) -> Jet:
    """Broadcast a tensor to a shape, without copying."""
    shape = unpack_sizes(given or tuple(kwargs.values()))
    c = x.coefficients
    c = c.reshape(len(c), *[1] * (len(shape) - x.ndim), *x.shape)
    return view(x, c.expand(-1, *shape))


@rule("expand_as")
def expand_as(x: Tensor, other: Tensor) -> Tensor:
    """Broadcast a tensor to the shape of another."""
    return x.expand(other.shape)


@rule("repeat", "tile")
def repeat(x: Jet, *repeats: Any, **kwargs: Any) -> Jet:
    """Repeat a tensor along its dimensions."""
    times = unpack_sizes(repeats or tuple(kwargs.values()))
    c = x.coefficients
    c = c.reshape(len(c), *[1] * (len(times) - x.ndim), *x.shape)
    return Jet(c.repeat(1, *[1] * (x.ndim - len(times)), *times), x.truncation)


@rule("repeat_interleave")
def repeat_interleave(
    input: Jet, repeats: Tensor | int, dim: int | None = None, *, output_size: int | None = None
) -> Jet:
    """Repeat each slice along a dimension."""
    c = input.coefficients if dim is not None else input.coefficients.flatten(1)
    c = c.repeat_interleave(repeats, shift_dim(dim or 0), output_size=output_size)
    return Jet(c, input.truncation)


@rule("movedim", "moveaxis")
def movedim(input: Jet, source: int | Sequence[int], destination: int | Sequence[int]) -> Jet:
    """Move some dimensions to other positions."""
    positions = [
        [d % input.ndim + 1 for d in ((dims,) if isinstance(dims, int) else dims)]
        for dims in (source, destination)
    ]
    return view(input, input.coefficients.movedim(*positions))


for _name in (
    "diag", "diag_embed", "fliplr", "flipud", "roll", "rot90", "tril", "triu",
):  # fmt: skip
    rule(_name)(map_coefficients(getattr(torch, _name)))


@rule("flip")
def flip(input: Jet, *dims: Any, **kwargs: Any) -> Jet:
    """Reverse the order of elements along some dimensions."""
    flipped = [shift_dim(dim) for dim in unpack_sizes(dims or tuple(kwargs.values()))]
    return Jet(input.coefficients.flip(flipped), input.truncation)


@rule(Tensor.__reversed__)
def reversed_(x: Tensor) -> Tensor:
    """Reverse the order of elements along the first dimension."""
    return x.flip(0) if x.ndim else x


@rule("diagonal")
def diagonal(input: Jet, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Jet:
    """Return diagonals, of the first two dimensions by default."""
    return view(input, input.coefficients.diagonal(offset, shift_dim(dim1), shift_dim(dim2)))


@rule(torch.linalg.diagonal)
def last_diagonal(A: Jet, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Jet:
    """Return diagonals, of the last two dimensions by default."""
    return diagonal(A, offset, dim1, dim2)


@rule(Tensor.unfold)
def windows(input: Jet, dimension: int, size: int, step: int) -> Jet:
    """Return all windows of a size along a dimension."""
    return view(input, input.coefficients.unfold(dimension % input.ndim + 1, size, step))


def _reshaping_in_place(out_of_place: Rule) -> Rule:
    """Return the rule of a function that changes the shape in place and leaves views alone."""

    def applied(target: Jet, *args: Any, **kwargs: Any) -> Jet:
        target.coefficients = out_of_place(target, *args, **kwargs).coefficients
        return target

    return applied


rule("t_")(_reshaping_in_place(t))
rule("transpose_", "swapdims_")(_reshaping_in_place(transpose))
rule("swapaxes_")(_reshaping_in_place(swapaxes))
rule("squeeze_")(_reshaping_in_place(squeeze))
rule("unsqueeze_")(_reshaping_in_place(unsqueeze))
