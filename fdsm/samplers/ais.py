r"""Annealed importance sampling (AIS) of a normalizing constant.

Chains start at samples of a prior and pass through the densities

$$\log f_β(x) = (1 - β) \log p_0(x) + β \log f(x), \qquad 0 = β_0 < … < β_T = 1.$$

Their weights are $\log w = \sum_t (β_t - β_{t-1}) (\log f - \log p_0)(x_{t-1})$, where $x_t$ is
$x_{t-1}$ after a move of Hamiltonian Monte Carlo that leaves $f_{β_t}$ invariant. Then
$E[w] = Z = ∫ f$ for any number of temperatures. The mean of $\log w$ is a lower bound of $\log Z$,
which is tight if there are many temperatures and the chains mix well.

The weights do not show a mode, a spike or a heavy tail that no chain has reached: the estimate is
too low, the reported error small and the effective sample size high. Samples of $f / Z$ show it.
In the reverse direction, `ais(log_target, log_prior, samples)` estimates $1/Z$, so minus the
logarithm of its mean is too high on average (bidirectional Monte Carlo; Grosse et al. (2015),
https://arxiv.org/abs/1511.02543). `bidirectional_log_partition` combines and compares both.

$E[w] = Z$ holds exactly if the moves do not depend on the history of the chain. The published
evaluation adapts the step size of each chain to its acceptance rate. This is the default here, but
is not exact; `adapt=None` keeps the step constant and is exact. The published initial step, 0.01,
takes about 150 temperatures to grow to a useful size. The bound is tighter if `step_size` is close
to the final `step_sizes`. Unlike the published evaluation, every move also adds random jitter to
its step, which is exact and tightens the bound; `jitter=0.0` disables it.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from ..derivatives.checks.arguments import checked_density
from ..tensors import dimension, dot, tile
from ..typing import DensityFunction, LogDensity
from .chains import Progress, require_counts, require_positive, track, validate_start
from .hmc import move
from .log_weights import LogMean, log_mean_exp
from .step_adaptation import ADAPTATION, StepAdaptation, initial_step_sizes


@dataclass(frozen=True, eq=False)
class AnnealedWeights:
    """The result of annealed importance sampling, one row per chain.

    Attributes:
        log_weights: Logarithms of the weights, shape `(B,)`, in float64.
        samples: Last states, shape `(B, *E)`. With these weights they are samples of the target.
        acceptance: Mean acceptance probability of each chain, shape `(B,)`.
        step_sizes: Last step size of each chain, shape `(B,)`.
    """

    log_weights: Tensor
    samples: Tensor
    acceptance: Tensor
    step_sizes: Tensor

    @property
    def log_partition(self) -> LogMean:
        r"""The estimate of $\log Z$ from all chains.

        Its error is too small if all chains miss a region with a large part of $Z$. See
        `bidirectional_log_partition` for a check.
        """
        return log_mean_exp(self.log_weights)


def sigmoid_schedule(count: int = 1000, radius: float = 4.0) -> tuple[float, ...]:
    """Return inverse temperatures from 0 to 1 that are denser at both ends.

    Args:
        count: Number of temperatures.
        radius: The sigmoid is evaluated from `-radius` to `radius` and rescaled.

    Returns:
        The inverse temperatures, increasing from exactly 0 to exactly 1.

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
    adapt: StepAdaptation | None = ADAPTATION,
    generator: Generator | None = None,
    progress: Progress | None = None,
) -> AnnealedWeights:
    r"""Return weights whose mean is the normalizing constant of a target density.

    The error of `log_partition` is estimated from the weights. It is too small, without a notice,
    if the chains miss a mode or a spike of the target, or if it has heavy tails. Before you rely
    on the estimate, run the chains in both directions with fixed steps and compare::

        forward = ais(log_prior, log_target, x, adapt=None)
        reverse = ais(log_target, log_prior, samples_of_the_target, adapt=None)
        estimate = bidirectional_log_partition(forward.log_weights, -reverse.log_weights)

    Reference:
        Neal (2001), https://arxiv.org/abs/physics/9803008.
        Wu et al. (2017), https://arxiv.org/abs/1611.04273, for decoders.

    Args:
        log_prior: Normalized log-density of the prior, `(B, *E) -> (B,)`.
        log_target: Unnormalized log-density of the target, `(B, *E) -> (B,)`. It may be minus
            infinity.
        x: Independent samples of the prior, one per chain, shape `(B, *E)`.
        temperatures: Inverse temperatures $β$ from 0 to 1. Default: `sigmoid_schedule()`.
        leapfrog: Number of leapfrog steps per move. The default needs ten gradients, as in the
            published evaluation.
        step_size: Initial step size.
        jitter: Each move draws its step uniformly within this relative distance of the step size.
        adapt: How step sizes adapt to the acceptance rate; None to keep them constant.
        generator: Random number generator. Default: the global generator of torch.
        progress: Shows the progress of the loop.

    Returns:
        The weights, the last states, acceptance rates and step sizes.

    Raises:
        TypeError: If `x` is not a tensor of real floating-point numbers.
        ValueError: If a number is out of range, or a log-density is not usable at `x`.

    Example:
        >>> prior = lambda x: -(x.square() + 1.8378771).sum(1) / 2  # log 2π
        >>> target = lambda x: -2 * (x - 1).square().sum(1)
        >>> weights = ais(prior, target, torch.randn(500, 3), step_size=0.2,
        ...               temperatures=sigmoid_schedule(100))
        >>> bool((weights.log_partition.value - 0.6774).abs() < 0.1)  # 3/2 log π/2
        True
    """
    betas = sigmoid_schedule() if temperatures is None else temperatures
    _require_increasing(betas)
    require_counts(leapfrog=leapfrog)
    x = validate_start(x)
    step_sizes = initial_step_sizes(x, step_size, jitter, adapt)
    prior, target = checked_density(log_prior), checked_density(log_target)
    log_weights = torch.zeros(len(x), dtype=torch.float64, device=x.device)
    acceptance = torch.zeros_like(step_sizes.step)
    with torch.no_grad():
        _require_usable(prior(x), target(x))
        for t in track(len(betas) - 1, progress):
            log_weights = log_weights + (betas[t + 1] - betas[t]) * (target(x) - prior(x))
            bridge = _between(prior, target, betas[t + 1])
            step = step_sizes.sample(generator)
            x, probability = move(bridge, x, step, leapfrog, generator)
            acceptance = acceptance + probability / (len(betas) - 1)
            step_sizes = step_sizes.update(probability)
    return AnnealedWeights(log_weights, x, acceptance, step_sizes.step)


def latent_log_likelihood_ais(
    log_likelihood: Callable[[Tensor, Tensor], Tensor],
    x: Tensor,
    latent: tuple[int, ...],
    *,
    chains: int = 16,
    temperatures: Sequence[float] | None = None,
    leapfrog: int = 9,
    step_size: float = 0.01,
    jitter: float = 0.2,
    adapt: StepAdaptation | None = ADAPTATION,
    posterior: Tensor | None = None,
    generator: Generator | None = None,
    progress: Progress | None = None,
) -> LogMean:
    r"""Return $\log p(x)$ of a decoder, $p(x) = ∫ p(x|z) N(z; 0, I) dz$, for each example.

    This is annealed importance sampling with $\log f_β(z) = \log p(z) + β \log p(x|z)$. The chains
    of all examples run at once, with `chains · B` latents in memory, so pass large data in parts.
    The defaults are those of the published evaluation, except for the jitter.

    The estimates are too low on average, and the errors of few chains are too small: they do not
    include modes of $p(z|x)$ that no chain has reached. To measure by how much, simulate data from
    the decoder. Then the latents are exact samples of $p(z|x)$, and annealing from them gives
    estimates that are too high on average. The mean difference bounds the mean error of both:

    ```python
    z = torch.randn(100, *latent)
    x = sample_of_the_decoder(z)
    low = latent_log_likelihood_ais(log_likelihood, x, latent)
    high = latent_log_likelihood_ais(log_likelihood, x, latent, posterior=z)
    gap = (high.value - low.value).mean()
    ```

    Reference:
        Wu et al. (2017), https://arxiv.org/abs/1611.04273.
        Pang et al. (2020), https://arxiv.org/abs/2007.03317, Table 6.

    Args:
        log_likelihood: The decoder's $\log p(x|z)$, `(N, *E), (N, *Z) -> (N,)`, row by row.
        x: The data, shape `(B, *E)`.
        latent: The shape `*Z` of one latent.
        chains: Number of chains per example.
        temperatures: Inverse temperatures $β$ from 0 to 1. Default: `sigmoid_schedule()`.
        leapfrog: Number of leapfrog steps per move.
        step_size: Initial step size.
        jitter: Each move draws its step uniformly within this relative distance of the step size.
        adapt: How step sizes adapt to the acceptance rate; None to keep them constant.
        posterior: An exact sample of $p(z|x)$ for each example, shape `(B, *Z)`. All chains of an
            example start there and end at the prior. Default: chains start at the prior.
        generator: Random number generator. Default: the global generator of torch.
        progress: Shows the progress of the loop.

    Returns:
        The log-likelihoods, with errors from the spread of the chains, each of shape `(B,)`.

    Raises:
        TypeError: If `x` is not a tensor of real floating-point numbers.
        ValueError: If a number is out of range, `posterior` has the wrong shape, or the likelihood
            is not finite.

    Example:
        >>> decoder = lambda x, z: -((x - z).square() + 1.8378771).sum(1) / 2  # N(x; z, I)
        >>> x = torch.tensor([[0.0], [2.0]])
        >>> estimate = latent_log_likelihood_ais(decoder, x, (1,), chains=100, step_size=0.2,
        ...                               temperatures=sigmoid_schedule(100))
        >>> exact = torch.tensor([-1.2655, -2.2655])  # N(x; 0, 2)
        >>> bool((estimate.value - exact).abs().max() < 0.1)
        True
    """
    require_counts(chains=chains)
    rows = tile(validate_start(x), chains)
    joint = lambda z: _standard_normal(z) + log_likelihood(rows, z)
    if posterior is None:
        z = torch.randn(len(rows), *latent, dtype=x.dtype, device=x.device, generator=generator)
        first, last, sign = _standard_normal, joint, 1
    elif posterior.shape == (len(x), *latent):
        z, first, last, sign = tile(posterior, chains), joint, _standard_normal, -1
    else:
        raise ValueError(
            f"posterior must have shape {(len(x), *latent)}, one latent per example, but has "
            f"shape {tuple(posterior.shape)}"
        )
    annealed = ais(
        first,
        last,
        z,
        temperatures=temperatures,
        leapfrog=leapfrog,
        step_size=step_size,
        jitter=jitter,
        adapt=adapt,
        generator=generator,
        progress=progress,
    )
    mean = log_mean_exp(annealed.log_weights.view(chains, len(x)))
    return LogMean(sign * mean.value, mean.error, mean.effective_sample_size)


def _between(prior: DensityFunction, target: DensityFunction, beta: float) -> DensityFunction:
    """Return $(1 - β) log p_0 + β log f$."""
    return lambda x: (1 - beta) * prior(x) + beta * target(x)


def _standard_normal(z: Tensor) -> Tensor:
    return -(dot(z, z) + dimension(z) * math.log(2 * math.pi)) / 2


def _require_increasing(betas: Sequence[float]) -> None:
    increasing = len(betas) > 1 and sorted(set(betas)) == list(betas)
    if not (increasing and betas[0] == 0 and betas[-1] == 1):
        raise ValueError(
            "inverse temperatures must increase from exactly 0 to exactly 1, as in "
            f"`sigmoid_schedule`, but the {len(betas)} given are {list(betas[:3])} … "
            f"{list(betas[-3:])}"
        )


def _require_usable(prior: Tensor, target: Tensor) -> None:
    if not prior.isfinite().all():
        raise ValueError(
            "the log-density of the prior is not finite at `x`, so `x` are not samples of it"
        )
    if not (target < torch.inf).all():
        raise ValueError(
            "the log-density of the target is infinite or NaN at samples of the prior"
        )
