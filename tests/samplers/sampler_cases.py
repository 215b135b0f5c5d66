"""Densities with known moments and normalizing constants, and a test of moments."""

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Generator, Tensor


@dataclass(frozen=True, eq=False)
class Normal:
    """$N(m, C)$ without its normalizer."""

    mean: Tensor
    covariance: Tensor

    @cached_property
    def precision(self) -> Tensor:
        return torch.linalg.inv(self.covariance)

    @property
    def log_partition(self) -> float:
        d = len(self.mean)
        return (d * math.log(2 * math.pi) + torch.logdet(self.covariance).item()) / 2

    def log_density(self, x: Tensor) -> Tensor:
        y = x - self.mean
        return -((y @ self.precision) * y).sum(1) / 2

    def score(self, x: Tensor) -> Tensor:
        return -(x - self.mean) @ self.precision

    def sample(self, n: int, generator: Generator) -> Tensor:
        z = torch.randn(n, len(self.mean), generator=generator)
        return self.mean + z @ torch.linalg.cholesky(self.covariance).T


def correlated() -> Normal:
    return Normal(torch.tensor([1.0, -0.5]), torch.tensor([[1.0, 0.6], [0.6, 0.8]]))


def standard_normal(x: Tensor) -> Tensor:
    """Return the log-density of $N(0, I)$ with its normalizer."""
    x = x.flatten(1)
    return -(x.square() + math.log(2 * math.pi)).sum(1) / 2


def assert_moments(x: Tensor, mean: Tensor, covariance: Tensor) -> None:
    """Independent rows of `x`, nearly normal, have these moments within five standard errors."""
    n, v = len(x), covariance.diagonal()
    assert ((x.mean(0) - mean).abs() < 5 * (v / n).sqrt()).all()
    error = ((v[:, None] * v + covariance.square()) / n).sqrt()
    assert ((x.T.cov() - covariance).abs() < 5 * error).all()
