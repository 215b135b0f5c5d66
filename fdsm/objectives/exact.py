"""Exact score matching."""

import math
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from ..derivatives import Autodiff
from ..tensors import dimension
from ..typing import Derivative, LogDensity


@dataclass(frozen=True)
class SM:
    r"""Score matching of a log-density, without projections.

    $$J(x) = \frac1d \left[ \mathrm{tr}\,∇²\log p(x) + \tfrac12 ‖∇\log p(x)‖² \right]$$

    The trace and the norm are sums over the coordinate directions $h e_i$, a chunk at a time.

    Reference:
        Hyvärinen (2005), Estimation of non-normalized statistical models by score matching.
        Pang et al. (2020), https://arxiv.org/abs/2007.03317, Eq. 1, here divided by `d`.

    Attributes:
        derivative: How to differentiate along the coordinates.
        chunk: How many coordinates to take at a time, which bounds the memory of an evaluation
            without gradients; training keeps the graph of all.
        step: The length $h$ of the coordinate directions, which matters to finite differences.

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
        """Return the losses at `x`, shape `(B,)`; nothing is random."""
        d = dimension(x)
        total = x.new_zeros(len(x))
        for block in torch.split(torch.arange(d, device=x.device), self.chunk):
            basis = self.step * torch.nn.functional.one_hot(block, d).to(x.dtype)
            v = basis.view(len(block), 1, *x.shape[1:]).expand(-1, *x.shape)
            slopes, curvature = self.derivative.sliced(log_density, x, v, *cond)
            total = total + curvature + slopes.square().sum(0) / 2
        return total / (d * self.step**2)
