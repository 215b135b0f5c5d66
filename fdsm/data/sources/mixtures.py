"""Gaussians and their mixtures, with log-density and score in closed form."""

import math
from dataclasses import dataclass

import torch
from torch import Generator, Tensor


@dataclass(frozen=True)
class Gaussian:
    r"""A normal distribution $N(m, C)$.

    Attributes:
        mean: The mean $m$, `D` numbers.
        covariance: The covariance $C$, `D` rows of `D` numbers; the identity by default.

    Example:
        >>> Gaussian((0.0, 0.0)).log_density(torch.zeros(1, 2)).exp()  # 1 / 2π
        tensor([0.1592])
    """

    mean: tuple[float, ...]
    covariance: tuple[tuple[float, ...], ...] | None = None

    def __post_init__(self) -> None:
        c, d = self._covariance(torch.zeros(0, dtype=torch.float64)), len(self.mean)
        if not d or c.shape != (d, d) or not torch.equal(c, c.T):
            raise ValueError(
                f"a mean of {d} numbers needs a symmetric covariance of {d}x{d}, "
                f"but got {self.covariance}"
            )
        if torch.linalg.cholesky_ex(c).info:
            raise ValueError(f"the covariance is not positive definite: {self.covariance}")

    def sample(
        self, n: int, generator: Generator | None = None, *, dtype: torch.dtype = torch.float32
    ) -> Tensor:
        """Return `n` independent samples, shape `(n, D)`."""
        noise = torch.randn(n, len(self.mean), dtype=dtype, generator=generator)
        return noise @ self._factor(noise).T + noise.new_tensor(self.mean)

    def log_density(self, x: Tensor) -> Tensor:
        """Return $log p(x)$, normalised, shape `(B, D) -> (B,)`."""
        factor = self._factor(x)
        z = torch.linalg.solve_triangular(factor, (x - x.new_tensor(self.mean)).T, upper=False)
        constant = factor.diagonal().log().sum() + len(self.mean) * math.log(2 * math.pi) / 2
        value: Tensor = -z.square().sum(0) / 2 - constant
        return value

    def score(self, x: Tensor) -> Tensor:
        """Return $-C^{-1}(x - m)$, shape `(B, D) -> (B, D)`."""
        centred = (x - x.new_tensor(self.mean)).T
        return -torch.cholesky_solve(centred, self._factor(x)).T

    def _covariance(self, like: Tensor) -> Tensor:
        if self.covariance is None:
            return torch.eye(len(self.mean), dtype=like.dtype, device=like.device)
        return like.new_tensor(self.covariance)

    def _factor(self, like: Tensor) -> Tensor:
        factor: Tensor = torch.linalg.cholesky(self._covariance(like))
        return factor


@dataclass(frozen=True)
class GaussianMixture:
    r"""Round Gaussians of any place, width and weight: $p(x) = \sum_k w_k N(x; m_k, s_k²I)$.

    Attributes:
        means: The means $m_k$, `K` rows of `D` numbers.
        scales: The standard deviations $s_k$, `K` numbers.
        weights: The weights $w_k$, `K` positive numbers with sum 1; equal by default.

    Example:
        >>> GaussianMixture(((-1.0,), (1.0,)), (0.5, 0.5)).score(torch.zeros(1, 1))
        tensor([[0.]])
    """

    means: tuple[tuple[float, ...], ...]
    scales: tuple[float, ...]
    weights: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        k, dimensions = len(self.means), {len(mean) for mean in self.means}
        if not k or len(dimensions) != 1 or len(self.scales) != k:
            raise ValueError(
                f"each of the {k} means needs as many numbers as the others and a scale, but "
                f"there are {len(self.scales)} scales and means of {sorted(dimensions)} numbers"
            )
        if min(self.scales) <= 0 or min(self._weights()) <= 0:
            raise ValueError("scales and weights of a mixture must be positive")
        if len(self._weights()) != k or abs(sum(self._weights()) - 1) > 1e-6:
            raise ValueError(f"{k} weights with sum 1 are needed, but got {self.weights}")

    def sample(
        self, n: int, generator: Generator | None = None, *, dtype: torch.dtype = torch.float32
    ) -> Tensor:
        """Return `n` independent samples, shape `(n, D)`."""
        noise = torch.randn(n, len(self.means[0]), dtype=dtype, generator=generator)
        weights = noise.new_tensor(self._weights())
        k = torch.multinomial(weights, n, replacement=True, generator=generator)
        return noise.new_tensor(self.means)[k] + noise.new_tensor(self.scales)[k, None] * noise

    def log_density(self, x: Tensor) -> Tensor:
        """Return $log p(x)$, normalised, shape `(B, D) -> (B,)`."""
        return self._terms(x).logsumexp(1)

    def score(self, x: Tensor) -> Tensor:
        """Return $∇ log p(x)$, shape `(B, D) -> (B, D)`."""
        shares = self._terms(x).softmax(1) / x.new_tensor(self.scales).square()
        return shares @ x.new_tensor(self.means) - shares.sum(1, keepdim=True) * x

    def _terms(self, x: Tensor) -> Tensor:
        scales, d = x.new_tensor(self.scales), x.shape[1]
        distance = (x[:, None] - x.new_tensor(self.means)).square().sum(2)
        constant = x.new_tensor(self._weights()).log() - d * (scales.log() + _HALF_LOG_2PI)
        return constant - distance / (2 * scales.square())

    def _weights(self) -> tuple[float, ...]:
        return self.weights or (1 / len(self.means),) * len(self.means)


_HALF_LOG_2PI = math.log(2 * math.pi) / 2


def spiral(
    *,
    arms: int = 2,
    turns: float = 1.5,
    points: int = 60,
    radius: float = 3.0,
    scale: float = 0.15,
) -> GaussianMixture:
    """Return narrow Gaussians along spirals, a thin structure whose density is known.

    Args:
        arms: How many spirals start at the centre.
        turns: How often each winds round it.
        points: How many Gaussians make up an arm.
        radius: How far out they end.
        scale: The standard deviation of each Gaussian.

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
    return GaussianMixture(tuple(means), (scale,) * len(means))
