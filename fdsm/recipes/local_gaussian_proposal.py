r"""A proposal for importance sampling that is where the data are, and where the density is.

Around each of many rows there is a Gaussian with the covariance of the rows next to it, so that
the proposal is narrow where there are many and wide in the tails. What a model makes of the data
has other shapes still. So the proposal is refined: of its samples those with the largest weights
become the centres of a better one. It remains a known density, and the estimate unbiased.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import torch
from torch import Generator, Tensor

from ..evaluation import log_densities
from ..samplers import MixtureProposal
from ..samplers.importance import Proposal
from ..tensors import randn_like
from ..typing import LogDensity


@dataclass(frozen=True, eq=False)
class Neighbourhoods:
    r"""Gaussians around rows, each as wide in every direction as the rows next to it are far.

    $$q(x) = \frac1K \sum_k N(x; c_k, L_k L_k^T)$$

    Attributes:
        centres: The rows $c_k$, shape `(K, D)`.
        factors: The triangular factors $L_k$ of the covariances, shape `(K, D, D)`.
    """

    centres: Tensor
    factors: Tensor

    @classmethod
    def of(cls, rows: Tensor, scale: float, neighbours: int = 100, most: int = 1000) -> Self:
        r"""Return those around the first rows.

        A tenth of each covariance is $\bar λ I$, with $\bar λ$ the mean of its diagonal, though at
        least what a tenth of the rows are below: rows may coincide.

        Args:
            rows: Rows of data, shape `(N, D)`.
            scale: What the standard deviations are multiplied by.
            neighbours: Of how many rows, itself included, a row has the covariance.
            most: Around how many rows at most.

        Returns:
            The proposal.
        """
        centres, count = rows[:most], min(neighbours, len(rows))
        nearest = torch.cdist(centres, rows).topk(count, largest=False).indices
        differences = rows[nearest] - centres[:, None]
        covariances = differences.mT @ differences / count
        spread = covariances.diagonal(dim1=1, dim2=2).mean(1)
        spread = spread.clamp(min=max(spread.quantile(0.1).item(), 1e-12))
        eye = torch.eye(rows.shape[1], dtype=rows.dtype, device=rows.device)
        covariances = 0.9 * covariances + 0.1 * spread[:, None, None] * eye
        return cls(centres, scale * torch.linalg.cholesky(covariances))

    def sample(self, n: int, generator: Generator | None = None) -> Tensor:
        """Return `n` independent samples, shape `(n, D)`."""
        device = self.centres.device
        chosen = torch.randint(len(self.centres), (n,), device=device, generator=generator)
        c, factors = self.centres[chosen], self.factors[chosen]
        return c + (factors @ randn_like(c, generator)[..., None]).squeeze(-1)

    def log_density(self, x: Tensor) -> Tensor:
        """Return $log q(x)$, normalised, shape `(N, D) -> (N,)`."""
        i, j = torch.triu_indices(*self.factors.shape[1:], device=x.device)
        monomials = torch.cat([x[:, i] * x[:, j], x, torch.ones_like(x[:, :1])], 1)
        return (monomials @ self._coefficients.T).logsumexp(1)

    @cached_property
    def _coefficients(self) -> Tensor:
        """The log-densities of the parts as quadratic polynomials, a row each."""
        precisions, d = torch.cholesky_inverse(self.factors), self.centres.shape[1]
        i, j = torch.triu_indices(d, d, device=self.centres.device)
        squares = -precisions[:, i, j] * torch.where(i == j, 0.5, 1.0).to(precisions.dtype)
        linear = (precisions @ self.centres[..., None]).squeeze(-1)
        log_volume = self.factors.diagonal(dim1=1, dim2=2).log().sum(1)
        log_volume = log_volume + d * math.log(2 * math.pi) / 2 + math.log(len(self.centres))
        constant = -(self.centres * linear).sum(1) / 2 - log_volume
        return torch.cat([squares, linear, constant[:, None]], 1)


def refined(
    log_density: LogDensity,
    rows: Tensor,
    broad: Proposal,
    *,
    pilot: int,
    rounds: int = 2,
    generator: Generator | None = None,
) -> MixtureProposal:
    """Return a proposal for a density that was trained on rows.

    Args:
        log_density: The density, not normalised, `(N, D) -> (N,)`.
        rows: The rows, shape `(N, D)`.
        broad: A proposal with the tails of the density, which has a share of the mixture.
        pilot: How many samples to choose centres from in each round, one in twenty.
        rounds: How often to do so.
        generator: Source of the samples; torch's global one by default.

    Returns:
        The broad proposal, neighbourhoods of rows, and narrow and wide ones of chosen samples.
    """
    known = (broad, Neighbourhoods.of(rows, 0.8))
    proposal = MixtureProposal(known)
    for _ in range(rounds):
        x = proposal.sample(pilot, generator)
        log_weights = log_densities(log_density, x) - log_densities(proposal.log_density, x)
        weights = log_weights.softmax(0).clamp(min=1e-200)
        best = torch.multinomial(weights, max(2, pilot // 20), generator=generator)
        narrow, wide = (Neighbourhoods.of(x[best], *width) for width in ((0.7, 60), (1.0, 100)))
        proposal = MixtureProposal((*known, narrow, wide))
    return proposal
