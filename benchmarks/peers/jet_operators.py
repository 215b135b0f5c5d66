"""Residuals of equations with torch-jet (`pip install jet-for-pytorch`).

The function is traced once. Each direction needs a propagation of its own, because its collapsed
mode adds up the highest derivatives along all directions.
"""

from collections.abc import Callable
from functools import cache

import torch
from jet import jet
from torch import Tensor, nn

from .nested_operators import navier_stokes_residual

Jet = Callable[[tuple[Tensor, ...]], tuple[Tensor, ...]]


@cache
def traced(f: nn.Module, shape: torch.Size) -> Jet:
    """Return the jets of a network for points of a shape and type."""
    p = next(f.parameters())
    propagate: Jet = jet(f, (p.new_zeros(shape),))
    return propagate


def derivatives(f: nn.Module, z: Tensor, coordinate: int, order: int) -> tuple[Tensor, ...]:
    """Return the value and the pure derivatives by one coordinate, each of shape `(B, O)`."""
    v = torch.zeros_like(z)
    v[:, coordinate] = 1
    return traced(f, z.shape)((z, v, *[torch.zeros_like(z)] * (order - 1)))


def korteweg_de_vries(f: nn.Module, z: Tensor) -> Tensor:
    """Return the residual; see `nested_operators`."""
    u, u_x, _, u_xxx = derivatives(f, z, 0, 3)
    _, u_t = derivatives(f, z, 1, 1)
    return (u_t + 6 * u * u_x + u_xxx).squeeze(1)


def navier_stokes(f: nn.Module, z: Tensor) -> Tensor:
    """Return the residuals; see `nested_operators`."""
    value, x, xx = (term.unbind(1) for term in derivatives(f, z, 0, 2))
    _, y, yy = (term.unbind(1) for term in derivatives(f, z, 1, 2))
    _, t = (term.unbind(1) for term in derivatives(f, z, 2, 1))
    first, second = (x[0], y[0], x[1], y[1]), (xx[0], yy[0], xx[1], yy[1])
    return navier_stokes_residual(value[:2], first, t[:2], (x[2], y[2]), second)


OPERATORS = {
    "residual of Korteweg-de Vries": korteweg_de_vries,
    "residual of Navier-Stokes": navier_stokes,
}
