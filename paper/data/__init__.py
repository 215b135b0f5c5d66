"""Data sets: published ones, your own images, and samples of known densities."""

from .dataset import Dataset, Source
from .download import data_dir, find_file
from .errors import DataError
from .files.arrays import ImageArray
from .files.from_path import from_path
from .files.images import ImageFolder
from .sources.builtin import BUILTIN_NAMES, builtin_source
from .sources.celeba import CelebA
from .sources.cifar10 import CIFAR10
from .sources.densities import GaussianDensity, GaussianMixtureDensity, GaussianRing, spiral
from .sources.digits import Digits
from .sources.mnist import MNIST, FashionMNIST
from .sources.svhn import SVHN
from .sources.synthetic import KnownDensity, SyntheticData
from .sources.uci import Parkinsons, RedWine, WhiteWine
from .transforms import (
    Affine,
    Binarize,
    Chain,
    Dequantize,
    Flatten,
    Flip,
    Identity,
    Jitter,
    Logit,
    Noise,
    Pad,
    Resize,
    Standardize,
    ToFloat,
    Transform,
    Whiten,
)

__all__ = [
    "BUILTIN_NAMES",
    "CIFAR10",
    "MNIST",
    "SVHN",
    "Affine",
    "Binarize",
    "CelebA",
    "Chain",
    "DataError",
    "Dataset",
    "Dequantize",
    "Digits",
    "FashionMNIST",
    "Flatten",
    "Flip",
    "GaussianDensity",
    "GaussianMixtureDensity",
    "GaussianRing",
    "Identity",
    "ImageArray",
    "ImageFolder",
    "Jitter",
    "KnownDensity",
    "Logit",
    "Noise",
    "Pad",
    "Parkinsons",
    "RedWine",
    "Resize",
    "Source",
    "Standardize",
    "SyntheticData",
    "ToFloat",
    "Transform",
    "WhiteWine",
    "Whiten",
    "builtin_source",
    "data_dir",
    "find_file",
    "from_path",
    "spiral",
]
