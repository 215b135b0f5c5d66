r"""Denoising score matching.

Let $\tilde x = x + n$ with $n \sim N(0, σ²I)$. The score of the distribution of $\tilde x$ is the
conditional mean of $-n / σ²$ given $\tilde x$, so it can be learned by regression.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Generator, Tensor

from ..derivatives import score_of
from ..derivatives.checks.arguments import (
    check_data,
    check_noise,
    checked_score,
    require_density_shape,
    require_engine,
    require_noise,
    require_projection,
)
from ..derivatives.exact import EXACT
from ..noise import Arithmetic, require_levels
from ..projections import Sphere, draw_directions, require_directions
from ..tensors import dimension, dot, per_example, randn_like
from ..typing import Derivative, LogDensity, NoiseLevels, Projection, Score
from .directions import average_over_directions


@dataclass(frozen=True)
class ScoreDSM:
    r"""Denoising score matching of a score.

    $$J = \frac1d ‖s(\tilde x) + (\tilde x - x) / σ²‖²$$

    It needs no derivative with respect to the data.

    Reference:
        Vincent (2011), A connection between score matching and denoising autoencoders.
        Pang et al. (2020), https://arxiv.org/abs/2007.03317, Eq. 2.

    Attributes:
        sigma: The noise level $σ$.
    """

    sigma: float

    def __post_init__(self) -> None:
        require_levels(self.sigma)

    def __call__(
        self, score: Score, x: Tensor, /, *cond: Tensor, generator: Generator | None = None
    ) -> Tensor:
        """Return the losses at `x`, shape `(B,)`; `cond` is passed to the score."""
        return self.at(score, x, self.sigma * randn_like(x, generator), *cond)

    def at(self, score: Score, x: Tensor, noise: Tensor, *cond: Tensor) -> Tensor:
        """Return the losses for given noise $n$."""
        return _regression_loss(checked_score(score), x, noise, self.sigma, cond)


def _regression_loss(
    score: Score, x: Tensor, noise: Tensor, sigma: float, cond: Sequence[Tensor]
) -> Tensor:
    """Return the squared distance of the score at $x + n$ from $-n / σ²$, per dimension."""
    check_data(x)
    check_noise(x, noise)
    residual = score(x + noise, *cond) + noise / sigma**2
    return dot(residual, residual) / dimension(x)


class Denoising(ABC):
    """A denoising objective with a fixed noise level in its regression target.

    Attributes:
        sigma: The noise level of the regression target.
    """

    sigma: float

    def __call__(
        self,
        log_density: LogDensity,
        x: Tensor,
        /,
        *cond: Tensor,
        generator: Generator | None = None,
    ) -> Tensor:
        """Return the losses at `x`, shape `(B,)`; `cond` is passed to the density."""
        noise = self.sigma * randn_like(x, generator)
        return self.with_noise(log_density, x, noise, *cond, generator=generator)

    @abstractmethod
    def with_noise(
        self,
        log_density: LogDensity,
        x: Tensor,
        noise: Tensor,
        *cond: Tensor,
        generator: Generator | None = None,
    ) -> Tensor:
        """Return the losses for given noise $n$, of any level, shape `(B,)`."""


@dataclass(frozen=True)
class DSM(Denoising):
    r"""Denoising score matching of a log-density.

    $$J = \frac1d ‖∇\log p(\tilde x) + (\tilde x - x) / σ²‖²$$

    The gradient is computed with autograd. `SlicedDSM` uses directional derivatives instead.

    Reference:
        Pang et al. (2020), https://arxiv.org/abs/2007.03317, Eq. 2.

    Attributes:
        sigma: The noise level $σ$.

    Example:
        >>> import torch
        >>> noisy = lambda x: -x.square().sum(1) / (2 * (1 + 0.5**2))
        >>> x = torch.randn(100_000, 3, generator=torch.Generator().manual_seed(0))
        >>> loss = DSM(0.5)(noisy, x, generator=torch.Generator().manual_seed(1)).mean()
        >>> round(loss.item(), 1)  # 1 / (σ² (1 + σ²)), at the minimum
        3.2
    """

    sigma: float

    def __post_init__(self) -> None:
        require_levels(self.sigma)

    def with_noise(
        self,
        log_density: LogDensity,
        x: Tensor,
        noise: Tensor,
        *cond: Tensor,
        generator: Generator | None = None,
    ) -> Tensor:
        """Return the losses for given noise $n$, the same as `at`."""
        return self.at(log_density, x, noise, *cond)

    def at(self, log_density: LogDensity, x: Tensor, noise: Tensor, *cond: Tensor) -> Tensor:
        """Return the losses for given noise $n$."""
        return _regression_loss(score_of(log_density), x, noise, self.sigma, cond)


@dataclass(frozen=True)
class SlicedDSM(Denoising):
    r"""Denoising score matching of a log-density along random directions.

    $$J(x, \tilde x, v) = \frac{1}{C_v}
        \left( (v^T∇) \log p(\tilde x) + v^T (\tilde x - x) / σ^2 \right)^2$$

    With `derivative=FiniteDifference()` this is FD-DSM, which needs two evaluations of the
    density. Random directions add gradient noise that grows with $\sqrt{d}$; several directions
    per example reduce it. The paper's listing divides $v^T(\tilde x - x)$ by $σ$, which is an
    error; this class follows Eq. 10 and divides by $σ²$.

    Reference:
        Pang et al. (2020), https://arxiv.org/abs/2007.03317, Eq. 10 and App. B.4.

    Attributes:
        sigma: The noise level $σ$.
        derivative: The engine that differentiates along `v`. Default: Taylor mode, or autodiff for
            models with a function that Taylor mode has no rule for.
        projection: The distribution of `v`.
        directions: Number of directions per example.
    """

    sigma: float
    derivative: Derivative = EXACT
    projection: Projection = Sphere(0.1)
    directions: int = 1

    def __post_init__(self) -> None:
        require_levels(self.sigma)
        require_engine(self.derivative)
        require_projection(self.projection)
        require_directions(self.directions)

    def with_noise(
        self,
        log_density: LogDensity,
        x: Tensor,
        noise: Tensor,
        *cond: Tensor,
        generator: Generator | None = None,
    ) -> Tensor:
        """Return the losses for given noise $n$ and random directions."""
        v = draw_directions(self.projection, x, self.directions, generator)
        return self.at(log_density, x, noise, v, *cond)

    def at(
        self, log_density: LogDensity, x: Tensor, noise: Tensor, v: Tensor, *cond: Tensor
    ) -> Tensor:
        """Return $J(x, x + n, v)$ for given noise and directions.

        The directions `v` have shape `(B, *E)`, or `(V, B, *E)` for several per example.
        """
        check_noise(x, noise)

        def loss(x_noisy: Tensor, v: Tensor, noise: Tensor, *cond: Tensor) -> Tensor:
            _, slope = self.derivative.jet(log_density, x_noisy, v, 1, *cond)
            require_density_shape(slope.shape, len(x_noisy))
            residual = slope + dot(v, noise) / self.sigma**2
            return residual.square() / self.projection.second_moment(x_noisy)

        return average_over_directions(loss, x + noise, v, noise, *cond)


@dataclass(frozen=True)
class MultiscaleDSM:
    r"""Denoising score matching with many noise levels and a target at one fixed level.

    $$J_i = \frac{σ_0^4}{σ_i^2} \; \frac1d ‖∇\log p(\tilde x_i) + (\tilde x_i - x_i) / σ_0²‖²,
      \qquad \tilde x_i = x_i + σ_i z_i$$

    The paper's deep energy-based models are trained with this form of DSM, although the paper does
    not mention it. It differs from Eq. 2 at $σ_i$: the target uses the fixed level $σ_0$. The
    density does not depend on the noise level and learns
    $σ_0² ∇\log p(\tilde x) = E[x - \tilde x \,|\, \tilde x]$ for all levels together. With
    `SlicedDSM` and finite differences it is the FD-DSM of Tables 2 and 4.

    Reference:
        Li et al. (2019), Learning energy-based models in high-dimensional spaces with
        multi-scale denoising score matching, https://arxiv.org/abs/1910.07762.

    Attributes:
        objective: The denoising objective with level $σ_0$.
        levels: The noise levels $σ_i$.
    """

    objective: Denoising = DSM(0.1)
    levels: NoiseLevels = Arithmetic(0.05, 1.2)

    def __post_init__(self) -> None:
        require_noise(self.levels)

    def __call__(
        self,
        log_density: LogDensity,
        x: Tensor,
        /,
        *cond: Tensor,
        generator: Generator | None = None,
    ) -> Tensor:
        """Return the losses at `x`, shape `(B,)`; `cond` is passed to the density."""
        sigma = self.levels.sample(x, generator)
        noise = per_example(sigma, x) * randn_like(x, generator)
        losses = self.objective.with_noise(log_density, x, noise, *cond, generator=generator)
        return losses * self.objective.sigma**4 / sigma.square()
