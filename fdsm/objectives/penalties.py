"""Squared directional derivatives, suggested by the paper as future work."""

from dataclasses import dataclass

from torch import Tensor

from ..derivatives.checks.arguments import require_density_shape
from ..derivatives.exact import EXACT
from ..projections import Sphere
from ..typing import Derivative, LogDensity, Projection
from .directions import Sliced, average_over_directions


@dataclass(frozen=True)
class GradientPenalty(Sliced):
    r"""The squared gradient norm of a discriminator or critic, per dimension.

    $$J(x, v) = \frac{1}{C_v} \left( (v^T∇) D(x) \right)^2, \qquad
      E_v[J] = \frac1d ‖∇D(x)‖²$$

    Multiply by $d$ to get the usual $R_1$ penalty. Finite differences need no double backward.

    Reference:
        Mescheder et al. (2018), https://arxiv.org/abs/1801.04406, Eq. 9.

    Attributes:
        derivative: The engine that differentiates along `v`. Default: Taylor mode, or autodiff for
            models with a function that Taylor mode has no rule for.
        projection: The distribution of `v`.
        directions: Number of directions per example.
    """

    derivative: Derivative = EXACT
    projection: Projection = Sphere(0.1)
    directions: int = 1

    def at(self, f: LogDensity, x: Tensor, v: Tensor, *cond: Tensor) -> Tensor:
        """Return $J(x, v)$ for given directions."""
        return _squared_slope(self, f, x, v, *cond)


@dataclass(frozen=True)
class FisherInformation(Sliced):
    r"""The Fisher information that an observation `y` carries about `x`, per dimension.

    $$J(x, v) = \frac{1}{C_v} \left( (v^T∇_x) \log p(y|x) \right)^2, \qquad
      E_{y, v}[J] = \frac1d \, \mathrm{tr}\, I(x)$$

    for `y` drawn from $p(y|x)$. Pass `y` as the condition: `objective(f, x, y)`, where `f(x, y)`
    is the log-likelihood. A good code has a large Fisher information, so minimize the negative
    of this objective.

    Reference:
        Brunel and Nadal (1998), Mutual information, Fisher information, and population coding.

    Attributes:
        derivative: The engine that differentiates along `v`. Default: Taylor mode, or autodiff for
            models with a function that Taylor mode has no rule for.
        projection: The distribution of `v`.
        directions: Number of directions per example.
    """

    derivative: Derivative = EXACT
    projection: Projection = Sphere(0.1)
    directions: int = 1

    def at(self, f: LogDensity, x: Tensor, v: Tensor, *cond: Tensor) -> Tensor:
        """Return $J(x, v)$ for given directions."""
        return _squared_slope(self, f, x, v, *cond)


def _squared_slope(
    objective: GradientPenalty | FisherInformation,
    f: LogDensity,
    x: Tensor,
    v: Tensor,
    *cond: Tensor,
) -> Tensor:
    def loss(x: Tensor, v: Tensor, *cond: Tensor) -> Tensor:
        _, slope = objective.derivative.jet(f, x, v, 1, *cond)
        require_density_shape(slope.shape, len(x))
        return slope.square() / objective.projection.second_moment(x)

    return average_over_directions(loss, x, v, *cond)
