"""Transforms from stored rows to model inputs."""

from .columns import EncodeColumns
from .heavy_tails import NormalizeTails
from .images import Flatten, Flip, Pad, Resize
from .missing import FillMissing
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
