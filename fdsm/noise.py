"""Distributions of the noise level $σ$ of each example."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import SupportsFloat

import torch
from torch import Generator, Tensor

from .tensors import require_floating

__all__ = ["Arithmetic", "ConstantNoise", "Geometric", "LogNormal", "LogUniform"]


@dataclass(frozen=True)
class ConstantNoise:
    """The same noise level for all examples.

    Attributes:
        sigma: The noise level.
    """

    sigma: float

    def __post_init__(self) -> None:
        require_levels(self.sigma)

    def sample(self, x: Tensor, generator: Generator | None = None) -> Tensor:
        """Return the noise level of each row of `x`, shape `(B,)`."""
        return _sample_levels([self.sigma], x, generator)


@dataclass(frozen=True)
class Geometric:
    """A random level of a geometric sequence for each example, as in NCSN.

    Attributes:
        first: The first level, usually the largest.
        last: The last level.
        count: Number of levels.

    Example:
        >>> [round(sigma, 3) for sigma in Geometric(1.0, 0.01, 3).levels]
        [1.0, 0.1, 0.01]
    """

    first: float
    last: float
    count: int

    def __post_init__(self) -> None:
        require_levels(self.first, self.last, count=self.count)

    @property
    def levels(self) -> tuple[float, ...]:
        """The levels from first to last."""
        ratio = self.last / self.first
        return tuple(self.first * ratio**t for t in _fractions(self.count))

    def sample(self, x: Tensor, generator: Generator | None = None) -> Tensor:
        """Return the noise level of each row of `x`, shape `(B,)`."""
        return _sample_levels(self.levels, x, generator)


@dataclass(frozen=True)
class Arithmetic:
    """Levels of an arithmetic sequence.

    Without `count` there is one level per example, and the examples of a batch have all levels in
    order. This is the choice of the paper for deep energy-based models (App. C.2). With `count`,
    each example has a random level.

    Attributes:
        first: The first level.
        last: The last level.
        count: Number of levels. Default: the number of examples.

    Example:
        >>> Arithmetic(0.5, 1.5).sample(torch.zeros(3, 2))
        tensor([0.5000, 1.0000, 1.5000])
    """

    first: float
    last: float
    count: int | None = None

    def __post_init__(self) -> None:
        require_levels(self.first, self.last, count=1 if self.count is None else self.count)

    def sample(self, x: Tensor, generator: Generator | None = None) -> Tensor:
        """Return the noise level of each row of `x`, shape `(B,)`."""
        require_floating(x)
        span = self.last - self.first
        count = len(x) if self.count is None else self.count
        levels = [self.first + span * t for t in _fractions(count)]
        if self.count is None:
            return x.new_tensor(levels)
        return _sample_levels(levels, x, generator)


@dataclass(frozen=True)
class LogUniform:
    r"""Random levels whose logarithms are uniformly distributed.

    Example $i$ of $B$ has a level of its own part of the range,

    $$σ_i = b \, (a/b)^{(u_i + i)/B}, \qquad u_i \sim U(0, 1), \; i = 0, …, B - 1,$$

    from the last level $b$ to the first one $a$. One level in each of $B$ equal parts reduces the
    variance of a mean over the batch.

    Attributes:
        first: The first level $a$, usually the largest.
        last: The last level $b$.

    Example:
        >>> sigma = LogUniform(100.0, 0.01).sample(torch.zeros(4, 2))
        >>> sigma.log10().floor()  # one level in each decade
        tensor([-2., -1.,  0.,  1.])
    """

    first: float
    last: float

    def __post_init__(self) -> None:
        require_levels(self.first, self.last)

    def sample(self, x: Tensor, generator: Generator | None = None) -> Tensor:
        """Return the noise level of each row of `x`, shape `(B,)`."""
        return self.last * (self.first / self.last) ** _stratified(x, generator)


@dataclass(frozen=True)
class LogNormal:
    r"""Random levels whose logarithms are normally distributed, one in each of $B$ parts.

    $$\log σ_i = \log m + s \, Φ^{-1}\left(\frac{u_i + i}{B}\right),
      \qquad u_i \sim U(0, 1), \; i = 0, …, B - 1$$

    Training then has most examples at the levels around the median $m$. Choose them where the
    model decides what an example is: the smallest levels only remove the last noise, and at the
    largest ones nothing but the mean of the data is left.

    Reference:
        Karras et al. (2022), https://arxiv.org/abs/2206.00364, Table 1, with $\log m = P_{mean}$
        and $s = P_{std}$.

    Attributes:
        median: The median $m$ of the levels.
        std: The standard deviation $s$ of their logarithms.

    Example:
        >>> LogNormal(2.0, 1.0).sample(torch.zeros(4, 2)) > 2.0  # half of them above the median
        tensor([False, False,  True,  True])
    """

    median: float
    std: float

    def __post_init__(self) -> None:
        require_levels(self.median)
        if not (isinstance(self.std, SupportsFloat) and 0 <= float(self.std) < math.inf):
            raise ValueError(f"std must be a number of at least zero, but is {self.std!r}")

    def sample(self, x: Tensor, generator: Generator | None = None) -> Tensor:
        """Return the noise level of each row of `x`, shape `(B,)`."""
        share = _stratified(x, generator).clamp(1e-6, 1 - 1e-6)
        z: Tensor = torch.special.ndtri(share)
        return self.median * (self.std * z).exp()


def require_levels(*levels: float, count: int = 1) -> None:
    """Raise `ValueError` unless there is at least one level and all are positive numbers."""
    if not all(isinstance(s, SupportsFloat) and 0 < float(s) < math.inf for s in levels):
        raise ValueError(f"noise levels must be positive numbers, but got {list(levels)}")
    if count < 1:
        raise ValueError(f"there must be at least one noise level, but got a count of {count}")


def _stratified(x: Tensor, generator: Generator | None) -> Tensor:
    """Return one random number in each of `B` equal parts of the unit interval, in order."""
    require_floating(x)
    uniform = torch.rand(len(x), generator=generator, device=x.device, dtype=x.dtype)
    return (uniform + torch.arange(len(x), device=x.device)) / len(x)


def _fractions(count: int) -> list[float]:
    """Return `count` equally spaced numbers from zero to one."""
    return [i / max(count - 1, 1) for i in range(count)]


def _sample_levels(levels: Sequence[float], x: Tensor, generator: Generator | None) -> Tensor:
    require_floating(x)
    chosen = torch.randint(len(levels), x.shape[:1], device=x.device, generator=generator)
    return x.new_tensor(levels)[chosen]
