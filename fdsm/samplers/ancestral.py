r"""Ancestral sampling: from noise to data, one noise level after the other.

$$x ← x + (σ_i² - σ_{i+1}²) \, s(x, σ_i) + σ_{i+1} \sqrt{1 - σ_{i+1}²/σ_i²} \, z$$

draws $x_{i+1}$ from the Gaussian with the mean and variance that it has given $x_i$, if the clean
data is $x_i + σ_i² s(x_i, σ_i)$. Unlike Langevin dynamics it does not stay at a level, so that an
error of the score far from the data does not accumulate.
"""

from collections.abc import Sequence

import torch
from torch import Generator, Tensor

from ..derivatives.checks.arguments import checked_score
from ..tensors import randn_like
from ..typing import Score
from .chains import Progress, track, validate_start, warn_if_diverged
from .langevin import require_decreasing


def ancestral_sampling(
    score: Score,
    x: Tensor,
    levels: Sequence[float],
    *,
    denoise: bool = True,
    generator: Generator | None = None,
    progress: Progress | None = None,
) -> Tensor:
    r"""Draw samples of a noise-conditional score, from the largest noise level to the smallest.

    Reference:
        Song et al. (2021), https://arxiv.org/abs/2011.13456, Appendix F (variance-exploding SDE).

    Args:
        score: The score given the noise level, `(B, *E), (B,) -> (B, *E)`.
        x: Initial states, shape `(B, *E)`: samples of the data with noise of the first level.
        levels: The noise levels $σ_1 ≥ … ≥ σ_L$, such as `Geometric(3.0, 0.1, 200).levels`.
        denoise: Whether to end with the mean of the clean data, $x + σ_L² s(x, σ_L)$.
        generator: Random number generator. Default: torch's global one.
        progress: Wraps the loop over levels, to show progress.

    Returns:
        One sample per initial state, shape `(B, *E)`, without a graph.

    Raises:
        ValueError: If the levels are not positive, or increase.

    Example:
        >>> from fdsm.noise import Geometric
        >>> noisy_normal = lambda x, sigma: -x / (1 + sigma.square())[:, None]
        >>> levels = Geometric(3.0, 0.1, 100).levels
        >>> start = 10**0.5 * torch.randn(10_000, 1, generator=Generator().manual_seed(0))
        >>> x = ancestral_sampling(noisy_normal, start, levels)
        >>> bool(0.95 < x.std() < 1.05)
        True
    """
    require_decreasing(levels)
    x, score = validate_start(x), checked_score(score)
    with torch.no_grad():
        for i in track(len(levels) - 1, progress):
            here, next_level = levels[i], levels[i + 1]
            s = score(x, x.new_full(x.shape[:1], here))
            spread = next_level * (1 - (next_level / here) ** 2) ** 0.5
            x = x + (here**2 - next_level**2) * s + spread * randn_like(x, generator)
        if denoise:
            x = x + levels[-1] ** 2 * score(x, x.new_full(x.shape[:1], levels[-1]))
    return warn_if_diverged(x)
