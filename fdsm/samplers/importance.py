r"""Importance sampling of a normalizing constant.

$$Z = ∫ f(x) dx = E_q \left[ \frac{f(x)}{q(x)} \right]$$

The estimate is unbiased, but useless if the proposal $q$ misses regions with a large part of $Z$.
A small effective sample size shows this if the region was hit at least once. A region that was
never hit shows neither in the effective sample size nor in the error. To notice it, use samples of
the target (`bidirectional_log_partition`). A proposal with lighter tails than $f$ has weights of
infinite variance, and its error is too small; mix it with a broad one.
"""

import math
from dataclasses import dataclass

import torch
from torch import Generator, Tensor
from torch.distributions import Distribution

from ..derivatives.checks.arguments import as_normalized, check_values, checked_density
from ..tensors import dimension, randn_like
from ..typing import LogDensity, NormalizedDensity
from .chains import Progress, require_counts, require_positive, track
from .log_weights import log_sums, summarize


@dataclass(frozen=True, eq=False)
class GaussianMixtureProposal:
    r"""Mixture of equal isotropic Gaussians, $q(x) = \frac1K \sum_k N(x; c_k, s²I)$.

    With one row of zeros as the center it is $N(0, s²I)$. With rows of data it covers the data.

    Attributes:
        centers: The means $c_k$, shape `(K, *E)`. Samples have their dtype and device.
        scale: The standard deviation $s$.

    Example:
        >>> normal = GaussianMixtureProposal(torch.zeros(1, 3), scale=2.0)
        >>> normal.log_prob(torch.zeros(1, 3))  # -3/2 log 8π
        tensor([-4.8363])
    """

    centers: Tensor
    scale: float

    def __post_init__(self) -> None:
        require_positive(scale=self.scale)
        check_values(self.centers)
        if self.centers.ndim == 0 or self.centers.numel() == 0:
            raise ValueError(
                "a mixture needs at least one center, one per row, but the shape of centers is "
                f"{tuple(self.centers.shape)}"
            )

    def sample(self, n: int, generator: Generator | None = None) -> Tensor:
        """Return `n` independent samples, shape `(n, *E)`."""
        device = self.centers.device
        chosen = torch.randint(len(self.centers), (n,), device=device, generator=generator)
        x = self.centers[chosen]
        return x + self.scale * randn_like(x, generator)

    def log_prob(self, x: Tensor) -> Tensor:
        """Return $log q(x)$, shape `(N, *E) -> (N,)`."""
        rows, centers = (a.reshape(len(a), -1) for a in (x, self.centers))
        distances = torch.cdist(rows, centers, compute_mode="donot_use_mm_for_euclid_dist")
        exponents = -distances.square() / (2 * self.scale**2)
        log_volume = dimension(x) * math.log(2 * math.pi * self.scale**2) / 2
        return exponents.logsumexp(1) - math.log(len(centers)) - log_volume


@dataclass(frozen=True)
class MixtureProposal:
    """Mixture of several proposals with equal weights, for example a narrow and a broad one.

    Attributes:
        proposals: The components, each with `log_prob` and `sample`.

    Example:
        >>> data = torch.randn(100, 2)
        >>> narrow = GaussianMixtureProposal(data, 0.5)
        >>> broad = GaussianMixtureProposal(torch.zeros(1, 2), 3.0)
        >>> MixtureProposal((narrow, broad)).sample(10).shape
        torch.Size([10, 2])
    """

    proposals: tuple[NormalizedDensity | Distribution, ...]

    def __post_init__(self) -> None:
        if not self.proposals:
            raise ValueError("a mixture needs at least one proposal, but got none")

    def sample(self, n: int, generator: Generator | None = None) -> Tensor:
        """Return `n` independent samples, shape `(n, *E)`."""
        candidates = torch.stack([as_normalized(q).sample(n, generator) for q in self.proposals])
        device, count = candidates.device, len(self.proposals)
        chosen = torch.randint(count, (n,), device=device, generator=generator)
        return candidates[chosen, torch.arange(n, device=device)]

    def log_prob(self, x: Tensor) -> Tensor:
        """Return its log-density, normalized, shape `(N, *E) -> (N,)`."""
        parts = torch.stack([as_normalized(q).log_prob(x) for q in self.proposals])
        return parts.logsumexp(0) - math.log(len(parts))


@dataclass(frozen=True)
class LogPartition:
    r"""An estimate of $\log Z$ with its accuracy.

    Attributes:
        value: Logarithm of the mean weight.
        error: Standard error to first order. It is too small if the dominant weights were never
            drawn; see `bidirectional_log_partition` for a check.
        effective_sample_size: Number of equal weights with the same accuracy, from 1 to `samples`.
        samples: Number of samples.
    """

    value: float
    error: float
    effective_sample_size: float
    samples: int


def importance_log_partition(
    log_density: LogDensity,
    proposal: NormalizedDensity | Distribution,
    n: int,
    *,
    batch: int = 1000,
    generator: Generator | None = None,
    progress: Progress | None = None,
) -> LogPartition:
    r"""Estimate $\log Z$ of an unnormalized log-density with importance sampling.

    The error is estimated from the weights. It is too small, without a notice, if the proposal
    misses a mode or a spike of the density, or has lighter tails. Before you rely on the estimate,
    compare it with one that uses samples of the density::

        forward = importance_log_weights(log_density, proposal, proposal.sample(n))
        reverse = importance_log_weights(log_density, proposal, samples_of_the_density)
        estimate = bidirectional_log_partition(forward, reverse)

    Args:
        log_density: The log-density, `(N, *E) -> (N,)`. It may be minus infinity.
        proposal: The proposal $q$, with `log_prob` and `sample`: a distribution of
            `torch.distributions` or zuko, `fit_gaussian(x)`, a flow of `fdsm.evaluation`. The
            published choice for DKEF is `GaussianMixtureProposal(torch.zeros(1, d), 2.0)` with a
            million samples.
        n: Number of samples.
        batch: Number of samples in memory at once.
        generator: Random number generator. Default: the global generator of torch.
        progress: Shows the progress of the loop.

    Returns:
        The estimate with its error and effective sample size, computed in float64.

    Raises:
        ValueError: If a number is out of range, or a weight is infinite or NaN.

    Example:
        >>> f = lambda x: -x.square().sum(1) / 2
        >>> proposal = GaussianMixtureProposal(torch.zeros(1, 2), 1.5)
        >>> estimate = importance_log_partition(f, proposal, 20_000)
        >>> abs(estimate.value - 1.8379) < 5 * estimate.error < 0.1  # log 2π
        True
        >>> 0.68 < estimate.effective_sample_size / estimate.samples < 0.70
        True
    """
    require_counts(2, n=n)
    require_counts(batch=batch)
    q = as_normalized(proposal)
    total = torch.full((2,), -torch.inf, dtype=torch.float64)
    with torch.no_grad():
        for i in track(math.ceil(n / batch), progress):
            x = q.sample(min(batch, n - i * batch), generator)
            sums = log_sums(importance_log_weights(log_density, q, x, batch=batch))
            total = torch.logaddexp(total, torch.stack(sums).cpu())
    mean = summarize(total[0], total[1], n)
    return LogPartition(mean.value.item(), mean.error.item(), mean.effective_sample_size.item(), n)


@torch.no_grad()
def importance_log_weights(
    log_density: LogDensity,
    proposal: NormalizedDensity | Distribution,
    x: Tensor,
    *,
    batch: int = 1000,
) -> Tensor:
    r"""Return $\log f(x) - \log q(x)$ of each row, the logarithm of its weight.

    Args:
        log_density: The log-density $\log f$, `(N, *E) -> (N,)`.
        proposal: The proposal $q$.
        x: Samples of the proposal or of the density, shape `(B, *E)`.
        batch: Number of rows in memory at once.

    Returns:
        The log-weights, shape `(B,)`, in float64.

    Example:
        >>> q = GaussianMixtureProposal(torch.zeros(1, 2), 1.0)
        >>> importance_log_weights(lambda x: -x.square().sum(1) / 2, q, torch.randn(3, 2))
        tensor([1.8379, 1.8379, 1.8379], dtype=torch.float64)
    """
    require_counts(batch=batch)
    f, q = checked_density(log_density), checked_density(as_normalized(proposal).log_prob)
    return torch.cat([f(x).double() - q(x).double() for x in torch.split(x, batch)])
