"""Noise levels $σ$: one number, or a sequence of which every example gets one."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from .tensors import require_floating


@dataclass(frozen=True)
class ConstantNoise:
    """The same level for all.

    Attributes:
        sigma: The level.
    """

    sigma: float

    def __post_init__(self) -> None:
        require_levels(self.sigma)

    def sample(self, x: Tensor, generator: Generator | None = None) -> Tensor:
        """Return the level for each row of `x`, shape `(B,)`."""
        return _drawn([self.sigma], x, generator)


@dataclass(frozen=True)
class Geometric:
    """Levels with a constant ratio, of which every example draws one, as in NCSN.

    Attributes:
        first: The first level, usually the largest.
        last: The last level.
        count: How many there are.

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
        """Return a level for each row of `x`, shape `(B,)`."""
        return _drawn(self.levels, x, generator)


@dataclass(frozen=True)
class Arithmetic:
    """Levels with a constant difference.

    Without a `count` there are as many as examples and each is used once, in order: the
    paper's schedule for deep energy-based models (App. C.2), which spreads the levels over
    every batch; an example by itself gets the first. With one, every example draws a level.

    Attributes:
        first: The first level.
        last: The last level.
        count: How many there are, if not as many as examples.

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
        """Return a level for each row of `x`, shape `(B,)`."""
        require_floating(x)
        span, count = self.last - self.first, len(x) if self.count is None else self.count
        levels = [self.first + span * t for t in _fractions(count)]
        return x.new_tensor(levels) if self.count is None else _drawn(levels, x, generator)


def require_levels(*levels: float, count: int = 1) -> None:
    """Raise `ValueError` unless the levels are positive numbers and there is at least one."""
    if not all(0 < sigma < math.inf for sigma in levels):
        raise ValueError(f"noise levels must be positive numbers, but got {list(levels)}")
    if count < 1:
        raise ValueError(f"there must be at least one noise level, but got a count of {count}")


def _fractions(count: int) -> list[float]:
    """Return `count` numbers from zero to one."""
    return [i / max(count - 1, 1) for i in range(count)]


def _drawn(levels: Sequence[float], x: Tensor, generator: Generator | None) -> Tensor:
    require_floating(x)
    chosen = torch.randint(len(levels), x.shape[:1], device=x.device, generator=generator)
    return x.new_tensor(levels)[chosen]
