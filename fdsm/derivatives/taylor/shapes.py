"""Rules of functions that rearrange elements."""

import operator
from collections.abc import Callable, Sequence
from types import EllipsisType
from typing import Any

import torch
from torch import _VF, Tensor
from torch.nn import functional

from .jet import Jet, MissingRule, Rule, replace, rule
from .products import lifted, value_of

Dims = int | tuple[int, ...]


def view(x: Jet, coefficients: Tensor) -> Jet:
    """Return a jet that may share memory with `x`, and remember that it does."""
    result = Jet(coefficients, x.truncation)
    x.share(result)
    return result


def beside(dim: int) -> int:
    """Return where a dimension of the value is among those of the coefficients."""
    return dim + 1 if dim >= 0 else dim


def dims_of(x: Tensor, dim: Dims | None) -> tuple[int, ...]:
    """Return dimensions, all if none are given."""
    if dim is None or dim in ((), []):
        return tuple(range(x.ndim))
    return (dim,) if isinstance(dim, int) else tuple(dim)


def sizes(given: tuple[Any, ...]) -> tuple[int, ...]:
    """Return sizes that may be given one by one or together."""
    return tuple(given[0]) if len(given) == 1 and not hasattr(given[0], "__index__") else given


@rule("reshape", "view")
def reshape(x: Jet, *shape: Any, **kwargs: Any) -> Jet:
    """Return the same elements in another shape.

    Raises:
        MissingRule: If another type is asked for, rather than another shape.
    """
    given = shape or tuple(kwargs.values())
    if isinstance(given[0], torch.dtype):
        raise MissingRule("Taylor cannot take the bits of a number for another: use `.to(dtype)`")
    c = x.coefficients
    return view(x, c.reshape(len(c), *sizes(given)))


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


@rule("transpose", "swapdims")
def transpose(input: Jet, dim0: int, dim1: int) -> Jet:
    """Return a tensor with two dimensions exchanged."""
    return view(input, input.coefficients.transpose(beside(dim0), beside(dim1)))


@rule("swapaxes")
def swapaxes(input: Jet, axis0: int, axis1: int) -> Jet:
    """Return a tensor with two dimensions exchanged."""
    return transpose(input, axis0, axis1)


@rule("t", Tensor.T, Tensor.H)
def t(x: Tensor) -> Tensor:
    """Return a matrix transposed, or a vector as it is.

    Raises:
        ValueError: If there are more dimensions.
    """
    if x.ndim > 2:
        raise ValueError(f"a matrix has two dimensions, and cannot have the shape {x.shape}")
    return x.transpose(0, 1) if x.ndim == 2 else x


@rule(Tensor.mT, Tensor.mH, "adjoint")
def matrix_transpose(x: Tensor) -> Tensor:
    """Return matrices transposed."""
    return x.transpose(-2, -1)


@rule("permute")
def permute(x: Jet, *dims: Any, **kwargs: Any) -> Jet:
    """Return a tensor with its dimensions in another order."""
    order = sizes(dims or tuple(kwargs.values()))
    return view(x, x.coefficients.permute(0, *(d % x.ndim + 1 for d in order)))


@rule("expand", "broadcast_to")
def expand(x: Jet, *given: Any, **kwargs: Any) -> Jet:
    """Return a tensor repeated without copies."""
    shape = sizes(given or tuple(kwargs.values()))
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
    operands = _all_of(tensors)
    shape = torch.broadcast_shapes(*(x.shape for x in operands))  # type: ignore[no-untyped-call]
    return tuple(x.expand(shape) for x in operands)


@rule("repeat", "tile")
def repeat(x: Jet, *repeats: Any, **kwargs: Any) -> Jet:
    """Return copies of a tensor, one after the other."""
    times = sizes(repeats or tuple(kwargs.values()))
    c = x.coefficients
    c = c.reshape(len(c), *[1] * (len(times) - x.ndim), *x.shape)
    return Jet(c.repeat(1, *[1] * (x.ndim - len(times)), *times), x.truncation)


def _pieces(function: Callable[..., Any]) -> Rule:
    """Return the rule of a function of a jet, something and a dimension, the first by default."""

    def applied(x: Jet, *what: Any, dim: int = 0, **kwargs: Any) -> tuple[Jet, ...]:
        first, *rest = *what, *kwargs.values()
        pieces = function(x.coefficients, first, beside(*rest or (dim,)))
        return tuple(view(x, piece) for piece in pieces)

    return applied


for _name in ("chunk", "split", "tensor_split"):
    rule(_name)(_pieces(getattr(torch, _name)))
rule("unsafe_chunk")(_pieces(torch.chunk))
rule("unsafe_split", "split_with_sizes", "unsafe_split_with_sizes")(_pieces(torch.split))


@rule("hsplit")
def hsplit(x: Tensor, what: Any) -> tuple[Tensor, ...]:
    """Return pieces along the second dimension, or the only one."""
    return torch.tensor_split(x, what, dim=min(1, x.ndim - 1))


@rule("vsplit")
def vsplit(x: Tensor, what: Any) -> tuple[Tensor, ...]:
    """Return pieces along the first dimension."""
    return torch.tensor_split(x, what, dim=0)


@rule("dsplit")
def dsplit(x: Tensor, what: Any) -> tuple[Tensor, ...]:
    """Return pieces along the third dimension."""
    return torch.tensor_split(x, what, dim=2)


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
    c = x.coefficients
    if x.ndim == 0:
        return Jet(torch.stack([row.index_select(dim, index) for row in c]), x.truncation)
    dim %= x.ndim
    if dim == 0:
        return Jet(c.index_select(1, index), x.truncation)
    rows = c.flatten(0, 1).index_select(dim, index)  # several times faster in two dimensions
    return Jet(rows.unflatten(0, c.shape[:2]), x.truncation)  # type: ignore[no-untyped-call]


@rule(Tensor.__getitem__)
def getitem(x: Jet, index: Any) -> Jet:
    """Return a part of a tensor."""
    places = [_number(i) for i in (index if isinstance(index, tuple) else (index,))]
    plain = (slice, EllipsisType, type(None))
    advanced = [i for i in places if not isinstance(i, plain)]
    several = len(advanced) > 1 and not all(isinstance(i, int) for i in advanced)
    if several or _is_nested(index):
        return Jet(torch.stack([c[index] for c in x.coefficients]), x.truncation)
    return view(x, x.coefficients[slice(None), *places])


def _number(index: Any) -> Any:
    """Return a part of an index, as an integer if torch takes it for one."""
    if getattr(index, "ndim", 0) or getattr(index, "dtype", None) in {torch.bool, torch.uint8}:
        return index
    if isinstance(index, bool):
        return index
    try:
        return operator.index(index)
    except TypeError:
        return index


def _is_nested(index: Any) -> bool:
    """Return whether an index is a list of sequences, which torch may take for a tuple."""
    return isinstance(index, list) and any(hasattr(i, "__len__") for i in index)


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
    source = padded(part, rows).coefficients.to(c.dtype)
    for k in range(rows):
        c[k][index] = source[k]
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
def cat(tensors: Sequence[Tensor], dim: int = 0) -> Jet:
    """Return tensors one after the other; those of shape `(0,)` are left out."""
    coefficients, like = together(*(x for x in tensors if x.shape != (0,)))
    return Jet(torch.cat(coefficients, beside(dim)), like.truncation)


@rule("stack")
def stack(tensors: Sequence[Tensor], dim: int = 0) -> Jet:
    """Return tensors along a new dimension."""
    coefficients, like = together(*tensors)
    return Jet(torch.stack(coefficients, beside(dim)), like.truncation)


def _all_of(tensors: tuple[Any, ...]) -> tuple[Tensor, ...]:
    """Return tensors that may be given one by one or together."""
    return tensors if isinstance(tensors[0], Tensor) else tuple(tensors[0])


def _atleast(x: Tensor, ndim: int) -> Tensor:
    """Return a tensor with ones before its shape; a matrix in space has one after it."""
    if x.ndim >= ndim:
        return x
    if ndim == 3 and x.ndim:
        x = x.unsqueeze(-1)
    return x.reshape([1] * (ndim - x.ndim) + list(x.shape))


def _with_dimensions(ndim: int) -> Rule:
    def applied(*tensors: Any) -> Any:
        results = tuple(_atleast(x, ndim) for x in _all_of(tensors))
        return results[0] if len(tensors) == 1 and isinstance(tensors[0], Tensor) else results

    return applied


for _n in (1, 2, 3):
    rule(f"atleast_{_n}d", getattr(_VF, f"atleast_{_n}d"))(_with_dimensions(_n))


@rule("vstack", "row_stack")
def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """Return tensors one after the other along the first of two dimensions or more."""
    return torch.cat([_atleast(x, 2) for x in tensors])


@rule("hstack")
def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """Return tensors one after the other along the second dimension, or the only one."""
    whole = [_atleast(x, 1) for x in tensors]
    return torch.cat(whole, min(1, whole[0].ndim - 1))


@rule("dstack")
def dstack(tensors: Sequence[Tensor]) -> Tensor:
    """Return tensors one after the other along the third dimension."""
    return torch.cat([_atleast(x, 3) for x in tensors], 2)


@rule("column_stack")
def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    """Return tensors one after the other along the second dimension, vectors as columns."""
    return torch.cat([x if x.ndim > 1 else x.reshape(-1, 1) for x in tensors], 1)


@rule("block_diag")
def block_diag(*tensors: Tensor) -> Tensor:
    """Return matrices along the diagonal of one, with zeros around."""
    blocks = [_atleast(x, 2) for x in tensors]
    width, before, rows = sum(x.shape[1] for x in blocks), 0, []
    for x in blocks:
        rows.append(functional.pad(x, (before, width - before - x.shape[1])))
        before += x.shape[1]
    return torch.cat(rows)


@rule("meshgrid", _VF.meshgrid)  # type: ignore[attr-defined]
def meshgrid(*tensors: Any, indexing: str | None = None) -> tuple[Tensor, ...]:
    """Return the coordinates of a grid, the first of them along the first dimension."""
    vectors = [x.reshape(-1) for x in _all_of(tensors)]
    if indexing == "xy" and len(vectors) > 1:
        second, first, *others = meshgrid(vectors[1], vectors[0], *vectors[2:])
        return first, second, *others
    grid, n = [len(x) for x in vectors], len(vectors)
    shapes = [[1] * i + [-1] + [1] * (n - 1 - i) for i in range(n)]
    return tuple(x.reshape(s).expand(grid) for x, s in zip(vectors, shapes, strict=True))


@rule(torch.where)
def where(condition: Tensor, input: Tensor | float, other: Tensor | float) -> Jet:
    """Return one tensor where a condition holds, and another elsewhere."""
    dtype = torch.result_type(value_of(input), value_of(other))
    (x, y), like = together(input, other)
    x, y = x.to(dtype), y.to(dtype)
    ndim = max(condition.ndim, x.ndim - 1, y.ndim - 1)
    x, y = (c.reshape(len(c), *[1] * (ndim + 1 - c.ndim), *c.shape[1:]) for c in (x, y))
    return Jet(torch.where(condition, x, y), like.truncation)


@rule(Tensor.where)
def where_method(input: Tensor, condition: Tensor, other: Tensor | float) -> Jet:
    """Return one tensor where a condition holds, and another elsewhere, as a method."""
    return where(condition, input, other)


@rule("masked_fill")
def masked_fill(input: Tensor, mask: Tensor, value: Tensor | float) -> Tensor:
    """Return a tensor with another value where a mask is set."""
    return where(mask, value.to(input.dtype) if isinstance(value, Tensor) else value, input)


@rule(Tensor.copy_)
def copy_(target: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
    """Change a tensor to another."""
    setitem(target, ..., source)
    return target


@rule("fill_")
def fill_(target: Tensor, value: Tensor | float) -> Tensor:
    """Change all elements of a tensor."""
    setitem(target, ..., value)
    return target


@rule("zero_")
def zero_(target: Jet) -> Tensor:
    """Change all elements of a tensor to zero."""
    return fill_(target, 0.0)


def _rearranging(pure: Rule) -> Rule:
    """Return the rule of what changes the shape of a tensor in place, and leaves its views."""

    def applied(target: Jet, *args: Any, **kwargs: Any) -> Jet:
        target.coefficients = pure(target, *args, **kwargs).coefficients
        return target

    return applied


rule("t_")(_rearranging(t))
rule("transpose_", "swapdims_")(_rearranging(transpose))
rule("swapaxes_")(_rearranging(swapaxes))
rule("squeeze_")(_rearranging(squeeze))
rule("unsqueeze_")(_rearranging(unsqueeze))


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
