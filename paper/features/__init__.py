"""Features of images for the Fréchet distances of Tables 5 and 6."""

from .classifier import Classifier, train_classifier
from .inception import inception_features
from .settings import ClassifierFeatures, InceptionFeatures

__all__ = [
    "Classifier",
    "ClassifierFeatures",
    "InceptionFeatures",
    "inception_features",
    "train_classifier",
]
