"""Exact score matching."""

import math
from dataclasses import dataclass
from functools import reduce

import torch
from torch import Generator, Tensor
from torch.utils.checkpoint import checkpoint

from ..derivatives import Autodiff
from ..tensors import coordinates, dimension, require_floating
from ..typing import Derivative, LogDensity


@dataclass(frozen=True)
class SM:
    r"""Exact score matching of a log-density.

    $$J(x) = \frac1d \left[ \mathrm{tr}\,∇²\log p(x) + \tfrac12 ‖∇\log p(x)‖² \right]$$

    The trace and the norm are sums over the coordinate directions $h e_i$. With
    `derivative=Taylor()` this is a forward Laplacian: $d + 2$ coefficients from one call of the
    density. For tables with a few dozen columns it is a practical loss without projection noise.

    Reference:
        Hyvärinen (2005), Estimation of non-normalized statistical models by score matching.
        Pang et al. (2020), https://arxiv.org/abs/2007.03317, Eq. 1, here divided by `d`.

    Attributes:
        derivative: The engine that differentiates along the coordinates.
        chunk: Number of coordinates per chunk, which limits the memory. If there are several
            chunks, each is recomputed in the backward pass.
        step: The length $h$ of the directions, the step of finite differences.

    Example:
        >>> standard_normal = lambda x: -x.square().sum(1) / 2
        >>> SM()(standard_normal, torch.tensor([[0.0, 2.0]])).detach().round(decimals=4)
        tensor([0.])
    """

    derivative: Derivative = Autodiff()
    chunk: int = 64
    step: float = 0.1

    def __post_init__(self) -> None:
        if self.chunk < 1 or not 0 < self.step < math.inf:
            raise ValueError(
                f"chunk and step must be positive, but got {self.chunk} and {self.step}"
            )

    def __call__(
        self,
        log_density: LogDensity,
        x: Tensor,
        /,
        *cond: Tensor,
        generator: Generator | None = None,
    ) -> Tensor:
        """Return the losses at `x`, shape `(B,)`. `generator` is not used."""
        require_floating(x)

        def along(units: Tensor) -> Tensor:
            slopes, curvature = self.derivative.sliced(log_density, x, self.step * units, *cond)
            return curvature + slopes.square().sum(0) / 2

        recompute = dimension(x) > self.chunk and torch.is_grad_enabled()
        losses = [
            checkpoint(along, units, use_reentrant=False) if recompute else along(units)
            for units in coordinates(x, self.chunk)
        ]
        return reduce(torch.add, losses) / (dimension(x) * self.step**2)
