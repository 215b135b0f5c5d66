"""Functions that join tensors or split them."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import _VF, Tensor
from torch.nn import functional

from ..algebra import shift_dim, stack_coefficients, view
from ..jet import Jet
from ..registry import Rule, rule


@rule("cat", "concat", "concatenate")
def cat(tensors: Sequence[Tensor], dim: int = 0) -> Jet:
    """Concatenate tensors along a dimension. Tensors of shape `(0,)` are ignored."""
    coefficients, like = stack_coefficients(*(x for x in tensors if x.shape != (0,)))
    return Jet(torch.cat(coefficients, shift_dim(dim)), like.truncation)


@rule("stack")
def stack(tensors: Sequence[Tensor], dim: int = 0) -> Jet:
    """Stack tensors along a new dimension."""
    coefficients, like = stack_coefficients(*tensors)
    return Jet(torch.stack(coefficients, shift_dim(dim)), like.truncation)


def _unpack_tensors(tensors: tuple[Any, ...]) -> tuple[Tensor, ...]:
    """Return tensors that are given as separate arguments or as one sequence."""
    return tensors if isinstance(tensors[0], Tensor) else tuple(tensors[0])


def _atleast(x: Tensor, ndim: int) -> Tensor:
    """Return a tensor with at least `ndim` dimensions, as torch pads them."""
    if x.ndim >= ndim:
        return x
    if ndim == 3 and x.ndim:
        x = x.unsqueeze(-1)
    return x.reshape([1] * (ndim - x.ndim) + list(x.shape))


def _with_dimensions(ndim: int) -> Rule:
    """Return the rule of `atleast_1d`, `atleast_2d` or `atleast_3d`."""

    def applied(*tensors: Any) -> Any:
        results = tuple(_atleast(x, ndim) for x in _unpack_tensors(tensors))
        return results[0] if len(tensors) == 1 and isinstance(tensors[0], Tensor) else results

    return applied


for _n in (1, 2, 3):
    rule(f"atleast_{_n}d", getattr(_VF, f"atleast_{_n}d"))(_with_dimensions(_n))


@rule("vstack", "row_stack")
def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """Concatenate tensors along the first dimension, vectors as rows."""
    return torch.cat([_atleast(x, 2) for x in tensors])


@rule("hstack")
def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """Concatenate tensors along the second dimension, vectors along the only one."""
    whole = [_atleast(x, 1) for x in tensors]
    return torch.cat(whole, min(1, whole[0].ndim - 1))


@rule("dstack")
def dstack(tensors: Sequence[Tensor]) -> Tensor:
    """Concatenate tensors along the third dimension."""
    return torch.cat([_atleast(x, 3) for x in tensors], 2)


@rule("column_stack")
def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    """Concatenate tensors along the second dimension, vectors as columns."""
    return torch.cat([x if x.ndim > 1 else x.reshape(-1, 1) for x in tensors], 1)


@rule("block_diag")
def block_diag(*tensors: Tensor) -> Tensor:
    """Return a block-diagonal matrix."""
    blocks = [_atleast(x, 2) for x in tensors]
    width, before, rows = sum(x.shape[1] for x in blocks), 0, []
    for x in blocks:
        rows.append(functional.pad(x, (before, width - before - x.shape[1])))
        before += x.shape[1]
    return torch.cat(rows)


@rule("meshgrid", _VF.meshgrid)  # type: ignore[attr-defined]
def meshgrid(*tensors: Any, indexing: str | None = None) -> tuple[Tensor, ...]:
    """Return the coordinates of a grid."""
    vectors = [x.reshape(-1) for x in _unpack_tensors(tensors)]
    if indexing == "xy" and len(vectors) > 1:
        second, first, *others = meshgrid(vectors[1], vectors[0], *vectors[2:])
        return first, second, *others
    grid, n = [len(x) for x in vectors], len(vectors)
    shapes = [[1] * i + [-1] + [1] * (n - 1 - i) for i in range(n)]
    return tuple(x.reshape(s).expand(grid) for x, s in zip(vectors, shapes, strict=True))


@rule("broadcast_tensors")
def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]:
    """Broadcast tensors to a common shape."""
    operands = _unpack_tensors(tensors)
    shape = torch.broadcast_shapes(*(x.shape for x in operands))  # type: ignore[no-untyped-call]
    return tuple(x.expand(shape) for x in operands)


def _splitting(function: Callable[..., Any]) -> Rule:
    """Return the rule of a function that splits a tensor along a dimension."""

    def applied(x: Jet, *args: Any, dim: int = 0, **kwargs: Any) -> tuple[Jet, ...]:
        sizes, *rest = *args, *kwargs.values()
        pieces = function(x.coefficients, sizes, shift_dim(*rest or (dim,)))
        return tuple(view(x, piece) for piece in pieces)

    return applied


for _name in ("chunk", "split", "tensor_split"):
    rule(_name)(_splitting(getattr(torch, _name)))
rule("unsafe_chunk")(_splitting(torch.chunk))
rule("unsafe_split", "split_with_sizes", "unsafe_split_with_sizes")(_splitting(torch.split))


@rule("hsplit")
def hsplit(x: Tensor, sections: Any) -> tuple[Tensor, ...]:
    """Split along the second dimension, or the only one."""
    return torch.tensor_split(x, sections, dim=min(1, x.ndim - 1))


@rule("vsplit")
def vsplit(x: Tensor, sections: Any) -> tuple[Tensor, ...]:
    """Split along the first dimension."""
    return torch.tensor_split(x, sections, dim=0)


@rule("dsplit")
def dsplit(x: Tensor, sections: Any) -> tuple[Tensor, ...]:
    """Split along the third dimension."""
    return torch.tensor_split(x, sections, dim=2)


@rule("unbind")
def unbind(x: Jet, dim: int = 0) -> tuple[Jet, ...]:
    """Return the slices along a dimension as a tuple."""
    return tuple(view(x, piece) for piece in x.coefficients.unbind(shift_dim(dim)))
