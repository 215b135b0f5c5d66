"""Denoising in the data and in the noise level."""

import math
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from ..derivatives import as_log_density, score_of
from ..derivatives.checks.arguments import check_data, check_noise, require_noise
from ..noise import LogUniform
from ..tensors import dimension, dot, per_example, randn_like
from ..typing import LogDensity, NoiseLevels


@dataclass(frozen=True)
class DualDSM:
    r"""Denoising score matching of a log-density $f(x, σ)$ in $x$ and in the noise level.

    $$J = \frac1d ‖σ ∇_x f(\tilde x, σ) + z‖²
        + \frac{w}{2d} \left( σ \, ∂_σ f(\tilde x, σ) - (‖z‖² - d) \right)²,
      \qquad \tilde x = x + σ z$$

    The first term is `AnnealedDSM`. It leaves a constant in $f$ that is free at every level. The
    second term is a regression too. With the variance $t = σ²$, the derivative of the Gaussian
    kernel gives

    $$∂_t \log p_t(\tilde x) = E\left[ \frac{‖\tilde x - x‖²}{2t²} - \frac{d}{2t}
      \,\middle|\, \tilde x \right], \qquad σ \, ∂_σ = 2t \, ∂_t.$$

    So values of $f$ at different levels become comparable, and one constant is left for all of
    them. At the largest level the noisy data are nearly Gaussian, which determines it (see the
    example). The second term also connects separate modes, whose relative weights are visible at
    large levels only.

    Both terms have mean 1 for a constant $f$. In the paper's variables they are
    $\frac{t}{d} ‖∇f - ∇\log p(\tilde x | x)‖²$ and
    $\frac{2t²}{d} (∂_t f - ∂_t \log p(\tilde x | x))²$. The weights do not change the minimum. All
    derivatives come from one gradient with respect to $(x, σ)$, computed with autograd.

    Reference:
        Guth, Kadkhodaie and Simoncelli (2025), Learning normalized image densities via dual score
        matching, https://arxiv.org/abs/2506.05310 (v3), for the energy $-f$ and other weights:
        the first term in Eq. 3, the second in Eq. 4 and 5.

    Attributes:
        levels: The noise levels $σ$. The largest should exceed the scale of the data.
        weight: The weight $w$ of the second term.

    Example:
        The constant that normalizes $f$ at all levels, here of a model that is right without it.

        >>> from fdsm.evaluation import fit_gaussian
        >>> variance = lambda sigma: 1 + sigma**2
        >>> model = lambda x, s: -x.square().sum(1) / (2 * variance(s)) - variance(s).log()
        >>> x = torch.randn(10_000, 2, generator=torch.Generator().manual_seed(0))
        >>> noisy, largest = x + 10 * torch.randn(x.shape), torch.full((10_000,), 10.0)
        >>> constant = (fit_gaussian(x, noise=10.0)(noisy) - model(noisy, largest)).mean()
        >>> abs(constant.item() + math.log(2 * math.pi)) < 0.01
        True
    """

    levels: NoiseLevels = LogUniform(10.0, 0.01)
    weight: float = 1.0

    def __post_init__(self) -> None:
        require_noise(self.levels)
        if not 0 <= self.weight < math.inf:
            raise ValueError(f"the weight must not be negative, but got {self.weight}")

    def __call__(
        self,
        log_density: LogDensity,
        x: Tensor,
        /,
        *cond: Tensor,
        generator: Generator | None = None,
    ) -> Tensor:
        """Return the losses at `x`, shape `(B,)`, of a model `(B, *E), (B,), *cond -> (B,)`."""
        check_data(x)
        sigma = self.levels.sample(x, generator)
        return self.at(log_density, x, randn_like(x, generator), sigma, *cond)

    def at(
        self, log_density: LogDensity, x: Tensor, z: Tensor, sigma: Tensor, *cond: Tensor
    ) -> Tensor:
        """Return the losses for given standard normal noise `z` and levels, shape `(B,)`."""
        check_noise(x, z)
        f, d = as_log_density(log_density), dimension(x)

        def joint(point: Tensor, *cond: Tensor) -> Tensor:
            return f(point[:, :-1].reshape(-1, *x.shape[1:]), point[:, -1], *cond)

        joint.__wrapped__ = f  # type: ignore[attr-defined]
        x_noisy = x + per_example(sigma, x) * z
        point = torch.cat([x_noisy.reshape(len(x), d), sigma[:, None]], 1)
        slopes = sigma[:, None] * score_of(joint)(point, *cond)
        in_space = slopes[:, :-1] + z.reshape(len(x), d)
        in_level = slopes[:, -1] - (dot(z, z) - d)
        return (dot(in_space, in_space) + self.weight / 2 * in_level.square()) / d
