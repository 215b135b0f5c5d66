"""Transforms from stored rows to model inputs."""

from fdsm.tables.encoder import EncodeColumns
from fdsm.tables.heavy_tails import NormalizeTails
from .images import Flatten, Flip, Pad, Resize
from fdsm.tables.imputation import FillMissing
from .pointwise import Affine, Binarize, Dequantize, Jitter, Logit, Noise, ToFloat
from .standardize import Standardize, Whiten
from .transform import Chain, Identity, Transform

__all__ = [
    "Affine",
    "Binarize",
    "Chain",
    "Dequantize",
    "EncodeColumns",
    "FillMissing",
    "Flatten",
    "Flip",
    "Identity",
    "Jitter",
    "Logit",
    "Noise",
    "NormalizeTails",
    "Pad",
    "Resize",
    "Standardize",
    "ToFloat",
    "Transform",
    "Whiten",
]
