"""Operations on `(B, *E)` tensors that torch does not name."""

import math
from collections.abc import Iterator

import torch
from torch import Generator, Tensor


def dot(a: Tensor, b: Tensor) -> Tensor:
    """Return the inner product of each pair of events, shape `(B, *E), (B, *E) -> (B,)`."""
    product = a * b
    return product.sum(tuple(range(1, product.ndim))) if product.ndim > 1 else product


def length(x: Tensor, dims: int | None = None, *, keepdim: bool = False) -> Tensor:
    """Return the Euclidean length of each event, shape `(B, *E) -> (B,)`.

    Args:
        x: The events.
        dims: The number of last dimensions that are the event; all but the first by default.
        keepdim: Whether to keep the dimensions of the event, with size one.

    Returns:
        The lengths.
    """
    dims = x.ndim - 1 if dims is None else dims
    if dims == 0:
        return x.abs()
    result: Tensor = torch.linalg.vector_norm(x, dim=tuple(range(-dims, 0)), keepdim=keepdim)
    return result


def dimension(x: Tensor) -> int:
    """Return $d$, the number of elements of one event of `x`."""
    return math.prod(x.shape[1:])


def per_example(a: Tensor, x: Tensor) -> Tensor:
    """Return `a`, one number per example, shaped to broadcast against `x`."""
    return a.view(-1, *[1] * (x.ndim - 1))


def tile(x: Tensor, n: int) -> Tensor:
    """Return `n` copies of a batch one after the other, shape `(B, *E) -> (n · B, *E)`."""
    return x.repeat(n, *[1] * (x.ndim - 1))


def coordinates(x: Tensor, chunk: int) -> Iterator[Tensor]:
    """Yield the unit vectors of an event as directions for each row of `x`, so many at a time.

    Args:
        x: The data, shape `(B, *E)`.
        chunk: How many at a time.

    Yields:
        The next ones, shape `(chunk, B, *E)` or fewer, without a copy for each row.
    """
    d = dimension(x)
    for places in torch.split(torch.arange(d, device=x.device), chunk):
        units = torch.nn.functional.one_hot(places, d).to(x.dtype)
        yield units.view(len(places), 1, *x.shape[1:]).expand(-1, *x.shape)


def require_floating(x: Tensor) -> None:
    """Raise `TypeError` unless `x` holds real floating-point numbers."""
    if not x.is_floating_point():
        raise TypeError(
            f"expected real floating-point data but got {x.dtype}: "
            "convert it first, e.g. `x.float()`"
        )


def randn_like(x: Tensor, generator: Generator | None = None) -> Tensor:
    """Return standard normal noise shaped like `x`, drawn from `generator`."""
    require_floating(x)
    return torch.randn(x.shape, dtype=x.dtype, device=x.device, generator=generator)
