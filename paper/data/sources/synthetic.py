"""Data sets of samples from known densities."""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Generator, Tensor

from fdsm.serialize import to_json

from ..dataset import Dataset, build_dataset
from ..transforms import Chain, Transform


class KnownDensity(Protocol):
    """A density in closed form. A model of its samples can be compared with the truth."""

    def sample(
        self, n: int, generator: Generator | None = None, *, dtype: torch.dtype = torch.float32
    ) -> Tensor:
        """Return `n` independent samples, shape `(n, D)`."""
        ...

    def log_density(self, x: Tensor) -> Tensor:
        """Return the normalized $log p(x)$, shape `(B, D) -> (B,)`."""
        ...

    def score(self, x: Tensor) -> Tensor:
        """Return $∇ log p(x)$, shape `(B, D) -> (B, D)`."""
        ...


@dataclass(frozen=True)
class SyntheticData:
    """Samples of a known density: `n` for training, and `n // 10` each for validation and test.

    Attributes:
        density: The density.
        n: Number of training samples.
        seed: Random seed.
        transform: Transform from samples to model inputs.

    Example:
        >>> from paper.data import GaussianRing
        >>> SyntheticData(GaussianRing(), n=1000).load().record["rows"]
        {'train': 1000, 'validation': 100, 'test': 100}
    """

    density: KnownDensity
    n: int = 10_000
    seed: int = 0
    transform: Transform = Chain()

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ValueError(f"n must be at least 1, but is {self.n}")

    def load(self) -> Dataset:
        """Draw the samples."""
        held = max(self.n // 10, 1)
        generator = Generator().manual_seed(self.seed)
        x = self.density.sample(self.n + 2 * held, generator)
        return build_dataset(
            self, (x[: self.n], x[self.n : -held], x[-held:]), density=to_json(self.density)
        )
