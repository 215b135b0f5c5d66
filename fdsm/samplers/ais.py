r"""Annealed importance sampling of a normaliser.

From samples of a prior, chains are led through the densities

$$\log f_β(x) = (1 - β) \log p_0(x) + β \log f(x), \qquad 0 = β_0 < … < β_T = 1$$

and collect the weights $\log w = \sum_t (β_t - β_{t-1}) (\log f - \log p_0)(x_{t-1})$, where
$x_t$ comes from $x_{t-1}$ by a move of Hamiltonian Monte Carlo that leaves $f_{β_t}$ as it is.
Then $E[w] = Z = ∫ f$ for any number of temperatures, while $\log w$ is too low in the mean: a
bound from below, and a tight one if temperatures are many and moves good.

A bound from above comes from the other end, given exact samples of $f / Z$, which one has for data
drawn from a decoder: `ais(log_target, log_prior, exact)` estimates $1/Z$, so minus the
logarithm of its mean is too high in the mean (bidirectional Monte Carlo; Grosse et al. (2015),
https://arxiv.org/abs/1511.02543).

$E[w] = Z$ holds exactly if moves do not look back. The published evaluation adapts the step of
each chain to its acceptance as it goes, and so does the default here, which is no longer exact;
`adapt=None` keeps the step fixed, and is. The published first step, 0.01, takes some 150
temperatures to grow to a useful length, and those are lost: the bound is tighter if `step_size`
starts near where `step_sizes` ended. Unlike the published evaluation every move jitters its step
at random, which is exact and tightens the bound again; `jitter=0.0` is without.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from ..derivatives.validation import checked_density
from ..tensors import dimension, dot, tile
from ..typing import LogDensity
from .chains import Progress, counted, require_counts, require_positive, start
from .hmc import move
from .pace import ADAPTATION, Adaptation, first_pace
from .weights import LogMean, log_mean_exp


@dataclass(frozen=True, eq=False)
class AnnealedWeights:
    """What annealed importance sampling came to, a row per chain.

    Attributes:
        log_weights: The logarithms of the weights, shape `(B,)`, in float64.
        samples: The last states, shape `(B, *E)`: samples of the target, if given these weights.
        acceptance: The mean probability of acceptance of each chain, shape `(B,)`.
        step_sizes: The last step of each chain, shape `(B,)`.
    """

    log_weights: Tensor
    samples: Tensor
    acceptance: Tensor
    step_sizes: Tensor

    @property
    def log_partition(self) -> LogMean:
        r"""The estimate of $\log Z$ from all chains together."""
        return log_mean_exp(self.log_weights)


def sigmoid_schedule(count: int = 1000, radius: float = 4.0) -> tuple[float, ...]:
    """Return temperatures from zero to one that are denser at both ends.

    Args:
        count: How many.
        radius: The sigmoid is taken from minus this to this, and rescaled.

    Returns:
        The inverse temperatures, rising from exactly 0 to exactly 1.

    Example:
        >>> [round(beta, 4) for beta in sigmoid_schedule(5)]
        [0.0, 0.105, 0.5, 0.895, 1.0]
    """
    require_counts(2, count=count)
    require_positive(radius=radius)
    raw = torch.linspace(-radius, radius, count, dtype=torch.float64).sigmoid()
    return tuple(((raw - raw[0]) / (raw[-1] - raw[0])).tolist())


def ais(
    log_prior: LogDensity,
    log_target: LogDensity,
    x: Tensor,
    *,
    temperatures: Sequence[float] | None = None,
    leapfrog: int = 9,
    step_size: float = 0.01,
    jitter: float = 0.2,
    adapt: Adaptation | None = ADAPTATION,
    generator: Generator | None = None,
    progress: Progress | None = None,
) -> AnnealedWeights:
    r"""Return weights whose mean is the normaliser of a target.

    Reference:
        Neal (2001), https://arxiv.org/abs/physics/9803008.
        Wu et al. (2017), https://arxiv.org/abs/1611.04273, for decoders.

    Args:
        log_prior: The log-density of the prior, normalised, `(B, *E) -> (B,)`.
        log_target: The log-density of the target, not normalised, `(B, *E) -> (B,)`. It may be
            minus infinity.
        x: Independent samples of the prior, one per chain, shape `(B, *E)`.
        temperatures: The inverse temperatures $β$ from 0 to 1; `sigmoid_schedule()` by default.
        leapfrog: How many steps of the position make up a move; the default takes the ten
            gradients of the published evaluation.
        step_size: The first length of such a step.
        jitter: Every move draws its step uniformly within this share of it; zero for none.
        adapt: How the step adapts to the acceptance of each chain; None to leave it, see above.
        generator: Source of everything random; torch's global one by default.
        progress: Watches the temperatures.

    Returns:
        The weights, with the last states of the chains and how their moves were accepted.

    Raises:
        TypeError: If `x` is not of real floating-point numbers.
        ValueError: If a number is out of range, or the start is not one.

    Example:
        >>> prior = lambda x: -(x.square() + 1.8378771).sum(1) / 2  # log 2π
        >>> target = lambda x: -2 * (x - 1).square().sum(1)
        >>> done = ais(prior, target, torch.randn(500, 3), step_size=0.2,
        ...            temperatures=sigmoid_schedule(100))
        >>> bool((done.log_partition.value - 0.6774).abs() < 0.1)  # 3/2 log π/2
        True
    """
    betas = sigmoid_schedule() if temperatures is None else temperatures
    _require_rising(betas)
    require_counts(leapfrog=leapfrog)
    x, pace = start(x), first_pace(x, step_size, jitter, adapt)
    prior, target = checked_density(log_prior), checked_density(log_target)
    log_weights = torch.zeros(len(x), dtype=torch.float64, device=x.device)
    acceptance = torch.zeros_like(pace.step)
    with torch.no_grad():
        _require_usable(prior(x), target(x))
        for t in counted(len(betas) - 1, progress):
            log_weights = log_weights + (betas[t + 1] - betas[t]) * (target(x) - prior(x))
            bridge = _between(prior, target, betas[t + 1])
            x, probability = move(bridge, x, pace.draw(generator), leapfrog, generator)
            acceptance = acceptance + probability / (len(betas) - 1)
            pace = pace.after(probability)
    return AnnealedWeights(log_weights, x, acceptance, pace.step)


def log_likelihood_ais(
    log_likelihood: Callable[[Tensor, Tensor], Tensor],
    x: Tensor,
    latent: tuple[int, ...],
    *,
    chains: int = 16,
    temperatures: Sequence[float] | None = None,
    leapfrog: int = 9,
    step_size: float = 0.01,
    jitter: float = 0.2,
    adapt: Adaptation | None = ADAPTATION,
    generator: Generator | None = None,
    progress: Progress | None = None,
) -> LogMean:
    r"""Return $\log p(x)$ of a decoder, $p(x) = ∫ p(x|z) N(z; 0, I) dz$, for each example.

    Annealed importance sampling with $\log f_β(z) = \log p(z) + β \log p(x|z)$, the chains of all
    examples side by side; `chains` times `B` latents are in memory at once, so pass large data
    in parts. The defaults are the published ones but for the jitter, see above.

    Reference:
        Wu et al. (2017), https://arxiv.org/abs/1611.04273.
        Pang et al. (2020), https://arxiv.org/abs/2007.03317, Table 6.

    Args:
        log_likelihood: The decoder's $\log p(x|z)$, `(N, *E), (N, *Z) -> (N,)`, row by row.
        x: The data, shape `(B, *E)`.
        latent: The shape `*Z` of one latent.
        chains: How many chains per example.
        temperatures: The inverse temperatures $β$ from 0 to 1; `sigmoid_schedule()` by default.
        leapfrog: How many steps of the position make up a move.
        step_size: The first length of such a step.
        jitter: Every move draws its step uniformly within this share of it; zero for none.
        adapt: How the step adapts to the acceptance of each chain; None to leave it.
        generator: Source of everything random; torch's global one by default.
        progress: Watches the temperatures.

    Returns:
        The log-likelihoods with the error from the spread of the chains, each of shape `(B,)`.

    Raises:
        TypeError: If `x` is not of real floating-point numbers.
        ValueError: If a number is out of range, or the likelihood not finite.

    Example:
        >>> decoder = lambda x, z: -((x - z).square() + 1.8378771).sum(1) / 2  # N(x; z, I)
        >>> x = torch.tensor([[0.0], [2.0]])
        >>> found = log_likelihood_ais(decoder, x, (1,), chains=100, step_size=0.2,
        ...                            temperatures=sigmoid_schedule(100))
        >>> exact = torch.tensor([-1.2655, -2.2655])  # N(x; 0, 2)
        >>> bool((found.value - exact).abs().max() < 0.1)
        True
    """
    require_counts(chains=chains)
    rows = tile(start(x), chains)
    z = torch.randn(len(rows), *latent, dtype=x.dtype, device=x.device, generator=generator)
    annealed = ais(
        _standard_normal,
        lambda z: _standard_normal(z) + log_likelihood(rows, z),
        z,
        temperatures=temperatures,
        leapfrog=leapfrog,
        step_size=step_size,
        jitter=jitter,
        adapt=adapt,
        generator=generator,
        progress=progress,
    )
    return log_mean_exp(annealed.log_weights.view(chains, len(x)))


def _between(prior: LogDensity, target: LogDensity, beta: float) -> LogDensity:
    """Return $(1 - β) log p_0 + β log f$."""
    return lambda x: (1 - beta) * prior(x) + beta * target(x)


def _standard_normal(z: Tensor) -> Tensor:
    return -(dot(z, z) + dimension(z) * math.log(2 * math.pi)) / 2


def _require_rising(betas: Sequence[float]) -> None:
    rising = len(betas) > 1 and sorted(set(betas)) == list(betas)
    if not (rising and betas[0] == 0 and betas[-1] == 1):
        raise ValueError(
            "inverse temperatures must rise from exactly 0 to exactly 1, as `sigmoid_schedule` "
            f"does, but there are {len(betas)}: {list(betas[:3])} … {list(betas[-3:])}"
        )


def _require_usable(prior: Tensor, target: Tensor) -> None:
    if not prior.isfinite().all():
        raise ValueError("the prior is not finite at its own samples, so `x` are not from it")
    if not (target < torch.inf).all():
        raise ValueError("the target is infinite or not a number at samples of the prior")
