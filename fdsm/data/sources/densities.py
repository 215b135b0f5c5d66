"""Densities that are known, to learn from their samples."""

import math
from dataclasses import dataclass

import torch
from torch import Generator, Tensor


@dataclass(frozen=True)
class GaussianRing:
    r"""Equal Gaussians on a circle.

    $$p(x) = \frac1K \sum_k N(x; m_k, s²I), \qquad m_k = r \, (\cos 2πk/K, \sin 2πk/K)$$

    Attributes:
        modes: How many, $K$.
        radius: The radius $r$ of the circle.
        scale: The standard deviation $s$ of each.
    """

    modes: int = 8
    radius: float = 2.0
    scale: float = 0.3

    def means(self, like: Tensor) -> Tensor:
        """Return the means $m_k$, shape `(K, 2)`, with the dtype and device of `like`."""
        turn = 2 * math.pi / self.modes
        angles = turn * torch.arange(self.modes, dtype=like.dtype, device=like.device)
        return self.radius * torch.stack([angles.cos(), angles.sin()], 1)

    def sample(
        self, n: int, generator: Generator | None = None, *, dtype: torch.dtype = torch.float32
    ) -> Tensor:
        """Return `n` independent samples, shape `(n, 2)`."""
        noise = self.scale * torch.randn(n, 2, dtype=dtype, generator=generator)
        modes = torch.randint(self.modes, (n,), generator=generator)
        return self.means(noise)[modes] + noise

    def log_density(self, x: Tensor) -> Tensor:
        """Return $log p(x)$, normalised, shape `(B, 2) -> (B,)`."""
        constant = math.log(self.modes * 2 * math.pi * self.scale**2)
        return self._exponents(x).logsumexp(1) - constant

    def score(self, x: Tensor) -> Tensor:
        """Return $∇ log p(x)$, shape `(B, 2) -> (B, 2)`."""
        nearest = self._exponents(x).softmax(1) @ self.means(x)
        return (nearest - x) / self.scale**2

    def _exponents(self, x: Tensor) -> Tensor:
        return -(x[:, None] - self.means(x)).square().sum(2) / (2 * self.scale**2)


@dataclass(frozen=True)
class Checkerboard:
    r"""Uniform on the black cells of a board that is centred at the origin.

    Its score is zero on the black cells and not defined elsewhere: a density that score
    matching cannot learn without noise.

    Attributes:
        cells: How many cells along a side, an even number.
        width: The width of a cell.
    """

    cells: int = 4
    width: float = 1.0

    def __post_init__(self) -> None:
        if self.cells < 2 or self.cells % 2 or self.width <= 0:
            raise ValueError(
                "a board has an even number of cells along a side and a positive width, "
                f"but got {self.cells} and {self.width}"
            )

    def sample(
        self, n: int, generator: Generator | None = None, *, dtype: torch.dtype = torch.float32
    ) -> Tensor:
        """Return `n` independent samples, shape `(n, 2)`."""
        within = torch.rand(n, 2, dtype=dtype, generator=generator)
        row = torch.randint(self.cells, (n,), generator=generator)
        pair = torch.randint(self.cells // 2, (n,), generator=generator)
        cell = torch.stack([2 * pair + row % 2, row], 1)
        return self.width * (cell + within - self.cells / 2)

    def log_density(self, x: Tensor) -> Tensor:
        r"""Return $log p(x)$, normalised, $-\infty$ off the black cells, `(B, 2) -> (B,)`."""
        cell = (x / self.width + self.cells / 2).floor()
        inside = ((cell >= 0) & (cell < self.cells)).all(1) & (cell.sum(1) % 2 == 0)
        value = -math.log(self.cells**2 / 2 * self.width**2)
        return torch.where(inside, value, -math.inf).to(x.dtype)

    def score(self, x: Tensor) -> Tensor:
        """Return zeros, shape `(B, 2) -> (B, 2)`."""
        return torch.zeros_like(x)
