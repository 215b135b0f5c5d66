"""Feature extractors as settings of a recipe."""

from dataclasses import dataclass
from functools import cache

from fdsm.evaluation import Features

from ..data import Source, find_file
from ..recipes import images_of
from .classifier import train_classifier
from .inception import inception_features


@dataclass(frozen=True)
class InceptionFeatures:
    """The 2,048 features of the Inception network of 2015, which define the FID.

    Attributes:
        weights: The file with the weights, see `paper.features.inception`: its name in the
            folder of the data or in `inception` there, or its path.
    """

    weights: str = "pt_inception-2015-12-05-6726825d.pth"

    def load(self) -> Features:
        """Return the network. Raises `DataError` if its weights are not found."""
        path = find_file(self.weights, ("inception", ""))
        return inception_features(path)


@dataclass(frozen=True)
class ClassifierFeatures:
    """The last hidden layer of a small classifier, trained when first needed.

    It is trained once per process with a fixed seed, so it is always the same on one machine.

    Attributes:
        data: Labeled images. The first training rows are used.
        images: Number of images.
        epochs: Number of epochs.
        width: Number of channels of the first layer.
        features: Number of features.
        seed: Random seed.
    """

    data: Source
    images: int = 20_000
    epochs: int = 3
    width: int = 8
    features: int = 32
    seed: int = 0

    def load(self) -> Features:
        """Return the trained classifier."""
        return _classifier(self)


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
