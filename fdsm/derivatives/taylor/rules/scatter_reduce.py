"""Reductions over groups of elements that are given by indices or lengths."""

from collections.abc import Callable

import torch
from torch import Tensor

from ..algebra import value_of
from ..registry import MissingRule, rule
from .piecewise import warn_kink


@rule("scatter_reduce")
def scatter_reduce(
    input: Tensor,
    dim: int,
    index: Tensor,
    src: Tensor,
    reduce: str,
    *,
    include_self: bool = True,
) -> Tensor:
    """Return a tensor with elements replaced by reductions of those that are sent to them.

    Args:
        input: The tensor.
        dim: The dimension of the indices.
        index: For each element of `src`, the index to which it is sent.
        src: The elements.
        reduce: "sum", "mean", "prod", "amax" or "amin".
        include_self: Whether the elements of `input` are part of the reductions.

    Returns:
        The tensor.

    Raises:
        MissingRule: For another name of a reduction.
    """
    if reduce not in _REDUCTIONS:
        raise MissingRule(f"Taylor has no rule for `torch.scatter_reduce` with {reduce!r}")
    src = src[tuple(slice(n) for n in index.shape)]
    received = torch.zeros(input.shape, dtype=torch.bool, device=input.device)
    received = received.scatter(dim, index, True)
    kept = torch.ones_like(received) if include_self else ~received
    return _REDUCTIONS[reduce](input, kept, dim, index, src)


def _total(input: Tensor, kept: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """Return sums, with the elements of `input` that are kept."""
    return torch.where(kept, input, 0).scatter_add(dim, index, src)


def _mean(input: Tensor, kept: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """Return means, with the elements of `input` that are kept."""
    ones = torch.ones(index.shape, dtype=input.dtype, device=input.device)
    count = kept.to(input.dtype).scatter_add(dim, index, ones)
    return _total(input, kept, dim, index, src) / count


def _product(input: Tensor, kept: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """Return products, with the elements of `input` that are kept. Elements may be zero."""
    result, rank = torch.where(kept, input, 1), _ranks(dim, index)
    for r in range(int(rank.max()) + 1 if rank.numel() else 0):
        chosen = rank == r
        others = torch.ones_like(value_of(input)).scatter_add(dim, index, -chosen.to(input.dtype))
        result = result * others.scatter_add(dim, index, torch.where(chosen, src, 0))
    return result


def _ranks(dim: int, index: Tensor) -> Tensor:
    """Return for each index the number of equal indices before it."""
    if not index.ndim:
        return torch.zeros_like(index)
    order = index.sort(dim=dim, stable=True).indices
    ordered = index.gather(dim, order)
    position = torch.arange(index.shape[dim], device=index.device)
    position = position.reshape([-1 if d == dim % index.ndim else 1 for d in range(index.ndim)])
    first = torch.ones_like(ordered, dtype=torch.bool)
    rest = index.shape[dim] - 1
    different = ordered.narrow(dim, 1, rest) != ordered.narrow(dim, 0, rest)
    first.narrow(dim, 1, rest).copy_(different)
    start = torch.where(first, position, 0).cummax(dim).values
    return torch.empty_like(index).scatter(dim, order, position - start)


def _extreme(name: str) -> Callable[..., Tensor]:
    """Return the function for maxima or minima, with the mean over ties."""

    def applied(input: Tensor, kept: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
        warn_kink("scatter_reduce", input, src)
        first = value_of(input).masked_fill(~kept, -torch.inf if name == "amax" else torch.inf)
        value = first.scatter_reduce(dim, index, value_of(src), name)
        from_self = kept & (value_of(input) == value)
        from_src = value_of(src) == value.gather(dim, index)
        total = _total(input, from_self, dim, index, torch.where(from_src, src, 0))
        count: Tensor = from_self.to(input.dtype)
        return total / count.scatter_add(dim, index, from_src.to(input.dtype))

    return applied


_REDUCTIONS: dict[str, Callable[..., Tensor]] = {
    "sum": _total,
    "mean": _mean,
    "prod": _product,
    "amax": _extreme("amax"),
    "amin": _extreme("amin"),
}


@rule("index_reduce")
def index_reduce(
    input: Tensor,
    dim: int,
    index: Tensor,
    source: Tensor,
    reduce: str,
    *,
    include_self: bool = True,
) -> Tensor:
    """Return a tensor with slices replaced by reductions of those that are sent to them."""
    shape = [-1 if d == dim % source.ndim else 1 for d in range(source.ndim)]
    indices = index.reshape(shape).expand(source.shape)
    return scatter_reduce(input, dim, indices, source, reduce, include_self=include_self)


_INITIAL = {"sum": 0.0, "mean": torch.nan, "prod": 1.0, "max": -torch.inf, "min": torch.inf}


@rule(torch.segment_reduce)
def segment_reduce(
    data: Tensor,
    reduce: str,
    *,
    lengths: Tensor | None = None,
    indices: Tensor | None = None,
    offsets: Tensor | None = None,
    dim: int = 0,
    unsafe: bool = False,
    initial: float | None = None,
) -> Tensor:
    """Return the reductions of consecutive segments along the first dimension.

    Raises:
        MissingRule: If segments are given by indices, along another dimension, or if an initial
            value is given.
    """
    lengths = offsets.diff() if offsets is not None else lengths
    if lengths is None or lengths.ndim != 1 or dim or initial is not None:
        raise MissingRule(
            "Taylor has a rule for `torch.segment_reduce` only along the first dimension, with "
            "lengths or offsets and without an initial value"
        )
    index = torch.arange(len(lengths), device=data.device).repeat_interleave(lengths)
    name = {"max": "amax", "min": "amin"}.get(reduce, reduce)
    empty = data.new_full((len(lengths), *data.shape[1:]), _INITIAL[reduce])
    return index_reduce(empty, 0, index, data, name, include_self=False)
