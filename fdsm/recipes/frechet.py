"""The Fréchet distance of a model's samples, as a value that can be put on record.

Which features, how many samples and which images all change the number, so that all of it is
part of a recipe. Only the Inception network's features make it "the FID"; where its weights are
not at hand a small classifier or random convolutions stand in, and their distances compare only
with one another.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Protocol

import torch
from torch import Tensor, nn

from ..data import Dataset, Source
from ..data.download import find_file
from ..evaluation import Features, Measurement, fid, inception_features, train_classifier
from ..evaluation.random_features import RandomConvolutions


class FeatureSource(Protocol):
    """Where the features come from: a frozen dataclass of plain values that can load them."""

    def load(self) -> Features:
        """Return the features, on the CPU."""
        ...


@dataclass(frozen=True)
class InceptionFeatures:
    """The 2048 numbers of the Inception network of 2015, by which "the FID" is defined.

    Attributes:
        weights: The file with the weights, see `fdsm.evaluation.inception`: its name in the
            folder of the data or in `inception` there, or its path.
    """

    weights: str = "pt_inception-2015-12-05-6726825d.pth"

    def load(self) -> Features:
        """Return the network; raises `DataError` if its weights are nowhere."""
        path = find_file(self.weights, ("inception", ""))
        return inception_features(path)


@dataclass(frozen=True)
class ClassifierFeatures:
    """The last hidden layer of a small classifier, trained when first needed.

    It is trained once per process, always on one seed: on one machine it is always the same.

    Attributes:
        data: Labelled images; the first of the training rows are taken as the transform shows
            them.
        images: How many of them.
        epochs: How often it sees each.
        width: The channels of its first layer.
        features: How many features there are.
        seed: Decides everything random about it.
    """

    data: Source
    images: int = 20_000
    epochs: int = 3
    width: int = 8
    features: int = 32
    seed: int = 0

    def load(self) -> Features:
        """Return the classifier, trained."""
        return _classifier(self)


@dataclass(frozen=True)
class RandomFeatures:
    """The maps of convolutions with random weights, which need neither labels nor a download.

    Attributes:
        widths: The channels after each convolution; the last are the features.
        seed: Decides the weights.
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
    """How the distance between samples and images is measured.

    Both are compared as they would be stored, rounded to bytes, at the resolution of the model.

    Attributes:
        features: By which features.
        samples: How many samples.
        reference: Which images of the data.
        images: At most how many of them.
        name: What the distance is called in a result.
        at_once: How many samples to draw at a time.
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
        """Return the distance.

        Args:
            draw: Draws so many samples, in the space of the model.
            data: The images to compare them with.
            device: Where the features are computed.

        Returns:
            The distance, with what it depends on.
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
        """How many samples to draw each time, so that there are enough in the end."""
        whole, rest = divmod(self.samples, self.at_once)
        return [self.at_once] * whole + [rest] * (rest > 0)


def images_of(data: Dataset, rows: Tensor) -> Tensor:
    """Return stored rows as the model is shown them, without noise, as images from 0 to 1."""
    return torch.cat([
        shown(data, data.transform.deterministic(part)) for part in torch.split(rows, 1000)
    ])


def shown(data: Dataset, y: Tensor) -> Tensor:
    """Return model rows as images from 0 to 1, rounded to the levels that images are stored in."""
    x = data.inverse_transform(y)
    return x if x.is_floating_point() else x.float() / int(data.train.max())


@cache
def _classifier(features: ClassifierFeatures) -> Features:
    data = features.data.load()
    if data.labels is None:
        raise ValueError(f"{data.record['name']} has no labels to train a classifier on")
    return train_classifier(
        images_of(data, data.train[: features.images]),
        data.labels[0][: features.images],
        seed=features.seed,
        epochs=features.epochs,
        width=features.width,
        features=features.features,
    )
