r"""Distributions of the direction `v`.

All have $E[v v^T] = (C_v / d) I$, so $E[(v^T a)^2] = C_v ‖a‖²/d$ and
$E[v^T H v] = C_v \, \mathrm{tr}(H)/d$. The length of `v` is the step of finite differences. It
must be much smaller than the length scale of the density along `v`, but large enough that rounding
errors do not dominate. `fdsm.derivatives.step_size` recommends a value.
"""

import math
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from .tensors import dimension, length, randn_like, require_floating, tile
from .typing import Projection

__all__ = ["Gaussian", "Rademacher", "Sphere"]


@dataclass(frozen=True)
class Sphere:
    """The uniform distribution on the sphere of a given radius, the paper's $p_ε(v)$.

    Attributes:
        radius: The length $ε$ of every direction.
    """

    radius: float = 0.1

    def __post_init__(self) -> None:
        _require_positive(self.radius)

    def sample(self, x: Tensor, generator: Generator | None = None) -> Tensor:
        """Return one direction per row of `x`."""
        v = randn_like(x, generator)
        return v * length(v, keepdim=True).reciprocal_().mul_(self.radius)

    def second_moment(self, x: Tensor) -> float:
        """Return $ε²$, for any dimension."""
        return self.radius**2


@dataclass(frozen=True)
class Rademacher:
    r"""Independent random signs, scaled to a given length: entries $±ε/\sqrt{d}$.

    The variance of $v^T H v$ is the smallest of the three if $H$ is nearly diagonal, and zero if
    it is diagonal.

    Attributes:
        radius: The length $ε$ of every direction.
    """

    radius: float = 0.1

    def __post_init__(self) -> None:
        _require_positive(self.radius)

    def sample(self, x: Tensor, generator: Generator | None = None) -> Tensor:
        """Return one direction per row of `x`."""
        require_floating(x)
        bits = torch.randint(2, x.shape, dtype=x.dtype, device=x.device, generator=generator)
        return (2 * bits - 1) * (self.radius / math.sqrt(dimension(x)))

    def second_moment(self, x: Tensor) -> float:
        """Return $ε²$, for any dimension."""
        return self.radius**2


@dataclass(frozen=True)
class Gaussian:
    r"""The standard normal distribution, as in the original SSM.

    The length of its directions, about $\sqrt{d}$, is too large a step for finite differences.
    """

    def sample(self, x: Tensor, generator: Generator | None = None) -> Tensor:
        """Return one direction per row of `x`."""
        return randn_like(x, generator)

    def second_moment(self, x: Tensor) -> float:
        """Return the dimension of the events of `x`."""
        return float(dimension(x))


def draw_directions(
    projection: Projection, x: Tensor, count: int, generator: Generator | None = None
) -> Tensor:
    """Draw directions for every row of `x`.

    Args:
        projection: The distribution of the directions.
        x: The data, shape `(B, *E)`.
        count: Number of directions per example, `V`.
        generator: Random number generator. Default: the global generator of torch.

    Returns:
        The directions, shape `(V, B, *E)`.

    Raises:
        ValueError: If `count` is less than one.
    """
    require_directions(count)
    rows = x if count == 1 else tile(x, count)
    return projection.sample(rows, generator).view(count, *x.shape)


def require_directions(count: int) -> None:
    """Raise `ValueError` unless a number of directions is a positive integer."""
    if not isinstance(count, int) or count < 1:
        raise ValueError(f"there must be at least one direction per example, but got {count!r}")


def _require_positive(radius: float) -> None:
    if not 0 < radius < math.inf:
        raise ValueError(
            f"radius must be positive, because it is the finite-difference step, but is {radius}"
        )
