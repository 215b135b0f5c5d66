"""Data sets: published ones, your own, and samples of known densities."""

from .dataset import Dataset, Source
from .download import root
from .errors import DataError
from .files.arrays import Array, ImageArray
from .files.from_path import own
from .files.images import ImageFolder
from .files.table import Table
from .sources.celeba import CelebA
from .sources.cifar10 import CIFAR10
from .sources.densities import Checkerboard, GaussianRing
from .sources.digits import Digits
from .sources.mixtures import Gaussian, GaussianMixture, spiral
from .sources.mnist import MNIST, FashionMNIST
from .sources.svhn import SVHN
from .sources.synthetic import Density, SyntheticData
from .sources.uci import Parkinsons, RedWine, WhiteWine
from .transforms import (
    Affine,
    Binarize,
    CenterCrop,
    Chain,
    Dequantize,
    Flatten,
    Flip,
    Jitter,
    Logit,
    Noise,
    Pad,
    Plain,
    Resize,
    Standardize,
    ToFloat,
    Transform,
    Whiten,
)

__all__ = [
    "CIFAR10",
    "MNIST",
    "SVHN",
    "Affine",
    "Array",
    "Binarize",
    "CelebA",
    "CenterCrop",
    "Chain",
    "Checkerboard",
    "DataError",
    "Dataset",
    "Density",
    "Dequantize",
    "Digits",
    "FashionMNIST",
    "Flatten",
    "Flip",
    "Gaussian",
    "GaussianMixture",
    "GaussianRing",
    "ImageArray",
    "ImageFolder",
    "Jitter",
    "Logit",
    "Noise",
    "Pad",
    "Parkinsons",
    "Plain",
    "RedWine",
    "Resize",
    "Source",
    "Standardize",
    "SyntheticData",
    "Table",
    "ToFloat",
    "Transform",
    "WhiteWine",
    "Whiten",
    "own",
    "root",
    "spiral",
]
