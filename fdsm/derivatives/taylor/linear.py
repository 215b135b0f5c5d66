"""Rules of functions that are linear in their first argument."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from .jet import Jet, MissingRule, Rule, rule
from .products import value_of
from .shapes import Dims, beside, dims_of, sizes, together, view
from .sums import shifted
from .truncation import Truncation


def each(function: Callable[..., Any]) -> Rule:
    """Return the rule of a linear function: the function of each coefficient."""

    def applied(x: Jet, *args: Any, **kwargs: Any) -> Any:
        results = torch.vmap(lambda c: function(c, *args, **kwargs))(x.coefficients)
        if isinstance(results, Tensor):
            return Jet(results, x.truncation)
        return type(results)([Jet(result, x.truncation) for result in results])

    return applied


def _convolution(function: Callable[..., Tensor], dimensions: int) -> Rule:
    """Return the rule of a convolution with constant weights over so many dimensions."""

    def convolved(
        x: Tensor, weight: Tensor, bias: Tensor | None = None, *args: Any, **kwargs: Any
    ) -> Tensor:
        if not isinstance(x, Jet) or isinstance(weight, Jet) or isinstance(bias, Jet):
            raise MissingRule(
                f"Taylor has no rule for `torch.{function.__name__}` with weights that depend on "
                "the input of the model"
            )
        batched = x.ndim == dimensions + 2
        y = function(_rows(x, batched), weight, None, *args, **kwargs)
        if bias is not None:
            y = shifted(y, bias.view(-1, *[1] * dimensions), len(x) if batched else 1)
        return _jet(y, x, batched)

    return convolved


def _images(function: Callable[..., Tensor], dimensions: int) -> Rule:
    """Return the rule of a linear function of images, of so many dimensions without a batch."""

    def applied(x: Jet, *args: Any, **kwargs: Any) -> Jet:
        batched = x.ndim > dimensions
        return _jet(function(_rows(x, batched), *args, **kwargs), x, batched)

    return applied


def _rows(x: Jet, batched: bool) -> Tensor:
    """Return all coefficients as one batch."""
    return x.coefficients.flatten(0, 1) if batched else x.coefficients


def _jet(y: Tensor, x: Jet, batched: bool) -> Jet:
    """Undo `_rows`."""
    rows = len(x.coefficients)
    return Jet(y.view(rows, len(y) // rows, *y.shape[1:]) if batched else y, x.truncation)


for _n in (1, 2, 3):
    for _name in (f"conv{_n}d", f"conv_transpose{_n}d"):
        rule(_name)(_convolution(getattr(functional, _name), _n))
    for _name in (f"avg_pool{_n}d", f"adaptive_avg_pool{_n}d"):
        rule(_name)(_images(getattr(functional, _name), _n + 1))
rule(functional.interpolate)(_images(functional.interpolate, 1))
rule(functional.fold)(_images(functional.fold, 2))
rule(functional.unfold)(_images(functional.unfold, 3))


@rule(functional.grid_sample)
def grid_sample(input: Tensor, grid: Tensor, *args: Any, **kwargs: Any) -> Jet:
    """Return images at other places.

    Raises:
        MissingRule: If the places depend on the input of the model.
    """
    if not isinstance(input, Jet) or isinstance(grid, Jet):
        raise MissingRule(
            "Taylor has no rule for `torch.nn.functional.grid_sample` at places that depend on "
            "the input of the model"
        )
    grids = grid.repeat(len(input.coefficients), *[1] * (grid.ndim - 1))
    return _jet(functional.grid_sample(_rows(input, True), grids, *args, **kwargs), input, True)


for _name in (
    "channel_shuffle", "cumsum", "diag", "diag_embed", "fliplr", "flipud", "gather",
    "pixel_shuffle", "pixel_unshuffle", "roll", "rot90", "take_along_dim", "trace", "tril", "triu",
):  # fmt: skip
    rule(_name)(each(getattr(torch, _name)))


@rule("flip")
def flip(input: Jet, *dims: Any, **kwargs: Any) -> Jet:
    """Return a tensor back to front."""
    places = [beside(dim) for dim in sizes(dims or tuple(kwargs.values()))]
    return Jet(input.coefficients.flip(places), input.truncation)


@rule("take")
def take(input: Jet, index: Tensor) -> Jet:
    """Return elements by their places among all."""
    return Jet(input.coefficients.flatten(1)[:, index], input.truncation)


@rule("movedim", "moveaxis")
def movedim(input: Jet, source: int | Sequence[int], destination: int | Sequence[int]) -> Jet:
    """Return a tensor with some dimensions elsewhere."""
    places = [
        [d % input.ndim + 1 for d in ((dims,) if isinstance(dims, int) else dims)]
        for dims in (source, destination)
    ]
    return view(input, input.coefficients.movedim(*places))


@rule("diagonal")
def diagonal(input: Jet, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Jet:
    """Return the diagonals of matrices, which are in the first two dimensions by default."""
    return view(input, input.coefficients.diagonal(offset, beside(dim1), beside(dim2)))


@rule(torch.linalg.diagonal)
def last_diagonal(A: Jet, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Jet:
    """Return the diagonals of matrices, which are in the last two dimensions by default."""
    return diagonal(A, offset, dim1, dim2)


@rule(Tensor.unfold)
def windows(input: Jet, dimension: int, size: int, step: int) -> Jet:
    """Return all windows along a dimension."""
    return view(input, input.coefficients.unfold(dimension % input.ndim + 1, size, step))


@rule("repeat_interleave")
def repeat_interleave(
    input: Jet, repeats: Tensor | int, dim: int | None = None, *, output_size: int | None = None
) -> Jet:
    """Return copies of each slice, beside each other."""
    c = input.coefficients if dim is not None else input.coefficients.flatten(1)
    c = c.repeat_interleave(repeats, beside(dim or 0), output_size=output_size)
    return Jet(c, input.truncation)


@rule("diff")
def diff(
    input: Tensor,
    n: int = 1,
    dim: int = -1,
    prepend: Tensor | None = None,
    append: Tensor | None = None,
) -> Tensor:
    """Return the differences of neighbours."""
    x = torch.cat([part for part in (prepend, input, append) if part is not None], dim)
    for _ in range(n):
        x = x.narrow(dim, 1, x.shape[dim] - 1) - x.narrow(dim, 0, x.shape[dim] - 1)
    return x


def jointly(function: Callable[..., Tensor], a: Tensor, b: Tensor | float) -> Jet:
    """Return a function that is linear in two arguments together, of each pair of coefficients."""
    (first, second), like = together(a, b)
    results = [function(x, y) for x, y in zip(first, second.to(first.dtype), strict=True)]
    return Jet(torch.stack(results), like.truncation)


@rule("index_add")
def index_add(
    input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: float = 1
) -> Tensor:
    """Return a tensor with slices added at some places."""
    return jointly(lambda x, y: x.index_add(dim, index, y, alpha=alpha), input, source)


@rule("index_copy")
def index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """Return a tensor with other slices at some places."""
    return jointly(lambda x, y: x.index_copy(dim, index, y), input, source)


@rule("index_fill")
def index_fill(input: Tensor, dim: int, index: Tensor, value: Tensor | float) -> Tensor:
    """Return a tensor with another value in some slices."""
    return jointly(lambda x, y: x.index_fill(dim, index, y), input, value)


@rule("index_put")
def index_put(
    input: Tensor, indices: Sequence[Tensor], values: Tensor, accumulate: bool = False
) -> Tensor:
    """Return a tensor with other elements at some places."""
    return jointly(lambda x, y: x.index_put(tuple(indices), y, accumulate), input, values)


@rule("put")
def put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """Return a tensor with other elements at some places of all that it has."""
    return jointly(lambda x, y: x.put(index, y, accumulate), input, source)


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
    """Return a tensor with other elements at some places along a dimension.

    Raises:
        MissingRule: If the elements are to be added or multiplied.
    """
    if reduce is not None:
        raise MissingRule(
            f"Taylor has no rule for `torch.scatter` with reduce={reduce!r}: use `scatter_add`"
        )
    if not isinstance(src, Tensor):
        src = input.new_full(index.shape, value if src is None else src)
    return jointly(lambda x, y: x.scatter(dim, index, y), input, src)


@rule("scatter_add")
def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """Return a tensor with elements added at some places along a dimension."""
    return jointly(lambda x, y: x.scatter_add(dim, index, y), input, src)


@rule("masked_scatter")
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """Return a tensor with other elements, one after the other, where a mask is set."""
    return jointly(lambda x, y: x.masked_scatter(mask, y), input, source)


@rule("select_scatter")
def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """Return a tensor with another slice."""
    return jointly(lambda x, y: x.select_scatter(y, dim, index), input, src)


@rule("slice_scatter")
def slice_scatter(input: Tensor, src: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Return a tensor with other slices."""
    return jointly(lambda x, y: x.slice_scatter(y, *args, **kwargs), input, src)


@rule("diagonal_scatter")
def diagonal_scatter(input: Tensor, src: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Return a tensor with another diagonal."""
    return jointly(lambda x, y: x.diagonal_scatter(y, *args, **kwargs), input, src)


@rule("masked_select")
def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """Return the elements where a mask is set."""
    x, everywhere = torch.broadcast_tensors(input, mask)  # type: ignore[no-untyped-call]
    selected: Tensor = x[everywhere]
    return selected


@rule("nan_to_num")
def nan_to_num(input: Jet, *args: Any, **kwargs: Any) -> Tensor:
    """Return a tensor with constants in the place of what is not finite."""
    finite = input.isfinite()
    return torch.where(finite, input, input.detach().nan_to_num(*args, **kwargs))


def _summing(function: Callable[..., Tensor]) -> Rule:
    """Return the rule of a sum or mean over some dimensions, or all."""

    def applied(
        input: Jet,
        dim: Dims | None = None,
        keepdim: bool = False,
        *,
        dtype: torch.dtype | None = None,
    ) -> Jet:
        c = input.coefficients
        if not input.ndim:
            return Jet(c.to(dtype or c.dtype, copy=True), input.truncation)
        places = tuple(d % input.ndim + 1 for d in dims_of(input, dim))
        return Jet(function(c, places, keepdim, dtype=dtype), input.truncation)

    return applied


rule("sum")(_summing(torch.sum))
rule("mean")(_summing(torch.mean))


def _converted(name: str) -> Rule:
    """Return the rule of a method that changes how numbers are held, if at all."""

    def applied(
        x: Tensor, *args: Any, memory_format: torch.memory_format | None = None, **kwargs: Any
    ) -> Any:
        args = tuple(value_of(arg) for arg in args)
        kwargs = {key: value_of(arg) for key, arg in kwargs.items()}
        ordered = kwargs if memory_format is None else {**kwargs, "memory_format": memory_format}
        if not isinstance(x, Jet):
            return getattr(x, name)(*args, **ordered)
        if memory_format is not None:
            value = x.value
            if getattr(value, name)(*args, **ordered) is value:
                return x
            x = clone(x, memory_format=memory_format)
        c = getattr(x.coefficients, name)(*args, **kwargs)
        if c is x.coefficients:
            return x
        return _series(c, x.truncation) if isinstance(c, Tensor) else c

    return applied


def _series(c: Tensor, truncation: Truncation) -> Tensor:
    """Return the jet of some coefficients, or the value alone if it is of whole numbers."""
    return Jet(c, truncation) if c.is_floating_point() or c.is_complex() else c[0]


for _name in ("bfloat16", "cpu", "cuda", "double", "float", "half", "to", "type", "type_as"):
    rule(_name)(_converted(_name))


@rule("contiguous")
def contiguous(input: Jet, memory_format: torch.memory_format = torch.contiguous_format) -> Jet:
    """Return a tensor whose elements are in order, as it is if they are."""
    if input.value.is_contiguous(memory_format=memory_format):
        return input
    return clone(input, memory_format=memory_format)


@rule("clone")
def clone(input: Jet, *, memory_format: torch.memory_format | None = None) -> Jet:
    """Return a copy, with the value of each coefficient in a given order."""
    if memory_format in {torch.channels_last, torch.channels_last_3d}:
        return _jet(_rows(input, True).clone(memory_format=memory_format), input, True)
    return Jet(input.coefficients.clone(memory_format=memory_format), input.truncation)


@rule("positive")
def positive(input: Tensor) -> Tensor:
    """Return a tensor as it is."""
    return input
