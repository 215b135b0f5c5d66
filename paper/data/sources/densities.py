"""Gaussians and mixtures of Gaussians, with log-density and score in closed form."""

import math
from dataclasses import dataclass

import torch
from torch import Generator, Tensor


@dataclass(frozen=True)
class GaussianDensity:
    r"""A normal distribution $N(m, C)$.

    Attributes:
        mean: Mean $m$, `D` numbers.
        covariance: Covariance $C$, `D` rows of `D` numbers. Default: the identity.

    Example:
        >>> GaussianDensity((0.0, 0.0)).log_density(torch.zeros(1, 2)).exp()  # 1 / 2π
        tensor([0.1592])
    """

    mean: tuple[float, ...]
    covariance: tuple[tuple[float, ...], ...] | None = None

    def __post_init__(self) -> None:
        c, d = self._covariance(torch.zeros(0, dtype=torch.float64)), len(self.mean)
        if not d or c.shape != (d, d) or not torch.equal(c, c.T):
            raise ValueError(
                f"covariance must be a symmetric {d}x{d} matrix for a mean of {d} numbers, "
                f"but is {self.covariance}"
            )
        if torch.linalg.cholesky_ex(c).info:
            raise ValueError(f"covariance must be positive definite, but is {self.covariance}")

    def sample(
        self, n: int, generator: Generator | None = None, *, dtype: torch.dtype = torch.float32
    ) -> Tensor:
        """Return `n` independent samples, shape `(n, D)`."""
        noise = torch.randn(n, len(self.mean), dtype=dtype, generator=generator)
        return noise @ self._factor(noise).T + noise.new_tensor(self.mean)

    def log_density(self, x: Tensor) -> Tensor:
        """Return the normalized $log p(x)$, shape `(B, D) -> (B,)`."""
        factor = self._factor(x)
        z = torch.linalg.solve_triangular(factor, (x - x.new_tensor(self.mean)).T, upper=False)
        constant = factor.diagonal().log().sum() + len(self.mean) * _HALF_LOG_2PI
        value: Tensor = -z.square().sum(0) / 2 - constant
        return value

    def score(self, x: Tensor) -> Tensor:
        """Return $-C^{-1}(x - m)$, shape `(B, D) -> (B, D)`."""
        centered = (x - x.new_tensor(self.mean)).T
        return -torch.cholesky_solve(centered, self._factor(x)).T

    def _covariance(self, like: Tensor) -> Tensor:
        if self.covariance is None:
            return torch.eye(len(self.mean), dtype=like.dtype, device=like.device)
        return like.new_tensor(self.covariance)

    def _factor(self, like: Tensor) -> Tensor:
        factor: Tensor = torch.linalg.cholesky(self._covariance(like))
        return factor


@dataclass(frozen=True)
class GaussianMixtureDensity:
    r"""A mixture of isotropic Gaussians: $p(x) = \sum_k w_k N(x; m_k, s_k²I)$.

    Attributes:
        means: Means $m_k$, `K` rows of `D` numbers.
        scales: Standard deviations $s_k$, `K` numbers.
        weights: Weights $w_k$, `K` positive numbers with sum 1. Default: equal weights.

    Example:
        >>> GaussianMixtureDensity(((-1.0,), (1.0,)), (0.5, 0.5)).score(torch.zeros(1, 1))
        tensor([[0.]])
    """

    means: tuple[tuple[float, ...], ...]
    scales: tuple[float, ...]
    weights: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        k, dimensions = len(self.means), {len(mean) for mean in self.means}
        if not k or len(dimensions) != 1 or len(self.scales) != k:
            raise ValueError(
                "a mixture needs means of the same length and one scale per mean, but has "
                f"{k} means of lengths {sorted(dimensions)} and {len(self.scales)} scales"
            )
        if min(self.scales) <= 0 or min(self._weights()) <= 0:
            raise ValueError("scales and weights of a mixture must be positive")
        if len(self._weights()) != k or abs(sum(self._weights()) - 1) > 1e-6:
            raise ValueError(f"a mixture needs {k} weights with sum 1, but has {self.weights}")

    def sample(
        self, n: int, generator: Generator | None = None, *, dtype: torch.dtype = torch.float32
    ) -> Tensor:
        """Return `n` independent samples, shape `(n, D)`."""
        noise = torch.randn(n, len(self.means[0]), dtype=dtype, generator=generator)
        weights = noise.new_tensor(self._weights())
        k = torch.multinomial(weights, n, replacement=True, generator=generator)
        return noise.new_tensor(self.means)[k] + noise.new_tensor(self.scales)[k, None] * noise

    def log_density(self, x: Tensor) -> Tensor:
        """Return the normalized $log p(x)$, shape `(B, D) -> (B,)`."""
        return self._terms(x).logsumexp(1)

    def score(self, x: Tensor) -> Tensor:
        """Return $∇ log p(x)$, shape `(B, D) -> (B, D)`."""
        posterior = self._terms(x).softmax(1) / x.new_tensor(self.scales).square()
        return posterior @ x.new_tensor(self.means) - posterior.sum(1, keepdim=True) * x

    def _terms(self, x: Tensor) -> Tensor:
        """Return $log w_k N(x; m_k, s_k²I)$, shape `(B, K)`."""
        scales, d = x.new_tensor(self.scales), x.shape[1]
        distance = (x[:, None] - x.new_tensor(self.means)).square().sum(2)
        constant = x.new_tensor(self._weights()).log() - d * (scales.log() + _HALF_LOG_2PI)
        return constant - distance / (2 * scales.square())

    def _weights(self) -> tuple[float, ...]:
        return self.weights or (1 / len(self.means),) * len(self.means)


@dataclass(frozen=True)
class GaussianRing:
    r"""A mixture of equal Gaussians on a circle.

    $$p(x) = \frac1K \sum_k N(x; m_k, s²I), \qquad m_k = r \, (\cos 2πk/K, \sin 2πk/K)$$

    Attributes:
        modes: Number of Gaussians $K$.
        radius: Radius $r$ of the circle.
        scale: Standard deviation $s$ of each Gaussian.
    """

    modes: int = 8
    radius: float = 2.0
    scale: float = 0.3

    def means(self, like: Tensor) -> Tensor:
        """Return the means $m_k$, shape `(K, 2)`, with the dtype and device of `like`."""
        angle = 2 * math.pi / self.modes
        angles = angle * torch.arange(self.modes, dtype=like.dtype, device=like.device)
        return self.radius * torch.stack([angles.cos(), angles.sin()], 1)

    def sample(
        self, n: int, generator: Generator | None = None, *, dtype: torch.dtype = torch.float32
    ) -> Tensor:
        """Return `n` independent samples, shape `(n, 2)`."""
        noise = self.scale * torch.randn(n, 2, dtype=dtype, generator=generator)
        modes = torch.randint(self.modes, (n,), generator=generator)
        return self.means(noise)[modes] + noise

    def log_density(self, x: Tensor) -> Tensor:
        """Return the normalized $log p(x)$, shape `(B, 2) -> (B,)`."""
        constant = math.log(self.modes * 2 * math.pi * self.scale**2)
        return self._exponents(x).logsumexp(1) - constant

    def score(self, x: Tensor) -> Tensor:
        """Return $∇ log p(x)$, shape `(B, 2) -> (B, 2)`."""
        expected_mean = self._exponents(x).softmax(1) @ self.means(x)
        return (expected_mean - x) / self.scale**2

    def _exponents(self, x: Tensor) -> Tensor:
        return -(x[:, None] - self.means(x)).square().sum(2) / (2 * self.scale**2)


def spiral(
    *,
    arms: int = 2,
    turns: float = 1.5,
    points: int = 60,
    radius: float = 3.0,
    scale: float = 0.15,
) -> GaussianMixtureDensity:
    """Return a mixture of narrow Gaussians along spirals: a thin structure with a known density.

    Args:
        arms: Number of spirals that start at the center.
        turns: Number of turns of each spiral.
        points: Number of Gaussians per spiral.
        radius: Radius at the outer end.
        scale: Standard deviation of each Gaussian.

    Returns:
        A mixture in two dimensions.
    """
    means = []
    for arm in range(arms):
        for i in range(1, points + 1):
            # The square root spaces the points evenly along the arm, not along its angle.
            t = math.sqrt(i / points)
            angle = 2 * math.pi * (turns * t + arm / arms)
            means.append((radius * t * math.cos(angle), radius * t * math.sin(angle)))
    return GaussianMixtureDensity(tuple(means), (scale,) * len(means))


_HALF_LOG_2PI = math.log(2 * math.pi) / 2
