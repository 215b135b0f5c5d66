r"""Denoising score matching from rows with missing cells.

The marginal density of the observed cells of a row is an integral over the missing ones. Its score
is an average of the score of the model over draws of the missing cells, with importance weights.
"""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Generator, Tensor

from ..derivatives import as_log_density, score_of
from ..derivatives.checks.arguments import check_data, check_noise, require_density_shape
from ..noise import require_levels
from ..tensors import dimension, dot, randn_like, require_floating
from ..typing import LogDensity

MIN_VARIANCE = 1e-6
"""Smallest eigenvalue of a fitted covariance, relative to the largest."""


@dataclass(frozen=True, eq=False)
class GaussianProposal:
    r"""Draws missing cells from a Gaussian given the observed cells of their row.

    Importance weights correct for its difference from the model, so it need not be exact. It
    should not be narrower than the model.

    Attributes:
        mean: The mean $μ$, shape `(D,)`.
        covariance: The covariance $C$, shape `(D, D)`, positive definite.
    """

    mean: Tensor
    covariance: Tensor

    @classmethod
    def fit(cls, x: Tensor, noise: float = 0.0) -> Self:
        """Fit the moments of the cells that are observed, and of pairs that are observed together.

        Args:
            x: The data, shape `(N, *E)`, with NaN for missing cells.
            noise: Standard deviation of the noise that an objective adds.

        Returns:
            The proposal.

        Raises:
            ValueError: If a column is never observed.

        Example:
            >>> x = torch.tensor([[0.0, 1.0], [2.0, torch.nan], [torch.nan, 3.0]])
            >>> GaussianProposal.fit(x).mean
            tensor([1., 2.])
        """
        require_floating(x)
        rows = x.flatten(1)
        seen = (~rows.isnan()).to(rows.dtype)
        counts = seen.sum(0)
        if not counts.all():
            never = (counts == 0).nonzero().flatten().tolist()
            raise ValueError(f"columns {never[:8]} are missing in all rows: leave them out")
        mean = rows.nansum(0) / counts
        centered = (rows - mean).nan_to_num(0)
        moments = centered.T @ centered / (seen.T @ seen).clamp(min=1)
        values, vectors = torch.linalg.eigh(moments)  # moments of pairs may be indefinite
        values = values.clamp(min=MIN_VARIANCE * values.max()) + noise**2
        return cls(mean, vectors * values @ vectors.T)

    def fill(self, x: Tensor, missing: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
        r"""Fill the missing cells of rows by draws.

        A draw $w ∼ N(μ, C)$ of whole rows becomes one that is given the observed cells $o$ by
        adding $C_{\cdot o} C_{oo}^{-1} (x - w)_o$.

        Args:
            x: The rows, shape `(B, D)`, with any numbers in missing cells.
            missing: Which cells are missing, shape `(B, D)`.
            u: Standard normal numbers, shape `(n, B, D)`.

        Returns:
            The rows, shape `(n, B, D)`, and their log-densities up to a constant for each of the
            `B` rows, shape `(n, B)`.

        Raises:
            ValueError: If the rows have another number of cells than the proposal.
        """
        if x.shape[1:] != self.mean.shape:
            raise ValueError(
                f"the proposal has {len(self.mean)} columns, but the rows have {x.shape[1]} cells"
            )
        mean, covariance = self.mean.to(x), self.covariance.to(x)
        root = torch.linalg.cholesky(covariance)
        both = ~(missing[:, :, None] | missing[:, None, :])
        observed = torch.where(both, covariance, torch.eye(len(mean)).to(x))
        w = mean + u @ root.T
        difference = torch.where(missing, 0, x - w)
        gain = torch.linalg.solve(observed, difference.movedim(0, 2)).movedim(2, 0)
        rows = torch.where(missing, w + gain @ covariance, x)
        whitened = torch.linalg.solve_triangular(root.T, rows - mean, upper=True, left=False)
        return rows, -whitened.square().sum(2) / 2


@dataclass(frozen=True, eq=False)
class MissingDSM:
    r"""Denoising score matching of a log-density $f$ from rows with missing cells (NaN).

    For the observed cells $o$ of a row, with noise $\tilde x_o = x_o + σ z_o$,

    $$J = \frac1d ‖∇_o \log p_o(\tilde x_o) + z_o / σ‖², \qquad
      p_o(\tilde x_o) = ∫ e^{f(\tilde x_o, u)} \, du.$$

    The minimum is the density of complete noisy rows, if cells are missing completely at random.
    The score of the marginal is estimated from draws $u_k$ of the missing cells,

    $$∇_o \log p_o ≈ \sum_k w_k ∇_o f(\tilde x_o, u_k), \qquad
      w_k ∝ e^{f(\tilde x_o, u_k)} / q(u_k | \tilde x_o),$$

    and the square is the product of two such estimates from independent draws, since the square
    of one would be too large by its variance. What remains is the bias of normalized weights, of
    order $1/K$, and none where the proposal is the model. For complete rows it is `DSM`.

    This is the importance-weighted form of marginal score matching of Givens et al., with the
    denoising loss in place of the implicit one. It suits tables with up to a few dozen columns:
    the weights become uneven if many cells of a row are missing and the proposal is poor.

    Reference:
        Givens, Liu and Reeve (2025), Score matching with missing data,
        https://arxiv.org/abs/2506.00557: the marginal score in Eq. 2, its importance-weighted
        estimate in Eq. 6 and 7, the denoising loss in Appendix A.1.3, Eq. 15.

    Attributes:
        sigma: The noise level $σ$.
        proposal: Draws missing cells of noisy rows: `GaussianProposal.fit(x, noise=sigma)`.
        draws: Number $K$ of draws of each of the two estimates.

    Example:
        >>> x = torch.tensor([[0.0, 1.0], [2.0, torch.nan], [torch.nan, 3.0], [1.0, 1.0]])
        >>> objective = MissingDSM(0.5, GaussianProposal.fit(x, noise=0.5), draws=4)
        >>> objective(lambda x: -x.square().sum(1) / 2, x).shape
        torch.Size([4])
    """

    sigma: float
    proposal: GaussianProposal
    draws: int = 8

    def __post_init__(self) -> None:
        require_levels(self.sigma)
        if not hasattr(self.proposal, "fill"):
            raise TypeError(
                "proposal must draw missing cells, such as GaussianProposal.fit(x, noise=sigma), "
                f"but got {self.proposal!r}"
            )
        if self.draws < 1:
            raise ValueError(f"there must be at least one draw per estimate, but got {self.draws}")

    def __call__(
        self,
        log_density: LogDensity,
        x: Tensor,
        /,
        *cond: Tensor,
        generator: Generator | None = None,
    ) -> Tensor:
        """Return the losses at `x`, shape `(B,)`; `cond` is passed to the density."""
        z = randn_like(x, generator)
        rows = x.flatten(1)
        u = torch.randn(
            2 * self.draws, *rows.shape, dtype=x.dtype, device=x.device, generator=generator
        )
        return self.at(log_density, x, self.sigma * z, u, *cond)

    def at(
        self, log_density: LogDensity, x: Tensor, noise: Tensor, u: Tensor, *cond: Tensor
    ) -> Tensor:
        """Return the losses for given noise $n$ and standard normal `u`, shape `(2 K, B, D)`."""
        check_noise(x, noise)
        f, count, d = as_log_density(log_density), len(u) // 2, dimension(x)
        missing = x.isnan().flatten(1)
        x_noisy = (x + noise).flatten(1).masked_fill(missing, 0)
        check_data(x_noisy)
        rows, log_proposal = self.proposal.fill(x_noisy, missing, u)

        def marginal(
            x: Tensor, missing: Tensor, rows: Tensor, log_proposal: Tensor, *cond: Tensor
        ) -> Tensor:
            """Return the logarithm of the importance-weighted marginal, up to a constant."""
            completed = torch.where(missing[:, None], rows, x[:, None]).flatten(0, 1)
            repeated = (c.repeat_interleave(count, 0) for c in cond)
            values = f(completed.view(-1, *shape), *repeated)
            require_density_shape(values.shape, len(completed))
            return (values.view(-1, count) - log_proposal).logsumexp(1)

        marginal.__wrapped__ = f  # type: ignore[attr-defined]
        shape = x.shape[1:]
        target = (noise.flatten(1) / self.sigma**2).masked_fill(missing, 0)
        first, second = (
            score_of(marginal)(x_noisy, missing, draws.movedim(0, 1), log_q.T, *cond) + target
            for draws, log_q in zip(rows.chunk(2), log_proposal.chunk(2), strict=True)
        )
        return dot(first, second) / d
