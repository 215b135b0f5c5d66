r"""Score matching of latent-variable models.

Their log-likelihood $\log p(x) = \log E_{q(z|x)}[p(x, z) / q(z|x)]$ is not to be had, but it has
an estimator, SUMO, made of importance-weighted bounds with a random number of samples.
Finite differences need nothing but values, so the estimator can take the place of the density:
the second difference stays unbiased for it, and by Jensen's inequality the square of the first
becomes an upper bound.

The bound is only as good as the estimates at $x + v$ and $x - v$ are alike: if they are drawn
independently it exceeds the truth by a variance of order $1/ε²$. So all nodes share one number of
samples and one draw of the noise behind them (common random numbers). The number of samples is
bounded, too: with an unbounded one the estimator is unbiased, but the square of its derivative has
no mean, since the terms of the series fall no faster than $1/k$.
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

LogWeight = Callable[..., Tensor]
r"""`(N, *E), (N, *Z), *cond -> (N,)`: $\log p(x, z) - \log q(z|x)$ at $z = z(x, \text{noise})$."""


def iwae(log_weights: Tensor) -> Tensor:
    r"""Return the importance-weighted bounds $\log \frac1k \sum_{j≤k} w_j$ for all `k`.

    Args:
        log_weights: $\log w_j$, shape `(B, K)`; minus infinity leaves a sample out.

    Returns:
        The bounds for `k = 1, …, K`, shape `(B, K)`.
    """
    k = torch.arange(1, log_weights.shape[1] + 1, device=log_weights.device)
    return log_weights.logcumsumexp(1) - k.to(log_weights.dtype).log()


def sumo(log_weights: Tensor, terms: Tensor) -> Tensor:
    r"""Return the estimate of the log-likelihood from a randomly truncated telescoping series.

    $$\mathrm{SUMO} = \mathrm{IWAE}_1 + \sum_{k=1}^{K}
      k \left( \mathrm{IWAE}_{k+1} - \mathrm{IWAE}_k \right), \qquad P(\mathcal K ≥ k) = \frac1k$$

    Its mean over $K$, if $K$ is at most $n$, is that of $\mathrm{IWAE}_{n+1}$.

    Reference:
        Luo et al. (2020), https://arxiv.org/abs/2004.00353.
        Pang et al. (2020), https://arxiv.org/abs/2007.03317, App. B.6, where the sum over $j$ in
        IWAE has a $z_k$ for $z_j$.

    Args:
        log_weights: $\log w_j$, shape `(B, K + 1)`, as many as the largest number of terms needs.
        terms: The number of terms $K$ of each example, shape `(B,)`.

    Returns:
        The estimates, shape `(B,)`.
    """
    bounds = iwae(log_weights)
    k = torch.arange(1, bounds.shape[1], device=bounds.device)
    used = k <= terms[:, None]
    steps = torch.where(used, bounds.diff(dim=1), 0) * k  # over P(K ≥ k) = 1/k
    return bounds[:, 0] + steps.sum(1)


@dataclass(frozen=True)
class SUMO:
    r"""An upper bound on a finite-difference objective of a latent-variable model.

    The objective is applied to the SUMO estimate of $\log p$ with common random numbers at all
    nodes. Its mean is at least that of the objective at $E[\mathrm{IWAE}_{n+1}]$, which differs
    from $\log p$ by $O(1/n)$ for `n` the most terms; it exceeds it by the variance of the
    estimated slope, which comes from the encoder's error and grows with $\log n$.

    Reference:
        Pang et al. (2020), https://arxiv.org/abs/2007.03317, App. B.6 (which calls it a lower
        bound, and has $x$ and $+2$ for $x - v$ in the first equation of the bound).

    Attributes:
        latent: The shape `*Z` of the standard normal noise that makes one sample of $z$.
        objective: What to bound: FD-SSM, or FD-DSM.
        terms: The most terms of the series, `n`. One example takes $1 + \sum_{k≤n} 1/k$ samples in
            the mean, six for 80.

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
                "SUMO takes the shape of the noise as a tuple and at least one term, but got "
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
            log_weight: $\log p(x, z) - \log q(z|x)$ as a function of `x`, the noise behind `z`
                and `cond`.
            x: The data, shape `(B, *E)`.
            cond: Passed on to `log_weight`, a row per example.
            generator: Source of everything random.

        Returns:
            One loss per example.
        """
        require_floating(x)
        terms = draw_terms(x, self.terms, generator)
        shape = (len(x), max([1, *terms.tolist()]) + 1, *self.latent)
        noise = torch.randn(shape, dtype=x.dtype, device=x.device, generator=generator)
        estimate = log_likelihood(log_weight)
        return self.objective(estimate, x, noise, terms, *cond, generator=generator)


def draw_terms(x: Tensor, most: int, generator: Generator | None = None) -> Tensor:
    """Return a number of terms per row of `x`, $P(K ≥ k) = 1/k$ up to `most`, shape `(B,)`."""
    u = 1 - torch.rand(len(x), dtype=torch.float64, device=x.device, generator=generator)
    return (1 / u).floor().clamp(max=most).long()


def log_likelihood(log_weight: LogWeight) -> DensityFunction:
    """Return the SUMO estimate as a log-density of `x`, given noise and numbers of terms.

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
