r"""The Fokker-Planck equation of noisy data, as a residual.

The density $p$ of $x + σz$ satisfies the heat equation $∂_t p = \frac12 Δp$ in $t = σ²$. For its
logarithm and for its score $s$ this is

$$σ \, ∂_σ \log p = σ² \left( Δ \log p + ‖∇ \log p‖² \right), \qquad
  σ \, ∂_σ s = σ² \, ∇\left( \mathrm{div}\, s + ‖s‖² \right),$$

since $σ \, ∂_σ = 2t \, ∂_t$. The residual of a model is the left side minus the right side.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from ..derivatives import score_of
from ..derivatives.checks.arguments import (
    check_data,
    checked_density,
    checked_score,
    require_engine,
    require_noise,
    require_projection,
)
from ..derivatives.exact import EXACT
from ..noise import LogUniform
from ..operators import divergence, jvp, laplacian
from ..operators.second_order import SIGNS
from ..projections import require_directions
from ..tensors import dimension, dot, per_example, randn_like
from ..typing import Derivative, NoiseLevels, Projection


@dataclass(frozen=True)
class FokkerPlanck:
    r"""The squared residual of the Fokker-Planck equation of a log-density $f(x, σ)$.

    $$J = \frac{1}{2d} \left( σ \, ∂_σ f - σ² (Δf + ‖∇f‖²) \right)²
        = \frac{2σ⁴}{d} \left( ∂_t f - \tfrac12 (Δf + ‖∇f‖²) \right)², \qquad t = σ²$$

    It is zero for the log-density of noisy data, up to one constant for all levels. It is zero for
    other densities, too. Add it to a loss that knows the data, such as `DualDSM`, which has the
    same scale: its second term replaces the right side by a random number with this mean.

    The right side is $Δp / p$, computed as the Laplacian of $e^{f - f(x)}$. With random
    directions, two independent estimates of the residual are multiplied. The loss is then
    unbiased, and may be negative.

    Reference:
        Lai et al. (2023), FP-Diffusion, https://arxiv.org/abs/2210.04296: the Fokker-Planck
        equation of noisy data.
        Plainer et al. (2025), https://arxiv.org/abs/2506.17139: its logarithm as a penalty of
        energies.

    Attributes:
        levels: The noise levels $σ$.
        derivative: The engine. Default: Taylor mode, or autodiff for models with a function that
            Taylor mode has no rule for.
        directions: Number of random directions of each estimate of the Laplacian. Default: the
            exact Laplacian.
        projection: The distribution of random directions.

    Example:
        >>> x, sigma = torch.tensor([[0.5, 2.0]]), torch.tensor([3.0])
        >>> variance = lambda sigma: 1 + sigma**2
        >>> noisy = lambda x, s: -x.square().sum(1) / (2 * variance(s)) - variance(s).log()
        >>> FokkerPlanck().at(noisy, x, sigma).round(decimals=4)
        tensor([0.])
        >>> sharp = lambda x, s: 2 * noisy(x, s)
        >>> FokkerPlanck().at(sharp, x, sigma).round(decimals=4)
        tensor([0.1463])
    """

    levels: NoiseLevels = LogUniform(10.0, 0.01)
    derivative: Derivative = EXACT
    directions: int | None = None
    projection: Projection = SIGNS

    def __post_init__(self) -> None:
        require_noise(self.levels)
        require_engine(self.derivative)
        require_projection(self.projection)
        if self.directions is not None:
            require_directions(self.directions)

    def __call__(
        self,
        model: Callable[..., Tensor],
        x: Tensor,
        /,
        *cond: Tensor,
        generator: Generator | None = None,
    ) -> Tensor:
        """Return the losses at `x` plus noise, shape `(B,)`, of a model of `x, σ, *cond`."""
        check_data(x)
        sigma = self.levels.sample(x, generator)
        x_noisy = x + per_example(sigma, x) * randn_like(x, generator)
        return self.at(model, x_noisy, sigma, *cond, generator=generator)

    def at(
        self,
        model: Callable[..., Tensor],
        x: Tensor,
        sigma: Tensor,
        *cond: Tensor,
        generator: Generator | None = None,
    ) -> Tensor:
        """Return the losses at given points and levels, shape `(B,)`. Noise is not added.

        The equation holds everywhere, so the points need not be noisy data. The result is random
        only if `directions` is a number.
        """
        first = self.residual(model, x, sigma, *cond, generator=generator)
        second = first
        if self.directions is not None:
            second = self.residual(model, x, sigma, *cond, generator=generator)
        return self._weight(sigma) * dot(first, second) / dimension(x)

    def residual(
        self,
        model: Callable[..., Tensor],
        x: Tensor,
        sigma: Tensor,
        *cond: Tensor,
        generator: Generator | None = None,
    ) -> Tensor:
        r"""Return $σ \, ∂_σ f - σ² (Δf + ‖∇f‖²)$, or an unbiased estimate of it, shape `(B,)`."""
        f = checked_density(model)
        value, slope = self._along_level(f, x, sigma, *cond)

        def relative_density(x: Tensor, value: Tensor, *cond: Tensor) -> Tensor:
            return (f(x, *cond) - value).exp()

        relative_density.__wrapped__ = f  # type: ignore[attr-defined]
        growth = laplacian(
            relative_density, x, value, sigma, *cond,
            directions=self.directions, projection=self.projection, generator=generator,
            derivative=self.derivative,
        )  # fmt: skip
        return slope - sigma.square() * growth

    def _weight(self, sigma: Tensor) -> Tensor:
        """Return the weight of the squared residual, per dimension."""
        return torch.full_like(sigma, 0.5)

    def _along_level(
        self, f: Callable[..., Tensor], x: Tensor, sigma: Tensor, *cond: Tensor
    ) -> tuple[Tensor, Tensor]:
        r"""Return $f(x, σ)$ and $σ \, ∂_σ f = ∂f / ∂ \log σ$."""

        def of_logarithm(x: Tensor, log_sigma: Tensor, *cond: Tensor) -> Tensor:
            return f(x, log_sigma.exp(), *cond)

        of_logarithm.__wrapped__ = f  # type: ignore[attr-defined]
        along = (1.0, *[None] * len(cond))
        return jvp(
            of_logarithm, x, None, sigma.log(), *cond,
            cond_directions=along, derivative=self.derivative,
        )  # fmt: skip


@dataclass(frozen=True)
class ScoreFokkerPlanck(FokkerPlanck):
    r"""The squared residual of the Fokker-Planck equation of a score $s(x, σ)$.

    $$J = \frac{σ²}{d} ‖ σ \, ∂_σ s - σ² \, ∇(\mathrm{div}\, s + ‖s‖²) ‖²$$

    The weight is that of `AnnealedDSM`, to which it is added. The outer gradient is computed with
    autograd.

    Reference:
        Lai et al. (2023), FP-Diffusion, https://arxiv.org/abs/2210.04296: the "score FPE", with
        another weight.

    Attributes:
        levels: The noise levels $σ$.
        derivative: The engine of the derivatives of $s$. Default: Taylor mode, or autodiff for
            models with a function that Taylor mode has no rule for.
        directions: Number of random directions of each estimate of the divergence; see
            `FokkerPlanck`. Default: the exact divergence.
        projection: The distribution of random directions.
    """

    def residual(
        self,
        model: Callable[..., Tensor],
        x: Tensor,
        sigma: Tensor,
        *cond: Tensor,
        generator: Generator | None = None,
    ) -> Tensor:
        r"""Return $σ \, ∂_σ s - σ² ∇(\mathrm{div}\, s + ‖s‖²)$, shape `(B, *E)`."""
        s = checked_score(model)

        def source(x: Tensor, *cond: Tensor) -> Tensor:
            spread = divergence(
                s, x, *cond,
                directions=self.directions, projection=self.projection, generator=generator,
                derivative=self.derivative,
            )  # fmt: skip
            value = s(x, *cond)
            return spread + dot(value, value)

        source.__wrapped__ = s  # type: ignore[attr-defined]
        _, slope = self._along_level(s, x, sigma, *cond)
        return slope - per_example(sigma.square(), x) * score_of(source)(x, sigma, *cond)

    def _weight(self, sigma: Tensor) -> Tensor:
        return sigma.square()
