"""Tensors and changes in place that the cases of several rules share."""

from collections.abc import Callable, Iterable

import pytest
import torch
from torch import Tensor

Rule = Callable[[Tensor], Tensor]
Cases = dict[str, tuple[Callable[[Tensor], object], ...]]
SHAPE = (2, 3, 4)


def constant(*shape: int) -> Tensor:
    """Return a tensor that is the same for the same shape."""
    generator = torch.Generator().manual_seed(sum(shape) + 100 * len(shape))
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def nonzero_constant(*shape: int) -> Tensor:
    """Return a tensor that is the same for the same shape, with elements away from zero."""
    generator = torch.Generator().manual_seed(sum(shape) + 100 * len(shape))
    values = torch.rand(shape, generator=generator, dtype=torch.float64) + 0.5
    return torch.where(torch.rand(shape, generator=generator) < 0.3, -values, values)


MASK = constant(2, 3, 4) > 0.2


def image(x: Tensor, *shape: int) -> Tensor:
    """Return the elements of a small tensor, several times, in another shape."""
    times = -(-torch.Size(shape).numel() // x.numel())
    return x.reshape(-1).repeat(times)[: torch.Size(shape).numel()].view(shape)


def parts(y: Tensor) -> Tensor:
    """Return the real and imaginary parts of a complex tensor, and a real tensor unchanged."""
    return torch.stack([y.real, y.imag]) if y.is_complex() else y


def written(x: Tensor, write: Callable[[Tensor], object]) -> Tensor:
    """Return a copy of a tensor after something was written into it, or into its view."""
    y = x * 1.5
    write(y)
    return y.sin()


def followed(y: Tensor) -> Tensor:
    """Return a tensor after something was done to it if it is contiguous, and it otherwise."""
    z = y * 1.0 if y.is_contiguous() else y
    z.contiguous().mul_(2)
    return z


def moved(y: Tensor, move: Callable[[Tensor], Tensor]) -> list[Tensor]:
    """Return a tensor whose shape was changed in place, and a view of it that should not be."""
    first = y[0]
    assert move(y) is y
    y.add_(1)
    return [y * constant(*y.shape), first]


def parameters(cases: Cases) -> Iterable[object]:
    """Return the functions of all cases, with their names as ids."""
    return [pytest.param(f, id=name) for name, fs in cases.items() for f in fs]
