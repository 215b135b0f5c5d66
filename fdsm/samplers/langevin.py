r"""Langevin dynamics: samples from nothing but a score.

$$x ← x + a \, s(x) + \sqrt{2aT} \, z, \qquad z ∼ N(0, I)$$

follows the gradient of the log-density and shakes. For small steps `a` its samples are those of
$p^{1/T}$. There is no correction for the length of the step: for a Gaussian with variance $λ$
along some direction the chain settles at $Tλ / (1 - a/2λ)$, too wide, and for $a ≥ 2λ$ nowhere.

Others write a step `e` with $a = e²/2$, as `tempered_langevin` does after its source.

Networks are used as they are given: switch dropout and the like off before, with `model.eval()`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from ..derivatives.validation import checked_score
from ..noise import require_levels
from ..tensors import randn_like
from ..typing import Score
from .chains import Progress, arrived, counted, require_counts, require_positive, start


def langevin(
    score: Score,
    x: Tensor,
    steps: int,
    step_size: float,
    *,
    temperature: float = 1.0,
    generator: Generator | None = None,
    progress: Progress | None = None,
) -> Tensor:
    r"""Return where unadjusted Langevin dynamics has taken `x`.

    $$x ← x + a \, s(x) + \sqrt{2aT} \, z$$

    Args:
        score: The score, `(B, *E) -> (B, *E)`; for a log-density, `score_of(log_density)`.
        x: Where the chains start, shape `(B, *E)`.
        steps: How many steps.
        step_size: The factor $a$ of the score.
        temperature: $T$; the samples are those of $p^{1/T}$, and for zero this is plain ascent.
        generator: Source of the noise; torch's global one by default.
        progress: Watches the steps.

    Returns:
        The last state of each chain, shape `(B, *E)`, without a graph.

    Example:
        >>> langevin(lambda x: -x, torch.ones(1, 2), steps=2, step_size=0.5, temperature=0.0)
        tensor([[0.2500, 0.2500]])
        >>> many = langevin(lambda x: -x, torch.zeros(10_000, 1), steps=200, step_size=0.05)
        >>> bool((many.var() - 1).abs() < 0.1)
        True
    """
    require_counts(steps=steps)
    require_positive(step_size=step_size)
    _require_temperature(temperature)
    x, score = start(x), checked_score(score)
    with torch.no_grad():
        for _ in counted(steps, progress):
            x = _moved(x, score(x), step_size, temperature, generator)
    return arrived(x)


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
    r"""Return samples of a noise-conditional score, from the most noise to the least.

    $$x ← x + a_i \, s(x, σ_i) + \sqrt{2a_i} \, z, \qquad a_i = a \, σ_i² / σ_L²$$

    for a number of steps at each level in turn. The published images start at $U[0, 1]$, take
    the defaults, and are clamped to $[0, 1]$ afterwards.

    Reference:
        Song and Ermon (2019), https://arxiv.org/abs/1907.05600, Algorithm 1, which has $a_i/2$
        for $a_i$. The images were made with $a_i$, and so are these.
        Jolicoeur-Martineau et al. (2020), https://arxiv.org/abs/2009.05475, for the denoising.

    Args:
        score: The score given the noise level, `(B, *E), (B,) -> (B, *E)`.
        x: Where the chains start, shape `(B, *E)`.
        levels: The noise levels $σ_1 ≥ … ≥ σ_L$, such as `Geometric(1.0, 0.01, 10).levels`.
        steps: How many steps at each level.
        step_size: The step $a$ at the last level.
        denoise: Whether to end with the mean of the clean data, $x + σ_L² s(x, σ_L)$.
        generator: Source of the noise; torch's global one by default.
        progress: Watches the steps of all levels.

    Returns:
        One sample per chain, shape `(B, *E)`, without a graph.

    Raises:
        ValueError: If the levels are not positive, or rise.

    Example:
        >>> from fdsm.noise import Geometric
        >>> blurred = lambda x, sigma: -x / (0.01 + sigma.square())[:, None]
        >>> levels = Geometric(1.0, 0.01, 5).levels
        >>> x = annealed_langevin(blurred, torch.rand(10_000, 1), levels, step_size=2e-5)
        >>> bool(0.09 < x.std() < 0.2)
        True
    """
    require_counts(steps=steps)
    require_positive(step_size=step_size)
    _require_falling(levels)
    x, score = start(x), checked_score(score)
    with torch.no_grad():
        for t in counted(len(levels) * steps, progress):
            sigma = levels[t // steps]
            s = score(x, x.new_full(x.shape[:1], sigma))
            x = _moved(x, s, step_size * (sigma / levels[-1]) ** 2, 1.0, generator)
        if denoise:
            x = x + levels[-1] ** 2 * score(x, x.new_full(x.shape[:1], levels[-1]))
    return arrived(x)


@dataclass(frozen=True)
class Temperatures:
    """A schedule: hold the hottest temperature, fall to one, then cool to zero, both linearly.

    Reference:
        Li et al. (2019), https://arxiv.org/abs/1910.07762, for annealing.
        Pang et al. (2020), https://arxiv.org/abs/2007.03317, App. C.2, for these numbers.

    Attributes:
        hold: How many steps at the hottest.
        anneal: How many steps from the hottest to one, both included.
        cool: How many steps from one to zero, both included.
        hottest: Where to start.

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


PUBLISHED = Temperatures()
"""The schedule of the paper's images."""


def tempered_langevin(
    score: Score,
    x: Tensor,
    schedule: Temperatures = PUBLISHED,
    *,
    step: float = 0.02,
    sigma: float = 0.1,
    generator: Generator | None = None,
    progress: Progress | None = None,
) -> Tensor:
    r"""Return samples of an unconditional score, from hot to cold, and denoised at last.

    $$x ← x + \frac{e²}{2} s(x) + \sqrt{T_t} \, e \, z, \qquad
      \text{then once} \quad x ← x + σ_0² s(x)$$

    A model trained by multi-scale denoising, `MultiscaleDSM`, has the density of data blurred by
    $σ_0$, so that the last step gives the mean of the clean data. The published images start
    at $0.5 + N(0, I)$.

    Reference:
        Pang et al. (2020), https://arxiv.org/abs/2007.03317, App. C.2.

    Args:
        score: The score, `(B, *E) -> (B, *E)`; for a log-density, `score_of(log_density)`.
        x: Where the chains start, shape `(B, *E)`.
        schedule: The temperatures $T_t$.
        step: The length $e$ of a step at temperature one; `langevin`'s step is $e²/2$.
        sigma: The noise $σ_0$ of the model.
        generator: Source of the noise; torch's global one by default.
        progress: Watches the steps.

    Returns:
        One sample per chain, shape `(B, *E)`, without a graph.

    Example:
        >>> freeze = Temperatures(hold=0, anneal=0, cool=100)
        >>> x = tempered_langevin(lambda x: -x, torch.randn(8, 2), freeze)
        >>> x.shape
        torch.Size([8, 2])
    """
    require_positive(step=step, sigma=sigma)
    x, score, temperatures = start(x), checked_score(score), schedule.values
    with torch.no_grad():
        for t in counted(len(temperatures), progress):
            x = _moved(x, score(x), step**2 / 2, temperatures[t], generator)
        x = x + sigma**2 * score(x)
    return arrived(x)


def _moved(
    x: Tensor, s: Tensor, a: float, temperature: float, generator: Generator | None
) -> Tensor:
    """Return $x + a s + √(2aT) z$."""
    return x + a * s + math.sqrt(2 * a * temperature) * randn_like(x, generator)


def _line(first: float, last: float, count: int) -> list[float]:
    """Return `count` numbers from first to last at equal distances."""
    return [first + (last - first) * i / max(count - 1, 1) for i in range(count)]


def _require_temperature(temperature: float) -> None:
    if not 0 <= temperature < math.inf:
        raise ValueError(f"temperature must not be negative or infinite, but is {temperature}")


def _require_falling(levels: Sequence[float]) -> None:
    require_levels(*levels, count=len(levels))
    if sorted(levels, reverse=True) != list(levels):
        raise ValueError(
            f"noise levels must fall from the largest to the smallest, but are {list(levels)}: "
            "reverse them"
        )
