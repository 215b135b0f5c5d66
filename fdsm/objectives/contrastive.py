r"""Objectives that compare the density at the data with the density nearby.

Noise-contrastive estimation with shifted data as noise, minimum probability flow to a small sphere
and the one-sided finite difference of SSM all converge to SSM as the step goes to zero (Sec. 6 and
App. B.7 of the paper). Each is shifted and scaled here so that its limit is SSM. All of them use
only the values $L(x)$ and $L(x ± v)$ of the log-density.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor
from torch.nn.functional import softplus

from ..derivatives import FiniteDifference
from ..derivatives.checks.arguments import require_density_shape
from ..projections import Sphere
from ..typing import LogDensity, Projection
from .directions import Sliced, average_over_directions


@dataclass(frozen=True)
class NaiveFD(Sliced):
    r"""The one-sided finite difference of sliced score matching, the paper's $R(θ)$.

    $$J(x, v) = \frac{1}{2 C_v} \left( Δ² + 4Δ \right), \qquad Δ = L(x + v) - L(x)$$

    For symmetric `v` its mean equals that of SSM to $O(ε²)$. Every example also has a term
    $2 v^T∇L/ε²$ of mean zero, whose variance grows as $1/ε²$. Use it for comparisons only.

    Reference:
        Pang et al. (2020), https://arxiv.org/abs/2007.03317, App. B.7.

    Attributes:
        derivative: Evaluates the density at the nodes. Its `accuracy` is not used.
        projection: The distribution of `v`.
        directions: Number of directions per example.
    """

    derivative: FiniteDifference = FiniteDifference()
    projection: Projection = Sphere(0.1)
    directions: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_finite_difference(self)

    def at(self, log_density: LogDensity, x: Tensor, v: Tensor, *cond: Tensor) -> Tensor:
        """Return $J(x, v)$ for given directions."""

        def contrast(center: Tensor, plus: Tensor) -> Tensor:
            delta = plus - center
            return (delta.square() + 4 * delta) / 2

        return _average(self, (0, 1), contrast, log_density, x, v, *cond)


@dataclass(frozen=True)
class NCE(Sliced):
    r"""Noise-contrastive estimation with the data shifted by `v` as noise.

    $$J(x, v) = \frac{2}{C_v} \left[ ζ(-G(x)) + ζ(G(x + v)) - 2 \log 2 \right],
      \qquad G(y) = L(y) - L(y - v)$$

    where $ζ$ is the softplus. It needs only $L(x)$ and $L(x ± v)$. It equals SSM to $O(ε²)$, a
    higher order than the paper states.

    Reference:
        Gutmann and Hyvärinen (2010), Noise-contrastive estimation.
        Pang et al. (2020), https://arxiv.org/abs/2007.03317, Sec. 6.

    Attributes:
        derivative: Evaluates the density at the nodes. Its `accuracy` is not used.
        projection: The distribution of `v`.
        directions: Number of directions per example.
    """

    derivative: FiniteDifference = FiniteDifference()
    projection: Projection = Sphere(0.1)
    directions: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_finite_difference(self)

    def at(self, log_density: LogDensity, x: Tensor, v: Tensor, *cond: Tensor) -> Tensor:
        """Return $J(x, v)$ for given directions."""

        def contrast(minus: Tensor, center: Tensor, plus: Tensor) -> Tensor:
            return 2 * (softplus(minus - center) + softplus(plus - center) - 2 * math.log(2))

        return _average(self, (-1, 0, 1), contrast, log_density, x, v, *cond)


@dataclass(frozen=True)
class MPF(Sliced):
    r"""Minimum probability flow from the data to a sphere around them.

    $$J(x, v) = \frac{2}{C_v}
      \left[ e^{(L(x + v) - L(x))/2} + e^{(L(x - v) - L(x))/2} - 2 \right]$$

    The flow is $V_ε (1 + \frac{ε²}{4} J)$; the volume $V_ε$ is left out. The paper uses `v` only.
    Using `v` and `-v` gives the same mean without the $O(1/ε)$ noise. The paper also treats the
    ball and the sphere as the same, which changes a constant close to one.

    Reference:
        Sohl-Dickstein et al. (2011), https://arxiv.org/abs/0906.4779.
        Pang et al. (2020), https://arxiv.org/abs/2007.03317, App. B.7.

    Attributes:
        derivative: Evaluates the density at the nodes. Its `accuracy` is not used.
        projection: The distribution of `v`.
        directions: Number of directions per example.
    """

    derivative: FiniteDifference = FiniteDifference()
    projection: Projection = Sphere(0.1)
    directions: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_finite_difference(self)

    def at(self, log_density: LogDensity, x: Tensor, v: Tensor, *cond: Tensor) -> Tensor:
        """Return $J(x, v)$ for given directions."""

        def contrast(minus: Tensor, center: Tensor, plus: Tensor) -> Tensor:
            return 2 * (((minus - center) / 2).expm1() + ((plus - center) / 2).expm1())

        return _average(self, (-1, 0, 1), contrast, log_density, x, v, *cond)


def _require_finite_difference(objective: NaiveFD | NCE | MPF) -> None:
    if not hasattr(objective.derivative, "values"):
        raise ValueError(
            f"{type(objective).__name__} uses values of the log-density, not derivatives: its "
            f"derivative must be a FiniteDifference, but is {objective.derivative}"
        )


def _average(
    objective: NaiveFD | NCE | MPF,
    nodes: tuple[int, ...],
    contrast: Callable[..., Tensor],
    log_density: LogDensity,
    x: Tensor,
    v: Tensor,
    *cond: Tensor,
) -> Tensor:
    """Average `contrast` of the values at the nodes over directions, and divide by $C_v$."""

    def loss(x: Tensor, v: Tensor, *cond: Tensor) -> Tensor:
        values = objective.derivative.values(log_density, x, v, nodes, *cond)
        require_density_shape(values.shape[1:], len(x))
        return (contrast(*values) / objective.projection.second_moment(x)).to(x.dtype)

    return average_over_directions(loss, x, v, *cond)
