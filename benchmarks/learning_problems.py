"""Data sets and networks that are trained to compare methods."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import avg_pool2d

from fdsm.models import GaussianTailMLP
from paper.data import MNIST, WhiteWine


@dataclass(frozen=True)
class NoisyRows:
    """Rows to which noise is added anew in every batch, standardized with the noise included.

    Attributes:
        rows: The rows, shape `(N, D)`, such that noisy rows have mean zero.
        scale: Standard deviation of each column of noisy rows.
        noise: Standard deviation of the noise.
    """

    rows: Tensor
    scale: Tensor
    noise: float

    def draw(self, count: int, generator: Generator | None = None) -> Tensor:
        """Return random rows, with noise and standardized."""
        chosen = self.rows[torch.randint(len(self.rows), (count,), generator=generator)]
        return self.add_noise(chosen, generator)

    def add_noise(self, rows: Tensor, generator: Generator | None = None) -> Tensor:
        """Return rows with noise, standardized."""
        noise = torch.randn(rows.shape, generator=generator, dtype=rows.dtype)
        return (rows + self.noise * noise) / self.scale


@dataclass(frozen=True)
class LearningProblem:
    """A data set and a network to learn it with.

    Attributes:
        name: Name in tables.
        load: Returns training and test rows.
        widths: Widths of the hidden layers of a `GaussianTailMLP`.
        noise: Standard deviation of the noise that is added to the data.
    """

    name: str
    load: Callable[[], tuple[Tensor, Tensor]]
    widths: tuple[int, ...]
    noise: float

    def data(self) -> tuple[NoisyRows, Tensor]:
        """Return the training data, and test data with fixed noise."""
        train, test = self.load()
        mean, deviation = train.mean(0), train.std(0)
        scale = (deviation**2 + self.noise**2).sqrt()
        rows = NoisyRows(train - mean, scale, self.noise)
        return rows, rows.add_noise(test - mean, Generator().manual_seed(1))

    def network(self, dimension: int, seed: int) -> nn.Module:
        """Return an untrained network in float32."""
        with torch.random.fork_rng(devices=()):
            torch.manual_seed(seed)
            return GaussianTailMLP(dimension, self.widths, gain=1.0).float()


def load_wine() -> tuple[Tensor, Tensor]:
    """Return whitened rows of the white wines, 11 columns."""
    data = WhiteWine(noise=0.0).load()
    train, test = (data.transform.deterministic(rows) for rows in (data.train, data.test))
    return train.float(), test.float()


def load_mnist(test_rows: int = 250) -> tuple[Tensor, Tensor]:
    """Return images of 14 x 14 averages of pixels between 0 and 1, as rows."""
    data = MNIST().load()
    return halve(data.train), halve(data.test[:test_rows])


def halve(images: Tensor) -> Tensor:
    """Return images of half the size, between 0 and 1, as rows."""
    pooled: Tensor = avg_pool2d(images.float() / 255, 2)
    return pooled.flatten(1)


PROBLEMS = (
    LearningProblem("white wine, 11 columns", load_wine, (128, 128, 128), 0.1),
    LearningProblem("MNIST 14x14", load_mnist, (256, 256, 256), 0.1),
)
