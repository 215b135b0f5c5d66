"""Operations on tensors of shape `(B, *E)`."""

import math

import torch
from torch import Generator, Tensor

__all__ = ["dimension", "dot", "per_example", "randn_like"]


def dot(a: Tensor, b: Tensor) -> Tensor:
    """Return the inner product of each pair of events, shape `(B, *E), (B, *E) -> (B,)`."""
    product = a * b
    return product.sum(tuple(range(1, product.ndim))) if product.ndim > 1 else product


def length(x: Tensor, dims: int | None = None, *, keepdim: bool = False) -> Tensor:
    """Return the Euclidean length of each event, shape `(B, *E) -> (B,)`.

    Args:
        x: The events.
        dims: Number of event dimensions, the last ones. Default: all but the first.
        keepdim: Whether to keep the event dimensions, with size one.

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
    """Return `a`, shape `(B,)`, reshaped so that it broadcasts against `x`."""
    return a.view(-1, *[1] * (x.ndim - 1))


def tile(x: Tensor, n: int) -> Tensor:
    """Return `n` copies of a batch, concatenated, shape `(B, *E) -> (n · B, *E)`."""
    return x.repeat(n, *[1] * (x.ndim - 1))


def require_tensor(x: object) -> None:
    """Raise `TypeError` unless `x` is a tensor."""
    if not isinstance(x, Tensor):
        kind = f"{type(x).__module__}.{type(x).__qualname__}".removeprefix("builtins.")
        convert = "from_numpy" if kind == "numpy.ndarray" else "as_tensor"
        raise TypeError(f"expected a torch.Tensor, got {kind}: use torch.{convert}(x)")


def require_values(x: Tensor) -> None:
    """Raise an error unless `x` is a tensor with values, not a meta tensor."""
    require_tensor(x)
    if x.is_meta:
        raise ValueError(
            "the data are on the meta device, where tensors have a shape but no values: use data "
            "and a model on another device, e.g. `x.to('cpu')`"
        )


def require_floating(x: Tensor) -> None:
    """Raise `TypeError` unless `x` is a tensor of real floating-point numbers."""
    if isinstance(x, Tensor) and x.is_floating_point():
        return
    require_tensor(x)
    raise TypeError(
        f"expected real floating-point data but got {x.dtype}: convert it first, e.g. `x.float()`"
    )


def randn_like(x: Tensor, generator: Generator | None = None) -> Tensor:
    """Return standard normal noise shaped like `x`, drawn from `generator`."""
    require_floating(x)
    return torch.randn_like(x, generator=generator, memory_format=torch.contiguous_format)
