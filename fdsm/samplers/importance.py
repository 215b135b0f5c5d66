r"""Importance sampling of a normaliser, with a proposal that is known.

$$Z = ∫ f(x) dx = E_q \left[ \frac{f(x)}{q(x)} \right]$$

Simple, unbiased, and good for nothing where $q$ misses what $f$ has: the effective sample size
shows this if some of it was hit, and agreement of two different proposals if not. A proposal with
lighter tails than $f$ has weights of infinite variance, so mix it with a broad one.
"""

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Generator, Tensor

from ..derivatives.validation import check_data, checked_density
from ..tensors import dimension, randn_like
from ..typing import LogDensity
from .chains import Progress, counted, require_counts, require_positive
from .weights import log_sums, summary


class Proposal(Protocol):
    """A density that can be sampled and evaluated."""

    def sample(self, n: int, generator: Generator | None = None) -> Tensor:
        """Return `n` independent samples, shape `(n, *E)`."""
        ...

    def log_density(self, x: Tensor) -> Tensor:
        """Return its log-density, normalised, `(N, *E) -> (N,)`."""
        ...


@dataclass(frozen=True, eq=False)
class GaussianMixture:
    r"""Equal Gaussians around given centres, $q(x) = \frac1K \sum_k N(x; c_k, s²I)$.

    Around one row of zeros it is $N(0, s²I)$; around rows of data it is where the data are.

    Attributes:
        centres: The means $c_k$, shape `(K, *E)`; samples share their dtype and device.
        scale: The standard deviation $s$.

    Example:
        >>> normal = GaussianMixture(torch.zeros(1, 3), scale=2.0)
        >>> normal.log_density(torch.zeros(1, 3))  # -3/2 log 8π
        tensor([-4.8363])
    """

    centres: Tensor
    scale: float

    def __post_init__(self) -> None:
        require_positive(scale=self.scale)
        if self.centres.ndim == 0 or self.centres.numel() == 0:
            raise ValueError(
                "a mixture takes at least one centre, a row each, but their shape is "
                f"{tuple(self.centres.shape)}"
            )
        check_data(self.centres)

    def sample(self, n: int, generator: Generator | None = None) -> Tensor:
        """Return `n` independent samples, shape `(n, *E)`."""
        device = self.centres.device
        chosen = torch.randint(len(self.centres), (n,), device=device, generator=generator)
        x = self.centres[chosen]
        return x + self.scale * randn_like(x, generator)

    def log_density(self, x: Tensor) -> Tensor:
        """Return $log q(x)$, normalised, shape `(N, *E) -> (N,)`."""
        rows, centres = (a.reshape(len(a), -1) for a in (x, self.centres))
        distances = torch.cdist(rows, centres, compute_mode="donot_use_mm_for_euclid_dist")
        exponents = -distances.square() / (2 * self.scale**2)
        log_volume = dimension(x) * math.log(2 * math.pi * self.scale**2) / 2
        return exponents.logsumexp(1) - math.log(len(centres)) - log_volume


@dataclass(frozen=True)
class Mixture:
    """Equal shares of several proposals, such as a close one and a broad one.

    Attributes:
        proposals: What it is made of.

    Example:
        >>> data = torch.randn(100, 2)
        >>> close, broad = GaussianMixture(data, 0.5), GaussianMixture(torch.zeros(1, 2), 3.0)
        >>> Mixture((close, broad)).sample(10).shape
        torch.Size([10, 2])
    """

    proposals: tuple[Proposal, ...]

    def __post_init__(self) -> None:
        if not self.proposals:
            raise ValueError("a mixture takes at least one proposal, but got none")

    def sample(self, n: int, generator: Generator | None = None) -> Tensor:
        """Return `n` independent samples, shape `(n, *E)`."""
        candidates = torch.stack([q.sample(n, generator) for q in self.proposals])
        device, count = candidates.device, len(self.proposals)
        chosen = torch.randint(count, (n,), device=device, generator=generator)
        return candidates[chosen, torch.arange(n, device=device)]

    def log_density(self, x: Tensor) -> Tensor:
        """Return its log-density, normalised, shape `(N, *E) -> (N,)`."""
        parts = torch.stack([q.log_density(x) for q in self.proposals])
        return parts.logsumexp(0) - math.log(len(parts))


@dataclass(frozen=True)
class LogPartition:
    r"""An estimate of $\log Z$, and how far to trust it.

    Attributes:
        value: The logarithm of the mean weight.
        error: Its standard error to first order; too small where the weights that matter were
            never drawn.
        effective_sample_size: How many equal weights would be as good, from 1 to `samples`.
        samples: How many were drawn.
    """

    value: float
    error: float
    effective_sample_size: float
    samples: int


def importance_log_partition(
    log_density: LogDensity,
    proposal: Proposal,
    n: int,
    *,
    batch: int = 1000,
    generator: Generator | None = None,
    progress: Progress | None = None,
) -> LogPartition:
    r"""Return $\log Z$ of a log-density that is not normalised, by importance sampling.

    Args:
        log_density: The log-density, `(N, *E) -> (N,)`; it may be minus infinity.
        proposal: Where to sample; `GaussianMixture(torch.zeros(1, d), 2.0)` and a million samples
            are the published choice for DKEF.
        n: How many samples.
        batch: How many are in memory at once.
        generator: Source of the samples; torch's global one by default.
        progress: Watches the batches.

    Returns:
        The estimate with its error and effective sample size. All in float64.

    Raises:
        ValueError: If a number is out of range, or a weight infinite or not a number.

    Example:
        >>> f = lambda x: -x.square().sum(1) / 2
        >>> estimate = importance_log_partition(f, GaussianMixture(torch.zeros(1, 2), 1.5), 20_000)
        >>> abs(estimate.value - 1.8379) < 5 * estimate.error < 0.1  # log 2π
        True
        >>> 0.68 < estimate.effective_sample_size / estimate.samples < 0.70
        True
    """
    require_counts(2, n=n)
    require_counts(batch=batch)
    f, q = checked_density(log_density), checked_density(proposal.log_density)
    total = torch.full((2,), -torch.inf, dtype=torch.float64)
    with torch.no_grad():
        for i in counted(math.ceil(n / batch), progress):
            x = proposal.sample(min(batch, n - i * batch), generator)
            sums = torch.stack(log_sums(f(x).double() - q(x).double()))
            total = torch.logaddexp(total, sums.cpu())
    mean = summary(total[0], total[1], n)
    return LogPartition(mean.value.item(), mean.error.item(), mean.effective_sample_size.item(), n)
