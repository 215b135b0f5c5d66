"""Sliced score matching."""

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from ..derivatives import score_of
from ..derivatives.checks.arguments import require_density_shape
from ..derivatives.exact import EXACT
from ..projections import Sphere
from ..tensors import dimension, dot
from ..typing import Derivative, LogDensity, Objective, Projection, Score
from .directions import Sliced, as_stack, average_over_directions


@dataclass(frozen=True)
class SSM(Sliced):
    r"""Sliced score matching of a log-density.

    $$J(x, v) = \frac{1}{C_v} \left[ (v^T∇)^2 \log p(x)
                + \tfrac12 \left( (v^T∇) \log p(x) \right)^2 \right]$$

    Here $C_v = E‖v‖²$ for the distribution of the directions $v$.

    With `derivative=FiniteDifference()` this is FD-SSM, which needs three evaluations of the
    density and no gradient with respect to `x`. The step is the length of `v`, so set it with the
    radius of the projection. The loss is the mean over the directions of an example, which share
    the value at `x`.

    Reference:
        Song et al. (2019), https://arxiv.org/abs/1905.07088.
        Pang et al. (2020), https://arxiv.org/abs/2007.03317, Eq. 3 (SSM) and 9 (FD-SSM).

    Attributes:
        derivative: The engine that differentiates along `v`. Default: Taylor mode, or autodiff for
            models with a function that Taylor mode has no rule for.
        projection: The distribution of `v`.
        directions: Number of directions per example.

    Example:
        >>> import torch
        >>> from fdsm.derivatives import FiniteDifference
        >>> standard_normal = lambda x: -x.square().sum(1) / 2
        >>> objective = SSM(FiniteDifference(), Sphere(0.1))
        >>> objective(standard_normal, torch.zeros(2, 5)).round(decimals=3)
        tensor([-1., -1.])
    """

    derivative: Derivative = EXACT
    projection: Projection = Sphere(0.1)
    directions: int = 1

    def at(self, log_density: LogDensity, x: Tensor, v: Tensor, *cond: Tensor) -> Tensor:
        """Return $J(x, v)$ for given directions.

        The directions `v` have shape `(B, *E)`, or `(V, B, *E)` for several per example.
        """
        slopes, curvature = self.derivative.sliced(log_density, x, as_stack(v, x), *cond)
        require_density_shape(curvature.shape, len(x))
        total = torch.add(curvature, slopes.square().sum(0), alpha=0.5)
        return total / (slopes.shape[0] * self.projection.second_moment(x))


@dataclass(frozen=True)
class SSMVR(Sliced):
    r"""Sliced score matching of a score, with reduced variance.

    $$J(x, v) = \frac{1}{C_v} v^T ∇s(x) v + \frac{1}{2d} ‖s(x)‖²$$

    With `derivative=FiniteDifference()` this is FD-SSMVR, which needs two evaluations of the
    score. To train a log-density, wrap the objective in `ViaScore`.

    Reference:
        Pang et al. (2020), https://arxiv.org/abs/2007.03317, Eq. 11 and the one below it.

    Attributes:
        derivative: The engine that differentiates along `v`. Default: Taylor mode, or autodiff for
            models with a function that Taylor mode has no rule for.
        projection: The distribution of `v`.
        directions: Number of directions per example.

    Example:
        >>> import torch
        >>> from fdsm.derivatives import FiniteDifference
        >>> objective = SSMVR(FiniteDifference(), Sphere(0.1))
        >>> objective(lambda x: -x, torch.ones(2, 5)).round(decimals=3)
        tensor([-0.5000, -0.5000])
    """

    derivative: Derivative = EXACT
    projection: Projection = Sphere(0.1)
    directions: int = 1

    def at(self, score: Score, x: Tensor, v: Tensor, *cond: Tensor) -> Tensor:
        """Return $J(x, v)$ for given directions, of the same shapes as in `SSM.at`."""

        def loss(x: Tensor, v: Tensor, *cond: Tensor) -> Tensor:
            s, curvature = self.derivative.quadratic(score, x, v, *cond)
            return curvature / self.projection.second_moment(x) + dot(s, s) / (2 * dimension(x))

        return average_over_directions(loss, x, v, *cond)


@dataclass(frozen=True)
class ViaScore:
    """An objective of a score, applied to the gradient of a log-density.

    `ViaScore(SSMVR(Autodiff(), Gaussian()))` is the SSMVR of the paper's Tables 1 to 3.

    Attributes:
        objective: The objective of the score.
    """

    objective: Objective

    def __call__(
        self,
        log_density: LogDensity,
        x: Tensor,
        /,
        *cond: Tensor,
        generator: Generator | None = None,
    ) -> Tensor:
        """Return the losses of the score of `log_density` at `x`, shape `(B,)`."""
        return self.objective(score_of(log_density), x, *cond, generator=generator)
