"""Exact score matching."""

import math
from dataclasses import dataclass

from torch import Generator, Tensor

from ..derivatives.checks.arguments import require_density_shape, require_engine
from ..derivatives.exact import EXACT
from ..operators.coordinates import sum_over_coordinates
from ..tensors import dimension, require_floating
from ..typing import Derivative, LogDensity, nests_gradients


@dataclass(frozen=True)
class SM:
    r"""Exact score matching of a log-density.

    $$J(x) = \frac1d \left[ \mathrm{tr}\,∇²\log p(x) + \tfrac12 ‖∇\log p(x)‖² \right]$$

    The trace and the norm are sums over the coordinate directions $h e_i$. In Taylor mode this is
    a forward Laplacian: $d + 2$ coefficients from one call of the density. For tables with a few
    dozen columns it is a practical loss without projection noise.

    Reference:
        Hyvärinen (2005), Estimation of non-normalized statistical models by score matching.
        Pang et al. (2020), https://arxiv.org/abs/2007.03317, Eq. 1, here divided by `d`.

    Attributes:
        derivative: The engine that differentiates along the coordinates. Default: Taylor mode, or
            autodiff for models with a function that Taylor mode has no rule for.
        chunk: Number of coordinates at a time. Default: chosen by memory, usually all.
        step: The length $h$ of the directions, the step of finite differences.

    Example:
        >>> import torch
        >>> standard_normal = lambda x: -x.square().sum(1) / 2
        >>> SM()(standard_normal, torch.tensor([[0.0, 2.0]])).detach().round(decimals=4)
        tensor([0.])
    """

    derivative: Derivative = EXACT
    chunk: int | None = None
    step: float = 0.1

    def __post_init__(self) -> None:
        require_engine(self.derivative)
        too_few = self.chunk is not None and self.chunk < 1
        if too_few or not 0 < self.step < math.inf:
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

        def along(v: Tensor, x: Tensor, *cond: Tensor) -> Tensor:
            slopes, curvature = self.derivative.sliced(log_density, x, v, *cond)
            require_density_shape(curvature.shape, len(x))
            return curvature + slopes.square().sum(0) / 2

        losses = sum_over_coordinates(
            along, log_density, x, *cond,
            step=self.step, chunk=self.chunk, nested=nests_gradients(self.derivative),
        )  # fmt: skip
        return losses / (dimension(x) * self.step**2)
