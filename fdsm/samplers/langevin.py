r"""Langevin dynamics, which samples a density from its score.

$$x ← x + a \, s(x) + \sqrt{2aT} \, z, \qquad z ∼ N(0, I)$$

For small steps $a$ the stationary distribution is $p^{1/T}$. The discretization error is not
corrected: for a Gaussian with variance $λ$ along some direction the stationary variance is
$Tλ / (1 - a/2λ)$, which is too large, and for $a ≥ 2λ$ the chain diverges.

Another common parametrization has a step $e$ with $a = e²/2$; `tempered_langevin` uses it, as its
source does.

Call `model.eval()` before sampling from a network with dropout.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from ..derivatives.checks.arguments import checked_score
from ..noise import require_levels
from ..tensors import length, per_example, randn_like
from ..typing import Score
from .chains import (
    Progress,
    require_counts,
    require_positive,
    track,
    validate_start,
    warn_if_diverged,
)

STABILITY = 0.1
"""Default step of `langevin` times the largest curvature; chains diverge from 2 on."""


def langevin(
    score: Score,
    x: Tensor,
    steps: int,
    step_size: float | None = None,
    *,
    temperature: float = 1.0,
    generator: Generator | None = None,
    progress: Progress | None = None,
) -> Tensor:
    r"""Run unadjusted Langevin dynamics.

    $$x ← x + a \, s(x) + \sqrt{2aT} \, z$$

    The default step is $a = 0.1 / L$, where $L$ is the largest rate of change of the score at the
    starting points, $‖s(y) - s(x)‖ / ‖y - x‖$. For a Gaussian, $1/L$ is
    the smallest variance, and stationary variances are too large by at most 5.3 %. All chains use
    the same step.

    Reference:
        Roberts and Tweedie (1996), Exponential convergence of Langevin distributions and their
        discrete approximations.

    Args:
        score: The score, `(B, *E) -> (B, *E)`; for a log-density, `score_of(log_density)`.
        x: Starting points of the chains, shape `(B, *E)`.
        steps: Number of steps.
        step_size: The step $a$. Default: chosen from the score at `x`, see above.
        temperature: The temperature $T$. With zero this is gradient ascent.
        generator: Random number generator. Default: the global generator of torch.
        progress: Shows the progress of the loop.

    Returns:
        The last state of each chain, shape `(B, *E)`, without a graph.

    Raises:
        ValueError: If a number is out of range, or no default step can be found.

    Example:
        >>> langevin(lambda x: -x, torch.ones(1, 2), steps=2, step_size=0.5, temperature=0.0)
        tensor([[0.2500, 0.2500]])
        >>> many = langevin(lambda x: -x, torch.zeros(10_000, 1), steps=200, step_size=0.05)
        >>> bool((many.var() - 1).abs() < 0.1)
        True
    """
    require_counts(steps=steps)
    _require_temperature(temperature)
    x, score = validate_start(x), checked_score(score)
    with torch.no_grad():
        if step_size is None:
            step_size = STABILITY / score_lipschitz(score, x, generator)
        require_positive(step_size=step_size)
        for _ in track(steps, progress):
            x = _move(x, score(x), step_size, temperature, generator)
    return warn_if_diverged(x)


@torch.no_grad()
def score_lipschitz(
    score: Score, x: Tensor, generator: Generator | None = None, iterations: int = 10
) -> float:
    r"""Estimate the Lipschitz constant of a score near `x`, the largest curvature of its density.

    Power iteration with differences of the score: $u ← (s(x + hu) - s(x)) / h$, normalized, from a
    random direction. The distance $h = 1 / \sqrt L$ follows the current estimate $L$, so that it
    matches the length scale of the density in any units.

    Args:
        score: The score, `(B, *E) -> (B, *E)`.
        x: The points, shape `(B, *E)`.
        generator: Random number generator of the first direction.
        iterations: Number of iterations.

    Returns:
        The largest estimate over all points.

    Raises:
        ValueError: If the score is constant or not finite near `x`.

    Example:
        >>> score_lipschitz(lambda x: -x / torch.tensor([4.0, 0.5]), torch.zeros(100, 2))
        2.0
    """
    s, u = score(x), randn_like(x, generator)
    h = max(1e-2 * length(x).mean().item(), 1e-2)
    for _ in range(iterations):
        u = u / per_example(length(u).clamp(min=torch.finfo(u.dtype).tiny), u)
        u = (score(x + h * u) - s) / h
        rate = length(u).max().item()
        if not 0 < rate < math.inf:
            raise ValueError(
                "no default step for Langevin dynamics: the score does not change, or is not "
                f"finite, at a distance of {h:.3g} from the starting points. Pass `step_size`"
            )
        h = 1 / math.sqrt(rate)
    return rate


def annealed_langevin(
    score: Score,
    x: Tensor,
    levels: Sequence[float],
    *,
    steps: int = 100,
    step_size: float = 2e-5,
    denoise: bool = False,
    generator: Generator | None = None,
    progress: Progress | None = None,
) -> Tensor:
    r"""Sample from a noise-conditional score, from the largest noise level to the smallest.

    $$x ← x + a_i \, s(x, σ_i) + \sqrt{2a_i} \, z, \qquad a_i = a \, σ_i² / σ_L²$$

    with `steps` steps at each level. The published images start at $U[0, 1]$, use the defaults,
    and are clamped to $[0, 1]$ at the end.

    Reference:
        Song and Ermon (2019), https://arxiv.org/abs/1907.05600, Algorithm 1. It has $a_i/2$ in
        place of $a_i$, but the published code and images use $a_i$, as this function does.
        Jolicoeur-Martineau et al. (2020), https://arxiv.org/abs/2009.05475, for the denoising.

    Args:
        score: The score given the noise level, `(B, *E), (B,) -> (B, *E)`.
        x: Starting points of the chains, shape `(B, *E)`.
        levels: The noise levels $σ_1 ≥ … ≥ σ_L$, such as `Geometric(1.0, 0.01, 10).levels`.
        steps: Number of steps at each level.
        step_size: The step $a$ at the last level.
        denoise: Whether to return the mean of the clean data, $x + σ_L² s(x, σ_L)$.
        generator: Random number generator. Default: the global generator of torch.
        progress: Shows the progress of the loop.

    Returns:
        One sample per chain, shape `(B, *E)`, without a graph.

    Raises:
        ValueError: If the levels are not positive, or increase.

    Example:
        >>> from fdsm.noise import Geometric
        >>> score = lambda x, sigma: -x / (0.01 + sigma.square())[:, None]
        >>> levels = Geometric(1.0, 0.01, 5).levels
        >>> x = annealed_langevin(score, torch.rand(10_000, 1), levels, step_size=2e-5)
        >>> bool(0.09 < x.std() < 0.2)
        True
    """
    require_counts(steps=steps)
    require_positive(step_size=step_size)
    require_decreasing(levels)
    x, score = validate_start(x), checked_score(score)
    with torch.no_grad():
        for t in track(len(levels) * steps, progress):
            sigma = levels[t // steps]
            s = score(x, x.new_full(x.shape[:1], sigma))
            x = _move(x, s, step_size * (sigma / levels[-1]) ** 2, 1.0, generator)
        if denoise:
            x = x + levels[-1] ** 2 * score(x, x.new_full(x.shape[:1], levels[-1]))
    return warn_if_diverged(x)


@dataclass(frozen=True)
class Temperatures:
    """A temperature schedule: hold the highest, decrease to one, then to zero, both linearly.

    Reference:
        Li et al. (2019), https://arxiv.org/abs/1910.07762, for annealing.
        Pang et al. (2020), https://arxiv.org/abs/2007.03317, App. C.2, for these numbers.

    Attributes:
        hold: Number of steps at the highest temperature.
        anneal: Number of steps from the highest temperature to one, both included.
        cool: Number of steps from one to zero, both included.
        hottest: The highest temperature.

    Example:
        >>> Temperatures(hold=2, anneal=4, cool=3, hottest=100.0).values
        (100.0, 100.0, 100.0, 67.0, 34.0, 1.0, 1.0, 0.5, 0.0)
    """

    hold: int = 500
    anneal: int = 2000
    cool: int = 200
    hottest: float = 100.0

    def __post_init__(self) -> None:
        require_counts(0, hold=self.hold, anneal=self.anneal, cool=self.cool)
        require_counts(steps=self.hold + self.anneal + self.cool)
        require_positive(hottest=self.hottest)

    @property
    def values(self) -> tuple[float, ...]:
        """The temperature of each step."""
        return (
            *[self.hottest] * self.hold,
            *_line(self.hottest, 1.0, self.anneal),
            *_line(1.0, 0.0, self.cool),
        )


PAPER_SCHEDULE = Temperatures()
"""The schedule of the paper."""


def tempered_langevin(
    score: Score,
    x: Tensor,
    schedule: Temperatures = PAPER_SCHEDULE,
    *,
    step: float = 0.02,
    sigma: float = 0.1,
    generator: Generator | None = None,
    progress: Progress | None = None,
) -> Tensor:
    r"""Sample from an unconditional score with decreasing temperature and final denoising.

    $$x ← x + \frac{e²}{2} s(x) + \sqrt{T_t} \, e \, z, \qquad
      \text{then once} \quad x ← x + σ_0² s(x)$$

    A model trained with multi-scale denoising, `MultiscaleDSM`, has the density of data with noise
    of standard deviation $σ_0$, so the last step gives the mean of the clean data. The published
    images start at $0.5 + N(0, I)$.

    Reference:
        Pang et al. (2020), https://arxiv.org/abs/2007.03317, App. C.2.

    Args:
        score: The score, `(B, *E) -> (B, *E)`; for a log-density, `score_of(log_density)`.
        x: Starting points of the chains, shape `(B, *E)`.
        schedule: The temperatures $T_t$.
        step: The step $e$, the noise at temperature one. The step of `langevin` is $e²/2$.
        sigma: The noise level $σ_0$ of the model.
        generator: Random number generator. Default: the global generator of torch.
        progress: Shows the progress of the loop.

    Returns:
        One sample per chain, shape `(B, *E)`, without a graph.

    Example:
        >>> schedule = Temperatures(hold=0, anneal=0, cool=100)
        >>> x = tempered_langevin(lambda x: -x, torch.randn(8, 2), schedule)
        >>> x.shape
        torch.Size([8, 2])
    """
    require_positive(step=step, sigma=sigma)
    x, score, temperatures = validate_start(x), checked_score(score), schedule.values
    with torch.no_grad():
        for t in track(len(temperatures), progress):
            x = _move(x, score(x), step**2 / 2, temperatures[t], generator)
        x = x + sigma**2 * score(x)
    return warn_if_diverged(x)


def _move(
    x: Tensor, s: Tensor, a: float, temperature: float, generator: Generator | None
) -> Tensor:
    """Return $x + a s + √(2aT) z$."""
    return x + a * s + math.sqrt(2 * a * temperature) * randn_like(x, generator)


def _line(first: float, last: float, count: int) -> list[float]:
    """Return `count` equally spaced numbers from first to last."""
    return [first + (last - first) * i / max(count - 1, 1) for i in range(count)]


def _require_temperature(temperature: float) -> None:
    if not 0 <= temperature < math.inf:
        raise ValueError(f"temperature must be finite and not negative, but is {temperature}")


def require_decreasing(levels: Sequence[float]) -> None:
    """Raise `ValueError` unless noise levels are positive and do not increase."""
    require_levels(*levels, count=len(levels))
    if sorted(levels, reverse=True) != list(levels):
        raise ValueError(
            f"noise levels must decrease from the largest to the smallest, but are "
            f"{list(levels)}: reverse them"
        )
