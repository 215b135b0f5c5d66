"""Rules of functions that rearrange elements."""

from collections.abc import Callable, Sequence
from types import EllipsisType
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from .jet import Jet, MissingRule, Rule, replace, rule
from .products import lifted


def view(x: Jet, coefficients: Tensor) -> Jet:
    """Return a jet that may share memory with `x`, and remember that it does."""
    result = Jet(coefficients, x.truncation)
    result.shared = x.shared = True
    return result


def beside(dim: int) -> int:
    """Return where a dimension of the value is among those of the coefficients."""
    return dim + 1 if dim >= 0 else dim


def _sizes(sizes: tuple[Any, ...]) -> tuple[int, ...]:
    """Return sizes that may be given one by one or together."""
    return tuple(sizes[0]) if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes


@rule("reshape", "view")
def reshape(x: Jet, *shape: Any, **kwargs: Any) -> Jet:
    """Return the same elements in another shape.

    Raises:
        MissingRule: If another type is asked for, rather than another shape.
    """
    sizes = shape or tuple(kwargs.values())
    if isinstance(sizes[0], torch.dtype):
        raise MissingRule("Taylor cannot take the bits of a number for another: use `.to(dtype)`")
    c = x.coefficients
    return view(x, c.reshape(len(c), *_sizes(sizes)))


@rule("view_as", "reshape_as")
def view_as(x: Tensor, other: Tensor) -> Tensor:
    """Return the same elements in the shape of another tensor."""
    return x.reshape(other.shape)


@rule("flatten")
def flatten(x: Jet, start_dim: int = 0, end_dim: int = -1) -> Jet:
    """Return some dimensions as one."""
    if x.ndim == 0:
        return reshape(x, 1)
    return view(x, x.coefficients.flatten(start_dim % x.ndim + 1, end_dim % x.ndim + 1))


@rule("ravel")
def ravel(x: Tensor) -> Tensor:
    """Return all dimensions as one."""
    return x.reshape(-1)


@rule("unflatten")
def unflatten(x: Jet, dim: int, sizes: Sequence[int]) -> Jet:
    """Return one dimension as several."""
    return view(x, x.coefficients.unflatten(beside(dim), sizes))  # type: ignore[no-untyped-call]


@rule("squeeze")
def squeeze(x: Jet, dim: int | Sequence[int] | None = None) -> Tensor:
    """Return a tensor without the dimensions of length one, or without some of them."""
    if dim is None:
        return x.reshape([n for n in x.shape if n != 1])
    dims = (dim,) if isinstance(dim, int) else dim
    return view(x, x.coefficients.squeeze(tuple(beside(d) for d in dims)))


@rule("unsqueeze")
def unsqueeze(x: Jet, dim: int) -> Jet:
    """Return a tensor with one more dimension, of length one."""
    return view(x, x.coefficients.unsqueeze(beside(dim)))


@rule("transpose", "swapaxes", "swapdims")
def transpose(x: Jet, dim0: int, dim1: int) -> Jet:
    """Return a tensor with two dimensions exchanged."""
    return view(x, x.coefficients.transpose(beside(dim0), beside(dim1)))


@rule("t", Tensor.T)
def t(x: Tensor) -> Tensor:
    """Return a matrix transposed, or a vector as it is."""
    return x.transpose(0, 1) if x.ndim == 2 else x


@rule(Tensor.mT, Tensor.mH, "adjoint")
def matrix_transpose(x: Tensor) -> Tensor:
    """Return matrices transposed."""
    return x.transpose(-2, -1)


@rule("permute")
def permute(x: Jet, *dims: Any, **kwargs: Any) -> Jet:
    """Return a tensor with its dimensions in another order."""
    order = _sizes(dims or tuple(kwargs.values()))
    return view(x, x.coefficients.permute(0, *(d % x.ndim + 1 for d in order)))


@rule("expand", "broadcast_to")
def expand(x: Jet, *sizes: Any) -> Jet:
    """Return a tensor repeated without copies."""
    shape = _sizes(sizes)
    c = x.coefficients
    c = c.reshape(len(c), *[1] * (len(shape) - x.ndim), *x.shape)
    return view(x, c.expand(-1, *shape))


@rule("expand_as")
def expand_as(x: Tensor, other: Tensor) -> Tensor:
    """Return a tensor repeated to the shape of another."""
    return x.expand(other.shape)


@rule("broadcast_tensors")
def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]:
    """Return tensors repeated to a common shape."""
    operands = tensors if isinstance(tensors[0], Tensor) else tuple(tensors[0])
    shape = torch.broadcast_shapes(*(x.shape for x in operands))  # type: ignore[no-untyped-call]
    return tuple(x.expand(shape) for x in operands)


@rule("repeat", "tile")
def repeat(x: Jet, *repeats: Any) -> Jet:
    """Return copies of a tensor, one after the other."""
    times = _sizes(repeats)
    c = x.coefficients
    c = c.reshape(len(c), *[1] * (len(times) - x.ndim), *x.shape)
    return Jet(c.repeat(1, *[1] * (x.ndim - len(times)), *times), x.truncation)


def _pieces(function: Callable[..., Any]) -> Rule:
    """Return the rule of a function of a jet, something and a dimension, the first by default."""

    def applied(x: Jet, what: Any, dim: int = 0) -> tuple[Jet, ...]:
        return tuple(view(x, piece) for piece in function(x.coefficients, what, beside(dim)))

    return applied


for _name in ("chunk", "split", "tensor_split"):
    rule(_name)(_pieces(getattr(torch, _name)))
rule(Tensor.split_with_sizes)(_pieces(torch.split))


@rule("unbind")
def unbind(x: Jet, dim: int = 0) -> tuple[Jet, ...]:
    """Return the slices along a dimension."""
    return tuple(view(x, piece) for piece in x.coefficients.unbind(beside(dim)))


@rule("select")
def select(x: Jet, dim: int, index: int) -> Jet:
    """Return one slice along a dimension."""
    return view(x, x.coefficients.select(beside(dim), index))


@rule("narrow")
def narrow(x: Jet, dim: int, start: int, length: int) -> Jet:
    """Return some slices along a dimension."""
    return view(x, x.coefficients.narrow(beside(dim), start, length))


@rule("index_select")
def index_select(x: Jet, dim: int, index: Tensor) -> Jet:
    """Return slices along a dimension by their places."""
    return Jet(x.coefficients.index_select(beside(dim), index), x.truncation)


@rule(Tensor.__getitem__)
def getitem(x: Jet, index: Any) -> Jet:
    """Return a part of a tensor."""
    places = index if isinstance(index, tuple) else (index,)
    advanced = sum(not isinstance(i, (int, slice, EllipsisType, type(None))) for i in places)
    if advanced and sum(not isinstance(i, (slice, EllipsisType, type(None))) for i in places) > 1:
        return Jet(torch.vmap(lambda c: c[index])(x.coefficients), x.truncation)
    return view(x, x.coefficients[slice(None), *places])


@rule(Tensor.__setitem__)
def setitem(x: Tensor, index: Any, what: Tensor | float) -> None:
    """Change a part of a tensor.

    Raises:
        MissingRule: If a plain tensor would have to hold derivatives.
    """
    if not isinstance(x, Jet):
        raise MissingRule(
            "derivatives would be written into a plain tensor, which cannot hold them: make the "
            "tensor from the input of the model, e.g. with `torch.zeros_like`, or use "
            "`torch.cat`, `torch.stack` or `torch.where`"
        )
    part = lifted(what, x)
    rows = max(len(x.coefficients), len(part.coefficients))
    c = padded(x, rows).coefficients.clone()
    places = index if isinstance(index, tuple) else (index,)
    for target, source in zip(c, padded(part, rows).coefficients, strict=True):
        target[places] = source.to(c.dtype)
    replace(x, Jet(c, x.truncation))


def padded(x: Jet, rows: int) -> Jet:
    """Return a jet with zeros for coefficients that are left out."""
    c = x.coefficients
    if len(c) == rows:
        return x
    return Jet(torch.cat([c, c.new_zeros(rows - len(c), *c.shape[1:])]), x.truncation)


def together(*operands: Any) -> tuple[list[Tensor], Jet]:
    """Return the coefficients of jets and constants, equally many of each, and one of the jets."""
    like = next(x for x in operands if isinstance(x, Jet))
    jets = [lifted(x, like) for x in operands]
    rows = max(len(jet.coefficients) for jet in jets)
    return [padded(jet, rows).coefficients for jet in jets], like


@rule("cat", "concat", "concatenate")
def cat(tensors: Sequence[Tensor], dim: int = 0, *, axis: int | None = None) -> Jet:
    """Return tensors one after the other."""
    coefficients, like = together(*tensors)
    return Jet(torch.cat(coefficients, beside(dim if axis is None else axis)), like.truncation)


@rule("stack")
def stack(tensors: Sequence[Tensor], dim: int = 0) -> Jet:
    """Return tensors along a new dimension."""
    coefficients, like = together(*tensors)
    return Jet(torch.stack(coefficients, beside(dim)), like.truncation)


@rule(torch.where)
def where(condition: Tensor, a: Tensor | float, b: Tensor | float) -> Jet:
    """Return one tensor where a condition holds, and another elsewhere."""
    (x, y), like = together(a, b)
    ndim = max(condition.ndim, x.ndim - 1, y.ndim - 1)
    x, y = (c.reshape(len(c), *[1] * (ndim + 1 - c.ndim), *c.shape[1:]) for c in (x, y))
    return Jet(torch.where(condition, x, y), like.truncation)


@rule(Tensor.where)
def where_method(a: Tensor, condition: Tensor, b: Tensor | float) -> Jet:
    """Return one tensor where a condition holds, and another elsewhere, as a method."""
    return where(condition, a, b)


@rule("masked_fill")
def masked_fill(x: Tensor, mask: Tensor, value: Tensor | float) -> Tensor:
    """Return a tensor with another value where a mask is set."""
    return torch.where(mask, value, x)


@rule(functional.pad)
def pad(x: Jet, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """Return a tensor with a border."""
    if mode != "constant":
        return Jet(
            torch.vmap(lambda c: functional.pad(c, pad, mode))(x.coefficients), x.truncation
        )
    result = Jet(functional.pad(x.coefficients, pad), x.truncation)
    if not value:
        return result
    return result + functional.pad(torch.zeros_like(x.value.detach()), pad, value=value)
