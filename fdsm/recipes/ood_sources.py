"""Data that a model has not been trained on, for it to notice."""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Generator, Tensor

from ..data import Dataset, Resize, Source
from ..data.split import fixed_shuffle


class OODSource(Protocol):
    """Where rows come from that are not of the distribution of a data set."""

    @property
    def name(self) -> str:
        """What they are, in a word."""
        ...

    def rows(self, data: Dataset, generator: Generator) -> Tensor:
        """Return rows in the space of the model of `data`, shape `(N, *E)`."""
        ...


@dataclass(frozen=True)
class Rotated:
    """The test images, turned by a quarter: the same strokes and brightness, another meaning.

    Attributes:
        name: What they are.
    """

    name: str = "turned"

    def rows(self, data: Dataset, generator: Generator) -> Tensor:
        """Return the test images as the model would see them, turned."""
        return data.transform.deterministic(data.test).rot90(1, (-2, -1))


@dataclass(frozen=True)
class ShuffledFeatures:
    """The test rows with each coordinate shuffled by itself: right one by one, wrong together.

    Attributes:
        name: What they are.
    """

    name: str = "scrambled"

    def rows(self, data: Dataset, generator: Generator) -> Tensor:
        """Return the scrambled rows as the model would see them."""
        x = data.transform.deterministic(data.test)
        keys = torch.rand(x.shape, generator=generator, device=generator.device).to(x.device)
        return x.gather(0, keys.argsort(0))


@dataclass(frozen=True)
class HeldOut:
    """Further test rows of the same data, which no detector should tell: an area of a half.

    Attributes:
        name: What they are.
        after: How many test rows come before them, and are the inside.
    """

    name: str
    after: int

    def rows(self, data: Dataset, generator: Generator) -> Tensor:
        """Return the test rows from there on as the model would see them."""
        return data.transform.deterministic(data.test[self.after :])


@dataclass(frozen=True)
class OtherDataset:
    """The test rows of another data set, resized to the images of this one if need be.

    Attributes:
        name: What they are.
        source: Where they come from.
    """

    name: str
    source: Source

    def rows(self, data: Dataset, generator: Generator) -> Tensor:
        """Return them as this data set's model would see them."""
        stored = fixed_shuffle(self.source.load().test)
        size = data.test.shape[-1]
        if stored.ndim == 4 and stored.shape[-1] != size:
            stored = Resize(size).deterministic(stored)
        return data.transform.deterministic(stored)
