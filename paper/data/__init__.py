"""Data sets: published ones, your own files, and samples of known densities."""

from .dataset import Dataset, Source
from .download import data_dir, find_file
from .errors import DataError
from .files.arrays import Array, ImageArray
from .files.from_path import from_path
from .files.images import ImageFolder
from fdsm.tables.frame.table_file import Table
from .sources.builtin import BUILTIN_NAMES, builtin_source
from .sources.celeba import CelebA
from .sources.cifar10 import CIFAR10
from .sources.densities import GaussianDensity, GaussianMixtureDensity, GaussianRing, spiral
from .sources.digits import Digits
from .sources.mnist import MNIST, FashionMNIST
from .sources.svhn import SVHN
from .sources.synthetic import KnownDensity, SyntheticData
from .sources.uci import Parkinsons, RedWine, WhiteWine
from .tables import TableSchema, frame_from, iter_frames, read_frame
from .transforms import (
    Affine,
    Binarize,
    Chain,
    Dequantize,
    EncodeColumns,
    FillMissing,
    Flatten,
    Flip,
    Identity,
    Jitter,
    Logit,
    Noise,
    NormalizeTails,
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
    "Array",
    "Binarize",
    "CelebA",
    "Chain",
    "DataError",
    "Dataset",
    "Dequantize",
    "Digits",
    "EncodeColumns",
    "FashionMNIST",
    "FillMissing",
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
    "NormalizeTails",
    "Pad",
    "Parkinsons",
    "RedWine",
    "Resize",
    "Source",
    "Standardize",
    "SyntheticData",
    "Table",
    "TableSchema",
    "ToFloat",
    "Transform",
    "WhiteWine",
    "Whiten",
    "builtin_source",
    "data_dir",
    "find_file",
    "frame_from",
    "from_path",
    "iter_frames",
    "read_frame",
    "spiral",
]
