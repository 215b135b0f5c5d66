r"""Derivatives along all coordinates, in chunks that fit into memory.

Along $V$ directions, an engine such as `Taylor` keeps $V + 2$ coefficients of every tensor in the
model, for each row. The widths of these tensors are estimated from the shapes of the parameters.
"""

import math
from collections.abc import Callable, Sequence
from functools import reduce

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ..derivatives.checks.identity import model_behind
from ..tensors import dimension

MEMORY = 2**30
"""Bytes to keep for a backward pass. If more would be needed, chunks are computed again in it."""
CACHE = 2**24
"""Bytes to work on at a time where there is no backward pass. More do not fit into CPU caches."""
MIN_CHUNK_COORDINATES = 32
"""Coordinates at a time for which the two further coefficients of a chunk cost little."""
MIN_CHUNK_ROWS = 16
"""Rows at a time for which the calls of a model cost little, also along one coordinate."""

Term = Callable[..., Tensor]
"""Takes directions `(V, N, *E)`, `N` rows of the data and of further arguments."""


def along_coordinates(
    term: Term,
    f: object,
    x: Tensor,
    *rows: Tensor,
    step: float = 1.0,
    among: Tensor | None = None,
    coefficients: int = 1,
    chunk: int | None = None,
    row_chunk: int | None = None,
    nested: bool = False,
) -> list[list[Tensor]]:
    """Compute a term along the unit vectors of the coordinates, times a step, in chunks.

    Args:
        term: The term.
        f: The model that it differentiates, whose parameters are used to estimate the memory.
        x: The data, shape `(B, *E)`.
        rows: Further arguments of the term, one row per example.
        step: The length of the directions.
        among: Numbers of the coordinates. Default: all.
        coefficients: Number of coefficients for each coordinate.
        chunk: Number of coordinates at a time. Default: chosen by memory.
        row_chunk: Number of rows at a time. Default: chosen by memory.
        nested: Whether the term computes gradients itself, as with `Autodiff`. Then rows stay
            together by default, and chunks are not computed again: each of the gradients would.

    Returns:
        The terms, by chunks of rows, and for each of them by chunks of coordinates.

    Raises:
        ValueError: If a chunk is not positive.

    Example:
        >>> along_coordinates(lambda units, x: units.sum((0, 2)), None, torch.zeros(3, 2))
        [[tensor([2., 2., 2.])]]
    """
    d = dimension(x)
    among = torch.arange(d, device=x.device) if among is None else among

    def units(numbers: Tensor) -> Tensor:
        # one_hot would read the largest number, which a compiler cannot follow
        is_unit = numbers[:, None] == torch.arange(d, device=x.device)
        return step * is_unit.to(x.dtype).view(-1, *x.shape[1:])

    return along_directions(
        term, f, x, *rows,
        numbers=among, v=units, coefficients=coefficients,
        chunk=chunk, row_chunk=row_chunk, nested=nested,
    )  # fmt: skip


def sum_over_coordinates(
    term: Term,
    f: object,
    x: Tensor,
    *rows: Tensor,
    step: float = 1.0,
    among: Tensor | None = None,
    chunk: int | None = None,
    row_chunk: int | None = None,
    nested: bool = False,
) -> Tensor:
    """Return the sum of a term over the coordinates, one per row; see `along_coordinates`."""
    parts = along_coordinates(
        term, f, x, *rows,
        step=step, among=among, chunk=chunk, row_chunk=row_chunk, nested=nested,
    )  # fmt: skip
    return torch.cat([reduce(torch.add, part) for part in parts])


def along_directions(
    term: Term,
    f: object,
    x: Tensor,
    *rows: Tensor,
    numbers: Tensor,
    v: Callable[[Tensor], Tensor],
    coefficients: int = 1,
    chunk: int | None = None,
    row_chunk: int | None = None,
    nested: bool = False,
) -> list[list[Tensor]]:
    """Compute a term along directions that all rows share; see `along_coordinates`.

    Args:
        term: The term.
        f: The model that it differentiates.
        x: The data, shape `(B, *E)`.
        rows: Further arguments of the term, one row per example.
        numbers: The numbers of the directions.
        v: Returns the directions with `V` given numbers, shape `(V, *E)`.
        coefficients: Number of coefficients for each direction.
        chunk: Number of directions at a time. Default: chosen by memory.
        row_chunk: Number of rows at a time. Default: chosen by memory.
        nested: Whether the term computes gradients itself, as with `Autodiff`. Then rows stay
            together by default, and chunks are not computed again: each of the gradients would.

    Returns:
        The terms, by chunks of rows, and for each of them by chunks of directions.

    Raises:
        ValueError: If a chunk is not positive.
    """
    if any(size is not None and size < 1 for size in (chunk, row_chunk)):
        raise ValueError(f"chunks must be positive, but got {chunk} and {row_chunk}")
    keep = torch.is_grad_enabled()
    budget = MEMORY if keep or x.device.type != "cpu" else CACHE
    size = bytes_per_coefficient(f, x, keep) * coefficients
    chunk = min(chunk or max(MIN_CHUNK_COORDINATES, budget // size - 2), len(numbers))
    most = len(x) if nested else max(MIN_CHUNK_ROWS, budget // (size * (chunk + 2)))
    count = math.ceil(len(x) / (row_chunk or most))
    recompute = keep and not nested and (count > 1 or chunk < len(numbers))

    def along(some: Tensor, part: tuple[Tensor, ...]) -> Tensor:
        directions = v(some)[:, None].expand(-1, *part[0].shape)
        if recompute:
            result: Tensor = checkpoint(term, directions, *part, use_reentrant=False)
            return result
        return term(directions, *part)

    return [
        [along(some, part) for some in torch.split(numbers, chunk)]
        for part in _parts((x, *rows), count)
    ]


def bytes_per_coefficient(f: object, x: Tensor, keep: bool) -> int:
    """Estimate the memory that a model takes for one row, as a plain evaluation would.

    A matrix has one output per row, and the kernel of a convolution one image per output channel.

    Args:
        f: The model.
        x: The data, shape `(B, *E)`.
        keep: Whether all tensors are kept for a backward pass: the inputs of linear functions and
            those of activations. Otherwise three are needed at a time.

    Returns:
        The number of bytes.

    Example:
        >>> model, x = torch.nn.Sequential(torch.nn.Linear(3, 10)), torch.zeros(5, 3)
        >>> bytes_per_coefficient(model, x.float(), False)  # three times ten numbers
        120
    """
    model = f if isinstance(f, nn.Module) else model_behind(f)
    parameters = model.parameters() if isinstance(model, nn.Module) else ()
    positions = math.prod(x.shape[2:])
    outputs = [
        p.shape[0] * (positions if p.ndim == x.ndim > 2 else 1) for p in parameters if p.ndim > 1
    ]
    widths = [max(1, dimension(x)), *outputs]
    return x.element_size() * (2 * sum(widths) if keep else 3 * max(widths))


def _parts(rows: Sequence[Tensor], count: int) -> list[tuple[Tensor, ...]]:
    """Return the rows of all arguments in chunks of nearly equal size."""
    if count <= 1:
        return [tuple(rows)]
    return list(zip(*(torch.tensor_split(part, count) for part in rows), strict=True))
