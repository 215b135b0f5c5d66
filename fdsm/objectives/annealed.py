"""Score matching at many noise levels at once."""

from dataclasses import dataclass

from torch import Generator, Tensor

from ..derivatives import FiniteDifference
from ..derivatives.validation import check_data, checked_score
from ..noise import Geometric
from ..projections import Sphere
from ..tensors import dimension, dot, per_example, randn_like
from ..typing import NoiseLevels, Objective, Score
from .sliced import SSMVR


@dataclass(frozen=True)
class Annealed:
    r"""An objective averaged over noise levels the model is told of, weighted by $σ²$.

    $$J_i = σ_i² \, J\big(s(\cdot, σ_i); \; x_i + σ_i z_i\big)$$

    The weight makes the levels comparable, since scores of blurred data grow as $1/σ$. The
    model takes the levels, shape `(B,)`, as its first condition. With FD-SSMVR, the default,
    this is how the paper trains NCSN (Table 5): with one step $ε$ for all levels, which is right
    only while $ε$ is small against the smallest $σ\sqrt d$. With `relative`, the objective is
    applied to $u ↦ σ s(σu, σ)$ at $x/σ$ (or to $u ↦ \log p(σu, σ)$), which is the same but for
    the step, now $εσ$.

    Reference:
        Song and Ermon (2019), https://arxiv.org/abs/1907.05600, Sec. 4.2.

    Attributes:
        objective: What to minimise at each level, on blurred data.
        levels: The levels $σ_i$.
        relative: Whether directions are measured in units of $σ$.
    """

    objective: Objective = SSMVR(FiniteDifference(), Sphere(0.1))
    levels: NoiseLevels = Geometric(1.0, 0.01, 10)
    relative: bool = False

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
    r"""Denoising score matching at noise levels the model is told of, weighted by $σ²$.

    $$J_i = \frac{1}{d} ‖σ_i \, s(\tilde x_i, σ_i) + z_i‖², \qquad \tilde x_i = x_i + σ_i z_i$$

    How NCSN is usually trained: no derivative with respect to the data is needed. The model
    takes the levels, shape `(B,)`, as its first condition.

    Reference:
        Song and Ermon (2019), https://arxiv.org/abs/1907.05600, Eq. 5 and 6, without the ½.

    Attributes:
        levels: The levels $σ_i$.
    """

    levels: NoiseLevels = Geometric(1.0, 0.01, 10)

    def __call__(
        self, score: Score, x: Tensor, /, *cond: Tensor, generator: Generator | None = None
    ) -> Tensor:
        """Return the losses at `x`, shape `(B,)`, of a score `(B, *E), (B,), *cond -> (B, *E)`."""
        check_data(x)
        sigma, z = self.levels.sample(x, generator), randn_like(x, generator)
        scale = per_example(sigma, x)
        residual = scale * checked_score(score)(x + scale * z, sigma, *cond) + z
        return dot(residual, residual) / dimension(x)
