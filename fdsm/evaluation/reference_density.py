r"""Reference densities fitted to data: a Gaussian and a Gaussian mixture.

A trained model should be better than these on held-out data. Both are normalized, so they can be
compared with it by likelihood and by score-matching loss.

A model trained with denoising score matching learns the density of data with added noise. To
compare with it, pass the standard deviation $σ$ of the noise as `noise`. It adds $σ²I$ to every
covariance. The result is the density of a sample of the fitted density plus noise.
"""

import math
import warnings
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Generator, Tensor

from ..derivatives.checks.arguments import check_values
from ..extras import name_missing_extra
from ..tensors import randn_like

MAX_COMPONENTS = 10
ROWS_PER_PARAMETER = 10
"""Minimum number of rows per component and dimension of a mixture."""
MIN_SHRINKAGE = 1e-6
"""Minimum weight of the identity in a covariance, so that it is never singular."""


@dataclass(frozen=True, eq=False)
class FittedDensity:
    r"""A mixture of Gaussians, $p(x) = \sum_k w_k N(x; μ_k, Σ_k)$, or one Gaussian.

    It can be used as a log-density: it is callable and has `log_prob`. With `sample` it can be a
    proposal or the base of a flow. Values are in float64.

    Attributes:
        weights: The weights $w_k$, shape `(K,)`, in float64.
        means: The means $μ_k$, shape `(K, D)`, in float64.
        covariances: The covariances $Σ_k$, shape `(K, D, D)`, in float64.
    """

    weights: Tensor
    means: Tensor
    covariances: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        r"""Return $\log p(x)$, shape `(B, *E) -> (B,)`."""
        return self.log_prob(x)

    def log_prob(self, x: Tensor) -> Tensor:
        r"""Return $\log p(x)$, shape `(B, *E) -> (B,)`."""
        return self._log_joint(self._whiten(x)).logsumexp(0)

    def sample(self, n: int, generator: Generator | None = None) -> Tensor:
        """Return `n` independent samples, shape `(n, D)`, in torch's default dtype."""
        chosen = torch.multinomial(self.weights, n, replacement=True, generator=generator)
        noise = randn_like(self.means[chosen], generator)
        candidates: Tensor = noise @ torch.linalg.cholesky(self.covariances).mT  # (K, n, D)
        x = self.means[chosen] + candidates[chosen, torch.arange(n, device=chosen.device)]
        return x.to(torch.get_default_dtype())

    def score(self, x: Tensor) -> Tensor:
        r"""Return $∇\log p(x) = \sum_k r_k(x) s_k(x)$, shape `(B, *E)`.

        The score of a component is $s_k(x) = -Σ_k^{-1}(x - μ_k)$, and $r_k(x)$ is its posterior
        probability.
        """
        posteriors, scores = self._components(x)
        return (posteriors * scores).sum(0).view(x.shape)

    def sm_losses(self, x: Tensor) -> Tensor:
        r"""Return $\mathrm{tr}\,∇²\log p(x) + ‖∇\log p(x)‖²/2$ in closed form, shape `(B,)`.

        $$\mathrm{tr}\,∇²\log p = \sum_k r_k \left(‖s_k‖² - \mathrm{tr}\,Σ_k^{-1}\right) - ‖s‖²$$

        The mean over the rows is that of `exact_sm_loss`.
        """
        posteriors, scores = self._components(x)
        precisions = self._whitening.square().sum((1, 2))
        curvatures = scores.square().sum(2) - precisions[:, None]
        score = (posteriors * scores).sum(0)
        return (posteriors.squeeze(2) * curvatures).sum(0) - score.square().sum(1) / 2

    @cached_property
    def _whitening(self) -> Tensor:
        """Matrices $W_k$ with $Σ_k^{-1} = W_k W_k^T$, shape `(K, D, D)`."""
        lower = torch.linalg.cholesky(self.covariances)
        identity = torch.eye(lower.shape[1], dtype=lower.dtype, device=lower.device)
        inverse: Tensor = torch.linalg.solve_triangular(lower, identity, upper=False)
        return inverse.mT

    def _whiten(self, x: Tensor) -> Tensor:
        """Return $(x - μ_k)^T W_k$, shape `(K, B, D)`."""
        return (x.flatten(1).double() - self.means[:, None]) @ self._whitening

    def _log_joint(self, z: Tensor) -> Tensor:
        r"""Return $\log w_k N(x; μ_k, Σ_k)$, shape `(K, B)`."""
        log_det = self._whitening.diagonal(dim1=1, dim2=2).log().sum(1)
        constant = self.weights.log() + log_det - z.shape[2] * math.log(2 * math.pi) / 2
        return constant[:, None] - z.square().sum(2) / 2

    def _components(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the posteriors, shape `(K, B, 1)`, and scores, shape `(K, B, D)`."""
        z = self._whiten(x)
        return self._log_joint(z).softmax(0)[:, :, None], -z @ self._whitening.mT


def fit_gaussian(x: Tensor, noise: float = 0.0) -> FittedDensity:
    r"""Fit a Gaussian with a shrunk covariance.

    The covariance is $(1 - ρ) S + ρ \frac{\mathrm{tr} S}{D} I$, with the sample covariance $S$ and
    the weight $ρ$ of Ledoit and Wolf. It minimizes the expected squared error of the covariance,
    and goes to zero as the number of rows grows. With $ρ ≥ 10^{-6}$ the covariance is never
    singular, for example if columns are linearly dependent.

    Reference:
        Ledoit and Wolf (2004), A well-conditioned estimator for large-dimensional covariance
        matrices.

    Args:
        x: The data, shape `(N, *E)`.
        noise: Standard deviation of the noise of the model to compare with.

    Returns:
        The density.

    Raises:
        ValueError: If there are no rows, or all rows are equal and there is no noise.

    Example:
        >>> gaussian = fit_gaussian(torch.tensor([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0], [2.0, 2.0]]))
        >>> gaussian.means
        tensor([[1., 1.]], dtype=torch.float64)
        >>> gaussian.log_prob(torch.ones(1, 2))  # -log 2π
        tensor([-1.8379], dtype=torch.float64)
    """
    rows = _rows(x, noise)
    mean = rows.mean(0)
    covariance = shrunk_covariance(rows - mean)
    if not covariance.trace() + noise > 0:
        raise ValueError(
            f"a Gaussian needs data that vary, but all {len(rows)} rows are equal: pass `noise`"
        )
    return _with_noise(rows.new_ones(1), mean[None], covariance[None], noise)


def shrunk_covariance(centered: Tensor) -> Tensor:
    """Return the covariance of centered rows with the shrinkage of Ledoit and Wolf.

    Args:
        centered: Rows with a mean of zero, shape `(N, D)`.

    Returns:
        The covariance, shape `(D, D)`.
    """
    n, d = centered.shape
    sample = centered.T @ centered / n
    target = sample.trace() / d * torch.eye(d, dtype=sample.dtype, device=sample.device)
    distance = (sample - target).square().sum()
    variance = (centered.square().sum(1).square().sum() / n - sample.square().sum()) / n
    shrinkage = (variance / distance).nan_to_num(0.0).clamp(MIN_SHRINKAGE, 1.0)
    return (1 - shrinkage) * sample + shrinkage * target


def fit_gaussian_mixture(
    x: Tensor,
    components: int | None = None,
    *,
    noise: float = 0.0,
    generator: Generator | None = None,
) -> FittedDensity | None:
    r"""Fit a Gaussian mixture with full covariances by maximum likelihood (EM).

    The number of components is that with the lowest Bayesian information criterion (BIC), from one
    to ten, with at least $10 D$ rows per component.

    Args:
        x: The data, shape `(N, *E)`.
        components: Number of components. Default: chosen by BIC.
        noise: Standard deviation of the noise of the model to compare with.
        generator: Random number generator of the initial values. Default: the global generator of
            torch.

    Returns:
        The density. None if there are too few rows for two components (or for the given number).

    Raises:
        ImportError: If scikit-learn is not installed.
        ValueError: If there are no rows, or a number is out of range.

    Example:
        >>> g = Generator().manual_seed(0)
        >>> x = torch.randn(1000, 2, generator=g) + 8 * torch.randint(2, (1000, 1), generator=g)
        >>> mixture = fit_gaussian_mixture(x, generator=g)
        >>> len(mixture.weights)
        2
    """
    if components is not None and components < 1:
        raise ValueError(f"components must be at least 1, but is {components}")
    rows = _rows(x, noise)
    limit = len(rows) // (ROWS_PER_PARAMETER * rows.shape[1])
    if limit < (components or 2):
        return None
    with name_missing_extra("fit_gaussian_mixture"):
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.mixture import GaussianMixture

    seed = int(torch.randint(2**31 - 1, (), generator=generator))
    array = rows.cpu().numpy()
    ridge = MIN_SHRINKAGE * array.var(0).mean().item()
    counts = [components] if components else range(1, min(limit, MAX_COMPONENTS) + 1)
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        fits = [
            GaussianMixture(count, reg_covar=ridge, random_state=seed).fit(array)
            for count in counts
        ]
    best = min(fits, key=lambda fit: fit.bic(array))
    weights, means, covariances = (
        torch.from_numpy(values).to(rows)
        for values in (best.weights_, best.means_, best.covariances_)
    )
    return _with_noise(weights, means, covariances, noise)


def _rows(x: Tensor, noise: float) -> Tensor:
    check_values(x)
    if x.ndim < 2 or x.numel() == 0:
        raise ValueError(f"expected rows of data, shape (N, *E), but got {tuple(x.shape)}")
    if not 0 <= noise < math.inf:
        raise ValueError(f"noise must be finite and not negative, but is {noise}")
    return x.flatten(1).double()


def _with_noise(
    weights: Tensor, means: Tensor, covariances: Tensor, noise: float
) -> FittedDensity:
    identity = torch.eye(means.shape[1], dtype=means.dtype, device=means.device)
    return FittedDensity(weights, means, covariances + noise**2 * identity)
