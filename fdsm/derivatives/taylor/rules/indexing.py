"""Functions that read or write some elements of a tensor."""

import operator
from collections.abc import Sequence
from types import EllipsisType
from typing import Any

import torch
from torch import Tensor

from ..algebra import (
    Operand,
    as_jet,
    linear_in_both,
    map_coefficients,
    padded,
    shift_dim,
    stack_coefficients,
    value_of,
    view,
)
from ..jet import Jet, assign_, plain_target_message
from ..registry import MissingRule, rule


@rule(Tensor.__getitem__)
def getitem(x: Jet, index: Any) -> Jet:
    """Return the elements at an index."""
    parts = [_as_integer(i) for i in (index if isinstance(index, tuple) else (index,))]
    plain = (slice, EllipsisType, type(None))
    advanced = [i for i in parts if not isinstance(i, plain)]
    several = len(advanced) > 1 and not all(isinstance(i, int) for i in advanced)
    if several or _is_nested(index):
        return Jet(torch.stack([c[index] for c in x.coefficients]), x.truncation)
    return view(x, x.coefficients[slice(None), *parts])


def _as_integer(index: Any) -> Any:
    """Return a part of an index, as an integer if torch treats it as one."""
    if getattr(index, "ndim", 0) or getattr(index, "dtype", None) in {torch.bool, torch.uint8}:
        return index
    if isinstance(index, bool):
        return index
    try:
        return operator.index(index)
    except TypeError:
        return index


def _is_nested(index: Any) -> bool:
    """Return whether an index is a list of sequences, which torch may treat as a tuple."""
    return isinstance(index, list) and any(hasattr(i, "__len__") for i in index)


@rule(Tensor.__setitem__)
def setitem(x: Tensor, index: Any, value: Operand) -> None:
    """Assign to the elements at an index.

    Raises:
        MissingRule: If a jet would be written into a plain tensor.
    """
    if not isinstance(x, Jet):
        instead = "`torch.cat`, `torch.stack` or `torch.where`"
        raise MissingRule(plain_target_message("x[…] = y", instead, x))
    part = as_jet(value, x)
    rows = max(len(x.coefficients), len(part.coefficients))
    c = padded(x, rows).coefficients.clone()
    source = padded(part, rows).coefficients.to(c.dtype)
    for k in range(rows):
        c[k][index] = source[k]
    assign_(x, Jet(c, x.truncation))


@rule(Tensor.copy_)
def copy_(target: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
    """Copy a tensor into another."""
    setitem(target, ..., source)
    return target


@rule("fill_")
def fill_(target: Tensor, value: Tensor | float) -> Tensor:
    """Fill a tensor with a value."""
    setitem(target, ..., value)
    return target


@rule("zero_")
def zero_(target: Jet) -> Tensor:
    """Fill a tensor with zeros."""
    return fill_(target, 0.0)


@rule("select")
def select(x: Jet, dim: int, index: int) -> Jet:
    """Return one slice along a dimension."""
    return view(x, x.coefficients.select(shift_dim(dim), index))


@rule("narrow")
def narrow(x: Jet, dim: int, start: int, length: int) -> Jet:
    """Return consecutive slices along a dimension."""
    return view(x, x.coefficients.narrow(shift_dim(dim), start, length))


@rule("index_select")
def index_select(x: Jet, dim: int, index: Tensor) -> Jet:
    """Return slices along a dimension by their indices."""
    c = x.coefficients
    if x.ndim == 0:
        return Jet(torch.stack([row.index_select(dim, index) for row in c]), x.truncation)
    dim %= x.ndim
    if dim == 0:
        return Jet(c.index_select(1, index), x.truncation)
    rows = c.flatten(0, 1).index_select(dim, index)  # several times faster in two dimensions
    return Jet(rows.unflatten(0, c.shape[:2]), x.truncation)  # type: ignore[no-untyped-call]


for _name in ("gather", "take_along_dim"):  # fmt: skip
    rule(_name)(map_coefficients(getattr(torch, _name)))


@rule("take")
def take(input: Jet, index: Tensor) -> Jet:
    """Return elements by their indices in the flattened tensor."""
    return Jet(input.coefficients.flatten(1)[:, index], input.truncation)


@rule("masked_select")
def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """Return the elements where a mask is true."""
    x, broadcast = torch.broadcast_tensors(input, mask)  # type: ignore[no-untyped-call]
    selected: Tensor = x[broadcast]
    return selected


@rule(torch.where)
def where(condition: Tensor, input: Tensor | float, other: Tensor | float) -> Jet:
    """Return `input` where a condition holds, and `other` elsewhere."""
    dtype = torch.result_type(value_of(input), value_of(other))
    (x, y), like = stack_coefficients(input, other)
    x, y = x.to(dtype), y.to(dtype)
    ndim = max(condition.ndim, x.ndim - 1, y.ndim - 1)
    x, y = (c.reshape(len(c), *[1] * (ndim + 1 - c.ndim), *c.shape[1:]) for c in (x, y))
    return Jet(torch.where(condition, x, y), like.truncation)


@rule(Tensor.where)
def where_method(input: Tensor, condition: Tensor, other: Tensor | float) -> Jet:
    """Return `input` where a condition holds, and `other` elsewhere, called as a method."""
    return where(condition, input, other)


@rule("masked_fill")
def masked_fill(input: Tensor, mask: Tensor, value: Tensor | float) -> Tensor:
    """Return a tensor with a value where a mask is true."""
    return where(mask, value.to(input.dtype) if isinstance(value, Tensor) else value, input)


@rule("index_add")
def index_add(
    input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: float = 1
) -> Tensor:
    """Add slices at some indices of a dimension."""
    return linear_in_both(lambda x, y: x.index_add(dim, index, y, alpha=alpha), input, source)


@rule("index_copy")
def index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """Replace the slices at some indices of a dimension."""
    return linear_in_both(lambda x, y: x.index_copy(dim, index, y), input, source)


@rule("index_fill")
def index_fill(input: Tensor, dim: int, index: Tensor, value: Tensor | float) -> Tensor:
    """Fill the slices at some indices of a dimension with a value."""
    return linear_in_both(lambda x, y: x.index_fill(dim, index, y), input, value)


@rule("index_put")
def index_put(
    input: Tensor, indices: Sequence[Tensor], values: Tensor, accumulate: bool = False
) -> Tensor:
    """Replace the elements at some indices, or add to them."""
    return linear_in_both(lambda x, y: x.index_put(tuple(indices), y, accumulate), input, values)


@rule("put")
def put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """Replace elements by their indices in the flattened tensor, or add to them."""
    return linear_in_both(lambda x, y: x.put(index, y, accumulate), input, source)


@rule("scatter")
def scatter(
    input: Tensor,
    dim: int,
    index: Tensor,
    src: Tensor | float | None = None,
    *,
    value: float = 0.0,
    reduce: str | None = None,
) -> Tensor:
    """Return a tensor with other elements at some indices along a dimension.

    Raises:
        MissingRule: If `reduce` is given.
    """
    if reduce is not None:
        raise MissingRule(
            f"Taylor has no rule for `torch.scatter` with reduce={reduce!r}: use `scatter_add`"
        )
    if not isinstance(src, Tensor):
        src = input.new_full(index.shape, value if src is None else src)
    return linear_in_both(lambda x, y: x.scatter(dim, index, y), input, src)


@rule("scatter_add")
def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """Add to elements at some indices along a dimension."""
    return linear_in_both(lambda x, y: x.scatter_add(dim, index, y), input, src)


@rule("masked_scatter")
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """Replace the elements where a mask is true by those of another tensor, in order."""
    return linear_in_both(lambda x, y: x.masked_scatter(mask, y), input, source)


@rule("select_scatter")
def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """Replace one slice along a dimension."""
    return linear_in_both(lambda x, y: x.select_scatter(y, dim, index), input, src)


@rule("slice_scatter")
def slice_scatter(input: Tensor, src: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Replace several slices along a dimension."""
    return linear_in_both(lambda x, y: x.slice_scatter(y, *args, **kwargs), input, src)


@rule("diagonal_scatter")
def diagonal_scatter(input: Tensor, src: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Replace a diagonal."""
    return linear_in_both(lambda x, y: x.diagonal_scatter(y, *args, **kwargs), input, src)
