r"""Score matching of latent-variable models.

Their log-likelihood $\log p(x) = \log E_{q(z|x)}[p(x, z) / q(z|x)]$ is intractable, but has an
estimator, SUMO, a series of importance-weighted bounds with a random number of samples. Finite
differences need only values, so they can use the estimator in place of the density. The second
difference remains unbiased. By Jensen's inequality the square of the first difference becomes an
upper bound.

The bound is tight only if the estimates at $x + v$ and $x - v$ are correlated: if they are
independent, it exceeds the true value by a variance of order $1/ε²$. Therefore all nodes use the
same number of samples and the same noise (common random numbers). The number of samples is
bounded. With an unbounded number the estimator is unbiased, but the square of its derivative has
no mean, because the terms of the series decrease no faster than $1/k$.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from ..derivatives import FiniteDifference
from ..projections import Sphere
from ..tensors import require_floating
from ..typing import DensityFunction, Objective
from .sliced import SSM

__all__ = ["SUMO", "LogWeight", "draw_terms", "iwae", "log_likelihood", "sumo"]

LogWeight = Callable[..., Tensor]
r"""`(N, *E), (N, *Z), *cond -> (N,)`: $\log p(x, z) - \log q(z|x)$ at $z = z(x, \text{noise})$."""


def iwae(log_weights: Tensor) -> Tensor:
    r"""Return the importance-weighted bounds $\log \frac1k \sum_{j≤k} w_j$ for all `k`.

    Args:
        log_weights: $\log w_j$, shape `(B, K)`. Minus infinity excludes a sample.

    Returns:
        The bounds for `k = 1, …, K`, shape `(B, K)`.
    """
    k = torch.arange(1, log_weights.shape[1] + 1, device=log_weights.device)
    return log_weights.logcumsumexp(1) - k.to(log_weights.dtype).log()


def sumo(log_weights: Tensor, terms: Tensor) -> Tensor:
    r"""Return the SUMO estimate of the log-likelihood, a randomly truncated telescoping series.

    $$\mathrm{SUMO} = \mathrm{IWAE}_1 + \sum_{k=1}^{K}
      k \left( \mathrm{IWAE}_{k+1} - \mathrm{IWAE}_k \right), \qquad P(K ≥ k) = \frac1k$$

    If $K$ is at most $n$, its mean over $K$ is that of $\mathrm{IWAE}_{n+1}$.

    Reference:
        Luo et al. (2020), https://arxiv.org/abs/2004.00353.
        Pang et al. (2020), https://arxiv.org/abs/2007.03317, App. B.6. In its sum over $j$ in
        IWAE, $z_k$ should be $z_j$.

    Args:
        log_weights: $\log w_j$, shape `(B, n + 1)`, with the largest number of terms $n$.
        terms: Number of terms $K$ of each example, shape `(B,)`.

    Returns:
        The estimates, shape `(B,)`.
    """
    bounds = iwae(log_weights)
    k = torch.arange(1, bounds.shape[1], device=bounds.device)
    used = k <= terms[:, None]
    steps = torch.where(used, bounds.diff(dim=1), 0) * k  # divided by P(K ≥ k) = 1/k
    return bounds[:, 0] + steps.sum(1)


@dataclass(frozen=True)
class SUMO:
    r"""An upper bound on a finite-difference objective of a latent-variable model.

    The objective is applied to the SUMO estimate of $\log p$ with common random numbers at all
    nodes. Its mean is at least that of the objective at $E[\mathrm{IWAE}_{n+1}]$, which differs
    from $\log p$ by $O(1/n)$, where `n` is the maximum number of terms. The excess is the variance
    of the estimated slope. It is caused by the error of the encoder and grows with $\log n$.

    Reference:
        Pang et al. (2020), https://arxiv.org/abs/2007.03317, App. B.6. The paper calls it a lower
        bound, and has $x$ and $+2$ in place of $x - v$ in the first equation of the bound.

    Attributes:
        latent: The shape `*Z` of the standard normal noise of one sample of $z$.
        objective: The objective to bound: FD-SSM or FD-DSM.
        terms: Maximum number of terms of the series, `n`. An example needs $1 + \sum_{k≤n} 1/k$
            samples on average, six for 80.

    Example:
        >>> def log_weight(x, noise):  # p(z) = q(z) = N(0, I), p(x|z) = N(z, I)
        ...     return -(x - noise).square().sum(1) / 2
        >>> SUMO((2,))(log_weight, torch.zeros(4, 2)).shape
        torch.Size([4])
    """

    latent: tuple[int, ...]
    objective: Objective = SSM(FiniteDifference(), Sphere(0.1))
    terms: int = 80

    def __post_init__(self) -> None:
        if not isinstance(self.latent, tuple) or self.terms < 1:
            raise ValueError(
                "latent must be a shape (a tuple) and terms at least 1, but got "
                f"{self.latent!r} and {self.terms}"
            )

    def __call__(
        self,
        log_weight: LogWeight,
        x: Tensor,
        /,
        *cond: Tensor,
        generator: Generator | None = None,
    ) -> Tensor:
        r"""Return the losses at `x`, shape `(B,)`.

        Args:
            log_weight: $\log p(x, z) - \log q(z|x)$ as a function of `x`, the noise of `z` and
                `cond`.
            x: The data, shape `(B, *E)`.
            cond: Further arguments of `log_weight`, one row per example.
            generator: Random number generator. Default: the global generator of torch.

        Returns:
            One loss per example.
        """
        require_floating(x)
        terms = draw_terms(x, self.terms, generator)
        shape = (len(x), max([1, *terms.tolist()]) + 1, *self.latent)
        noise = torch.randn(shape, dtype=x.dtype, device=x.device, generator=generator)
        estimate = log_likelihood(log_weight)
        return self.objective(estimate, x, noise, terms, *cond, generator=generator)


def draw_terms(x: Tensor, max_terms: int, generator: Generator | None = None) -> Tensor:
    """Return a random number of terms per row, $P(K ≥ k) = 1/k$ up to `max_terms`, `(B,)`."""
    u = 1 - torch.rand(len(x), dtype=torch.float64, device=x.device, generator=generator)
    return (1 / u).floor().clamp(max=max_terms).long()


def log_likelihood(log_weight: LogWeight) -> DensityFunction:
    """Return the SUMO estimate as a log-density of `x`, conditioned on noise and terms.

    Only the samples that an example uses are evaluated.

    Args:
        log_weight: The importance weight of one sample.

    Returns:
        A function `(B, *E), (B, K + 1, *Z), (B,), *cond -> (B,)`.
    """

    def estimate(x: Tensor, noise: Tensor, terms: Tensor, *cond: Tensor) -> Tensor:
        used = torch.arange(noise.shape[1], device=x.device) <= terms[:, None]
        rows = used.nonzero()[:, 0]
        weights = log_weight(x[rows], noise[used], *(c[rows] for c in cond))
        if weights.shape != rows.shape:
            raise ValueError(
                f"log-weights of {len(rows)} samples must have shape {tuple(rows.shape)}, "
                f"but have {tuple(weights.shape)}"
            )
        padded = weights.new_full(used.shape, -torch.inf).masked_scatter(used, weights)
        return sumo(padded, terms)

    return estimate
