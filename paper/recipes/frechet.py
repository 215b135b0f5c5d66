"""The Fréchet distance of a model's samples, with all settings that it depends on.

The features, the number of samples and the choice of images all change the value, so they are part
of a recipe. Only the features of the Inception network give the FID. Distances with other features
only compare with each other.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor, nn

from fdsm.evaluation import Features, Measurement, fid

from ..data import Dataset
from .random_features import RandomConvolutions


class FeatureSource(Protocol):
    """Settings of a feature extractor, which can load it."""

    def load(self) -> Features:
        """Return the feature extractor on the CPU."""
        ...


@dataclass(frozen=True)
class RandomFeatures:
    """Convolutions with random weights, which need neither labels nor a download.

    Attributes:
        widths: Number of channels after each convolution. The last are the features.
        seed: Random seed of the weights.
    """

    widths: tuple[int, ...] = (32, 64, 128)
    seed: int = 0

    def load(self) -> Features:
        """Return the convolutions."""
        return RandomConvolutions(self.widths, self.seed)


def for_training(data: Dataset) -> Tensor:
    """Return the training images as they are stored."""
    return data.train


def for_validation(data: Dataset) -> Tensor:
    """Return the validation images as they are stored."""
    return data.validation


def for_test(data: Dataset) -> Tensor:
    """Return the test images as they are stored."""
    return data.test


@dataclass(frozen=True)
class Frechet:
    """Settings of the Fréchet distance between samples and images.

    Both are compared at the resolution of the model, rounded to the stored levels.

    Attributes:
        features: The feature extractor.
        samples: Number of samples.
        reference: Selects the images of the data set.
        images: Maximum number of images.
        name: Name of the metric.
        at_once: Number of samples to draw at a time.
    """

    features: FeatureSource
    samples: int
    reference: Callable[[Dataset], Tensor] = for_test
    images: int = 10_000
    name: str = "fid"
    at_once: int = 500

    def __call__(
        self, draw: Callable[[int], Tensor], data: Dataset, device: torch.device
    ) -> Measurement:
        """Return the Fréchet distance.

        Args:
            draw: Draws a number of samples in the space of the model.
            data: The images to compare them with.
            device: Device of the feature extractor.

        Returns:
            The distance, with its settings.
        """
        features = self.features.load()
        real = images_of(data, self.reference(data)[: self.images])
        fake = torch.cat([shown(data, draw(n)) for n in self.parts])
        if isinstance(features, nn.Module):
            features.to(device)
        measured = fid(features, real.to(device), fake.to(device))
        return replace(measured, settings={**measured.settings, "on": self.reference.__name__})

    @property
    def parts(self) -> Sequence[int]:
        """The sizes of the batches of samples."""
        whole, rest = divmod(self.samples, self.at_once)
        return [self.at_once] * whole + [rest] * (rest > 0)


def images_of(data: Dataset, rows: Tensor) -> Tensor:
    """Return stored rows as images from 0 to 1 at the resolution of the model, without noise."""
    return torch.cat([
        shown(data, data.transform.deterministic(part)) for part in torch.split(rows, 1000)
    ])


def shown(data: Dataset, y: Tensor) -> Tensor:
    """Return model inputs or samples as images from 0 to 1, rounded to the stored levels."""
    x = data.inverse_transform(y)
    return x if x.is_floating_point() else x.float() / int(data.train.max())
