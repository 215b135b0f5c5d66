r"""Estimate of a normalizing constant from samples at both ends, which notices missed regions.

Let $q$ be a proposal or prior and $f$ a density with $Z = ∫ f$. An estimate from samples of $q$
alone is too low if they miss a region with a large part of $Z$, such as a mode, a spike or a heavy
tail. Its error does not show it, because the large weights were never drawn. Samples of the target
$f / Z$ are in that region.

The log-weights $l = \log f - \log q$ have a density $p_F$ at samples of $q$ and a density $p_R$ at
samples of the target, with $p_R(l) = p_F(l) e^l / Z$. The weights of annealed importance sampling
in both directions have the same property. So there are three estimates of $\log Z$:

$$\log \frac1n \sum_F e^{l_i}, \qquad -\log \frac1m \sum_R e^{-l_j}, \qquad
  \sum_F σ(l_i - c) = \sum_R σ(c - l_j) \;\text{ with }\; c = \log Z + \log \frac nm.$$

The first is too low on average and the second too high. The third is the acceptance ratio of
Bennett. Its terms are bounded, so that its variance is finite for tails of any weight. If $q$
misses a part of the target, the first is wrong and the third is right. If the given samples miss a
part of the target, the third is wrong and the first is right. In both cases the two disagree. A
region that is missed by both is not noticed.
"""

import math
import warnings
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from .log_weights import LogMean, log_mean_exp

LARGEST_DIFFERENCE = 3.0
"""Largest difference of consistent estimates, in standard errors."""
ROUNDING = 1e-5
"""Differences below this number of nats are ignored, because log-densities are rounded."""


class LogPartitionWarning(UserWarning):
    """Two estimates of a normalizing constant disagree."""


@dataclass(frozen=True, eq=False)
class BidirectionalEstimate:
    r"""An estimate of $\log Z$ from both ends, and whether it agrees with that from one end.

    Attributes:
        value: The acceptance ratio.
        error: Its standard error and half the difference to `forward`, added in quadrature. If
            one of the two is right, the other is at most two of these errors away.
        forward: The estimate from samples of the proposal alone, which is too low on average.
        reverse: The estimate from samples of the target alone, which is too high on average. Its
            variance is infinite if the tails of the proposal are much heavier than those of the
            target, which does no harm to the other two.
        consistent: Whether `value` and `forward` agree within three standard errors. If not, do
            not use the estimate.
    """

    value: float
    error: float
    forward: LogMean
    reverse: LogMean
    consistent: bool

    @property
    def verdict(self) -> str:
        """The result of the comparison, as a sentence."""
        estimates = (
            f"{self.forward.value:.4g} ± {self.forward.error:.2g} from samples of the proposal "
            f"alone and {self.value:.4g} ± {self.error:.2g} from both ends"
        )
        if self.consistent:
            return f"The estimates of log Z agree within their errors: {estimates}"
        return (
            f"The estimates of log Z disagree: {estimates}. Either the proposal misses a part of "
            "the target, or the samples of the target are not samples of it. Use a wider "
            "proposal, more temperatures or better samples"
        )


def bidirectional_log_partition(forward: Tensor, reverse: Tensor) -> BidirectionalEstimate:
    r"""Estimate $\log Z$ from log-weights at samples of the proposal and of the target.

    For importance sampling both are `importance_log_weights`, at samples of the proposal and at
    samples of the target. For annealed importance sampling they are
    `ais(log_prior, log_target, x).log_weights` and
    `-ais(log_target, log_prior, samples).log_weights`, with `adapt=None`, the same step size and
    a symmetric schedule, such as `sigmoid_schedule`.

    Without exact samples of the target, rows of data that were moved by `hmc` with the target as
    the density are a substitute. They are close to the target if the model fits the data. If it
    does not, the estimates may disagree although the proposal is good. The samples must be
    independent, for example the last states of chains that start at different rows.

    Reference:
        Bennett (1976), https://doi.org/10.1016/0021-9991(76)90078-4.
        Meng and Wong (1996), Statistica Sinica 6, 831-860.
        Crooks (1999), https://doi.org/10.1103/PhysRevE.60.2721, for annealed weights.
        Shirts et al. (2003), https://doi.org/10.1103/PhysRevLett.91.140601, for the error.
        Grosse et al. (2015), https://arxiv.org/abs/1511.02543.

    Args:
        forward: Log-weights $l_i$ of samples of the proposal, shape `(n,)`. Minus infinity is
            allowed, where $f = 0$.
        reverse: Log-weights $l_j$ of samples of the target, shape `(m,)`. Infinity is allowed,
            where $q = 0$.

    Returns:
        The estimate, computed in float64. A `LogPartitionWarning` is issued if it is not
        consistent.

    Raises:
        ValueError: If the log-weights are not two vectors of at least two numbers each, or if
            they are not usable.

    Example:
        Two modes at 0 and 8, and a proposal $N(0, 1)$ that misses the second:

        >>> q = torch.distributions.Normal(0.0, 1.0)
        >>> f = lambda x: torch.logaddexp(q.log_prob(x), q.log_prob(x - 8))  # Z = 2
        >>> x, target = torch.randn(2000), torch.randn(2000) + 8 * (torch.arange(2000) % 2)
        >>> forward, reverse = (f(x) - q.log_prob(x) for x in (x, target))
        >>> with warnings.catch_warnings(action="ignore"):
        ...     estimate = bidirectional_log_partition(forward, reverse)
        >>> estimate.consistent, abs(estimate.forward.value.item()) < 0.01
        (False, True)
        >>> abs(estimate.value - math.log(2)) < 0.1
        True
    """
    n, m = _require_vector(forward=forward), _require_vector(reverse=reverse)
    below, above = log_mean_exp(forward), log_mean_exp(-reverse)
    forward, reverse = forward.double(), reverse.to(forward.device).double()
    value = _acceptance_ratio(forward, reverse)
    log_odds = torch.cat([forward, reverse]) - value + math.log(m / n)
    log_information = (logsigmoid(log_odds) + logsigmoid(-log_odds)).logsumexp(0).item()
    variance = max(0.0, math.exp(min(700.0, -log_information)) - 1 / n - 1 / m)
    gap = abs(value - below.value.item())
    tolerance = LARGEST_DIFFERENCE * math.hypot(below.error.item(), math.sqrt(variance))
    estimate = BidirectionalEstimate(
        value,
        math.hypot(math.sqrt(variance), gap / 2),
        below,
        LogMean(-above.value, above.error, above.effective_sample_size),
        gap <= max(ROUNDING, tolerance),
    )
    if not estimate.consistent:
        warnings.warn(estimate.verdict, LogPartitionWarning, stacklevel=2)
    return estimate


def _acceptance_ratio(forward: Tensor, reverse: Tensor) -> float:
    """Return the root in log Z by bisection."""
    n, m = len(forward), len(reverse)
    finite = torch.cat([forward, reverse])
    finite = finite[finite.isfinite()]
    if not len(finite):
        raise ValueError("all weights are zero or infinite: proposal and target do not overlap")
    low, high = finite.min().item() - math.log(n), finite.max().item() + math.log(m)
    while low < (value := (low + high) / 2) < high:
        c = value + math.log(n / m)
        if (forward - c).sigmoid().sum() > (c - reverse).sigmoid().sum():
            low = value
        else:
            high = value
    return value


def _require_vector(**log_weights: Tensor) -> int:
    """Return the number of log-weights."""
    ((name, values),) = log_weights.items()
    if values.ndim != 1 or len(values) < 2:
        raise ValueError(
            f"{name} must be a vector of at least two log-weights, but has shape "
            f"{tuple(values.shape)}"
        )
    return len(values)
