"""Score matching of noise-conditional models."""

from dataclasses import dataclass

from torch import Generator, Tensor

from ..derivatives import as_log_density
from ..derivatives.checks.arguments import check_data, checked_score, require_noise
from ..derivatives.exact import EXACT
from ..noise import Geometric
from ..projections import Sphere
from ..tensors import dimension, dot, per_example, randn_like
from ..typing import Derivative, LogDensity, NoiseLevels, Objective, Projection, Score
from .denoising import SlicedDSM
from .sliced import SSMVR


@dataclass(frozen=True)
class Annealed:
    r"""An objective of a noise-conditional model, averaged over noise levels with weight $σ²$.

    $$J_i = σ_i² \, J\bigl(s(\cdot, σ_i); \; x_i + σ_i z_i\bigr)$$

    The weight makes the levels comparable, because the score of noisy data grows as $1/σ$. The
    noise levels, shape `(B,)`, are the first condition of the model. The objective of NCSN in the
    paper (Table 5) is FD-SSMVR, `SSMVR(FiniteDifference(), Sphere(0.1))`. It has one step $ε$ for
    all levels, which is accurate only if $ε$ is much smaller than the smallest $σ\sqrt d$. With
    `relative`, the objective is applied to $u ↦ σ s(σu, σ)$ at $x/σ$ (or to
    $u ↦ \log p(σu, σ)$). This is the same objective with a step of $εσ$.

    Reference:
        Song and Ermon (2019), https://arxiv.org/abs/1907.05600, Sec. 4.2.

    Attributes:
        objective: The objective at each level, applied to noisy data.
        levels: The noise levels $σ_i$.
        relative: Whether directions are in units of $σ$.
    """

    objective: Objective = SSMVR()
    levels: NoiseLevels = Geometric(1.0, 0.01, 10)
    relative: bool = False

    def __post_init__(self) -> None:
        require_noise(self.levels)

    def __call__(
        self, score: Score, x: Tensor, /, *cond: Tensor, generator: Generator | None = None
    ) -> Tensor:
        """Return the losses at `x`, shape `(B,)`, of a model `(B, *E), (B,), *cond -> …`."""
        sigma = self.levels.sample(x, generator)
        x_noisy = x + per_example(sigma, x) * randn_like(x, generator)
        if self.relative:
            u = x_noisy / per_example(sigma, x)
            return self.objective(_in_units_of_sigma(score), u, sigma, *cond, generator=generator)
        losses = self.objective(score, x_noisy, sigma, *cond, generator=generator)
        return sigma.square() * losses


def _in_units_of_sigma(model: Score) -> Score:
    """Return a log-density or a score as a function of $u = x/σ$."""

    def scaled(u: Tensor, sigma: Tensor, *cond: Tensor) -> Tensor:
        scale = per_example(sigma, u)
        value = model(scale * u, sigma, *cond)
        return value * scale if value.shape == u.shape and u.ndim > 1 else value

    return scaled


@dataclass(frozen=True)
class AnnealedDSM:
    r"""Denoising score matching of a noise-conditional score, weighted by $σ²$.

    $$J_i = \frac{1}{d} ‖σ_i \, s(\tilde x_i, σ_i) + z_i‖², \qquad \tilde x_i = x_i + σ_i z_i$$

    This is the usual objective of NCSN. It needs no derivative with respect to the data. The noise
    levels, shape `(B,)`, are the first condition of the model.

    Reference:
        Song and Ermon (2019), https://arxiv.org/abs/1907.05600, Eq. 5 and 6, without the ½.

    Attributes:
        levels: The noise levels $σ_i$.
    """

    levels: NoiseLevels = Geometric(1.0, 0.01, 10)

    def __post_init__(self) -> None:
        require_noise(self.levels)

    def __call__(
        self, score: Score, x: Tensor, /, *cond: Tensor, generator: Generator | None = None
    ) -> Tensor:
        """Return the losses at `x`, shape `(B,)`, of a score `(B, *E), (B,), *cond -> (B, *E)`."""
        check_data(x)
        sigma, z = self.levels.sample(x, generator), randn_like(x, generator)
        scale = per_example(sigma, x)
        residual = scale * checked_score(score)(x + scale * z, sigma, *cond) + z
        return dot(residual, residual) / dimension(x)


@dataclass(frozen=True)
class AnnealedSlicedDSM:
    r"""Denoising score matching of a noise-conditional log-density along random directions.

    $$J_i = \frac{1}{C_v} \left( σ_i (v^T∇) \log p(\tilde x_i, σ_i) + v^T z_i \right)^2,
      \qquad \tilde x_i = x_i + σ_i z_i$$

    This is `SlicedDSM` of $u ↦ \log p(σu, σ)$ at $x/σ$ with unit noise, so directions and steps
    are in units of $σ$. Its mean is that of `AnnealedDSM` of the gradient. With
    `derivative=FiniteDifference()` this is FD-DSM, which needs two evaluations of the density.
    The noise levels, shape `(B,)`, are the first condition of the model.

    Reference:
        Pang et al. (2020), https://arxiv.org/abs/2007.03317, Eq. 10 and App. B.4.

    Attributes:
        levels: The noise levels $σ_i$.
        derivative: The engine that differentiates along `v`. Default: Taylor mode, or autodiff for
            models with a function that Taylor mode has no rule for.
        projection: The distribution of `v`.
        directions: Number of directions per example.
    """

    levels: NoiseLevels = Geometric(1.0, 0.01, 10)
    derivative: Derivative = EXACT
    projection: Projection = Sphere(0.1)
    directions: int = 1

    def __post_init__(self) -> None:
        require_noise(self.levels)
        self._with_unit_noise()  # checks the other arguments

    def __call__(
        self,
        log_density: LogDensity,
        x: Tensor,
        /,
        *cond: Tensor,
        generator: Generator | None = None,
    ) -> Tensor:
        """Return the losses at `x`, shape `(B,)`, of a log-density `(B, *E), (B,), *cond`."""
        check_data(x)
        sigma = self.levels.sample(x, generator)
        u = x / per_example(sigma, x)
        scaled = _in_units_of_sigma(as_log_density(log_density))
        return self._with_unit_noise()(scaled, u, sigma, *cond, generator=generator)

    def _with_unit_noise(self) -> SlicedDSM:
        return SlicedDSM(1.0, self.derivative, self.projection, self.directions)
