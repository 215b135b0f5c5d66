r"""Denoising score matching.

The score of data blurred by Gaussian noise, $\tilde x = x + n$ with $n \sim N(0, σ²I)$, is the
mean of $-n / σ²$ given $\tilde x$, so that a model can be regressed on it.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from torch import Generator, Tensor

from ..derivatives import Autodiff, score_of
from ..derivatives.checks import check_data, check_noise, checked_score
from ..noise import Arithmetic, require_levels
from ..projections import Sphere
from ..tensors import dimension, dot, per_example, randn_like
from ..typing import Derivative, LogDensity, NoiseLevels, Projection, Score
from .directions import average, draw


@dataclass(frozen=True)
class ScoreDSM:
    r"""Denoising score matching of a score.

    $$J = \frac1d ‖s(\tilde x) + (\tilde x - x) / σ²‖²$$

    No derivative with respect to the data is needed, so there is nothing to difference.

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
        """Return the losses at `x`, shape `(B,)`; `cond` is passed on to the score."""
        return self.at(score, x, self.sigma * randn_like(x, generator), *cond)

    def at(self, score: Score, x: Tensor, noise: Tensor, *cond: Tensor) -> Tensor:
        """Return the losses for given noise $n$."""
        check_data(x)
        check_noise(x, noise)
        residual = checked_score(score)(x + noise, *cond) + noise / self.sigma**2
        return dot(residual, residual) / dimension(x)


class Denoising(ABC):
    """An objective that regresses on noise of one level.

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
        """Return the losses at `x`, shape `(B,)`; `cond` is passed on to the density."""
        noise = self.sigma * randn_like(x, generator)
        return self.denoise(log_density, x, noise, *cond, generator=generator)

    @abstractmethod
    def denoise(
        self,
        log_density: LogDensity,
        x: Tensor,
        noise: Tensor,
        *cond: Tensor,
        generator: Generator | None = None,
    ) -> Tensor:
        """Return the losses for given noise $n$, which need not be of level $σ$, shape `(B,)`."""


@dataclass(frozen=True)
class DSM(Denoising):
    r"""Denoising score matching of a log-density.

    $$J = \frac1d ‖∇\log p(\tilde x) + (\tilde x - x) / σ²‖²$$

    The gradient is taken by autodiff, whole. `SlicedDSM` takes one direction of it.

    Reference:
        Pang et al. (2020), https://arxiv.org/abs/2007.03317, Eq. 2.

    Attributes:
        sigma: The noise level $σ$.

    Example:
        >>> import torch
        >>> blurred = lambda x: -x.square().sum(1) / (2 * (1 + 0.5**2))
        >>> x = torch.randn(100_000, 3, generator=torch.Generator().manual_seed(0))
        >>> loss = DSM(0.5)(blurred, x, generator=torch.Generator().manual_seed(1)).mean()
        >>> round(loss.item(), 1)  # 1 / (σ² (1 + σ²)), at the minimum
        3.2
    """

    sigma: float

    def __post_init__(self) -> None:
        require_levels(self.sigma)

    def denoise(
        self,
        log_density: LogDensity,
        x: Tensor,
        noise: Tensor,
        *cond: Tensor,
        generator: Generator | None = None,
    ) -> Tensor:
        """Return the losses for given noise, as `at`: nothing else is random."""
        return self.at(log_density, x, noise, *cond)

    def at(self, log_density: LogDensity, x: Tensor, noise: Tensor, *cond: Tensor) -> Tensor:
        """Return the losses for given noise $n$."""
        return ScoreDSM(self.sigma).at(score_of(log_density), x, noise, *cond)


@dataclass(frozen=True)
class SlicedDSM(Denoising):
    r"""Denoising score matching of a log-density along random directions.

    $$J(x, \tilde x, v) = \frac{1}{C_v}
        \left( (v^T∇) \log p(\tilde x) + v^T (\tilde x - x) / σ^2 \right)^2$$

    With `derivative=FiniteDifference()` this is FD-DSM: two evaluations of the density. The
    gradient noise of slicing grows with $\sqrt{d}$; several directions reduce it. The paper's
    listing divides $v^T(\tilde x - x)$ by $σ$; Eq. 10, with $σ²$, is right.

    Reference:
        Pang et al. (2020), https://arxiv.org/abs/2007.03317, Eq. 10 and App. B.4.

    Attributes:
        sigma: The noise level $σ$.
        derivative: How to differentiate along `v`.
        projection: The distribution of `v`.
        directions: Number of directions per example.
    """

    sigma: float
    derivative: Derivative = Autodiff()
    projection: Projection = Sphere(0.1)
    directions: int = 1

    def __post_init__(self) -> None:
        require_levels(self.sigma)

    def denoise(
        self,
        log_density: LogDensity,
        x: Tensor,
        noise: Tensor,
        *cond: Tensor,
        generator: Generator | None = None,
    ) -> Tensor:
        """Return the losses for given noise $n$ and random directions."""
        v = draw(self.projection, x, self.directions, generator)
        return self.at(log_density, x, noise, v, *cond)

    def at(
        self, log_density: LogDensity, x: Tensor, noise: Tensor, v: Tensor, *cond: Tensor
    ) -> Tensor:
        """Return $J(x, x + n, v)$, the deterministic core of the loss.

        The directions `v` have shape `(B, *E)`, or `(V, B, *E)` for several per example.
        """
        check_noise(x, noise)

        def loss(x_noisy: Tensor, v: Tensor, noise: Tensor, *cond: Tensor) -> Tensor:
            _, slope = self.derivative.jet(log_density, x_noisy, v, 1, *cond)
            residual = slope + dot(v, noise) / self.sigma**2
            return residual.square() / self.projection.second_moment(x_noisy)

        return average(loss, x + noise, v, noise, *cond)


@dataclass(frozen=True)
class MultiscaleDSM:
    r"""Denoising score matching with noise of many levels and a target of one.

    $$J_i = \frac{σ_0^4}{σ_i^2} \; \frac1d ‖∇\log p(\tilde x_i) + (\tilde x_i - x_i) / σ_0²‖²,
      \qquad \tilde x_i = x_i + σ_i z_i$$

    What "DSM" means for the paper's deep energy-based models, though the paper does not say so.
    It is not Eq. 2 at $σ_i$: the target has the fixed $σ_0$, so that one density, not told the
    noise level, learns $σ_0² ∇\log p(\tilde x) = E[x - \tilde x \,|\, \tilde x]$ over all of
    them. With a `SlicedDSM` by finite differences it is the FD-DSM of Tables 2 and 4.

    Reference:
        Li et al. (2019), Learning energy-based models in high-dimensional spaces with
        multi-scale denoising score matching, https://arxiv.org/abs/1910.07762.

    Attributes:
        objective: The regression at $σ_0$.
        levels: The levels $σ_i$.
    """

    objective: Denoising = DSM(0.1)
    levels: NoiseLevels = Arithmetic(0.05, 1.2)

    def __call__(
        self,
        log_density: LogDensity,
        x: Tensor,
        /,
        *cond: Tensor,
        generator: Generator | None = None,
    ) -> Tensor:
        """Return the losses at `x`, shape `(B,)`; `cond` is passed on to the density."""
        sigma = self.levels.sample(x, generator)
        noise = per_example(sigma, x) * randn_like(x, generator)
        losses = self.objective.denoise(log_density, x, noise, *cond, generator=generator)
        return losses * self.objective.sigma**4 / sigma.square()
