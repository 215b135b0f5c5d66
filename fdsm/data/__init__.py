"""Data sets: published ones, your own, and samples of known densities."""

from .array import Array, ImageArray
from .celeba import CelebA
from .cifar import CIFAR10
from .dataset import Dataset, Source
from .digits import Digits
from .errors import DataError
from .image_folder import ImageFolder
from .locations import root
from .mixtures import Gaussian, GaussianMixture, spiral
from .mnist import MNIST, FashionMNIST
from .own import own
from .svhn import SVHN
from .synthetic import Checkerboard, GaussianRing
from .table import Table
from .toy import Density, Toy
from .transforms import (
    Affine,
    Binarise,
    CenterCrop,
    Chain,
    Dequantise,
    Flatten,
    Flip,
    Jitter,
    Logit,
    Noise,
    Pad,
    Plain,
    Resize,
    Standardise,
    ToFloat,
    Transform,
    Whiten,
)
from .uci import Parkinsons, RedWine, WhiteWine

__all__ = [
    "CIFAR10",
    "MNIST",
    "SVHN",
    "Affine",
    "Array",
    "Binarise",
    "CelebA",
    "CenterCrop",
    "Chain",
    "Checkerboard",
    "DataError",
    "Dataset",
    "Density",
    "Dequantise",
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
    "Standardise",
    "Table",
    "ToFloat",
    "Toy",
    "Transform",
    "WhiteWine",
    "Whiten",
    "own",
    "root",
    "spiral",
]
