"""Transforms from stored rows to model inputs."""

from .images import Flatten, Flip, Pad, Resize
from .pointwise import Affine, Binarize, Dequantize, Jitter, Logit, Noise, ToFloat
from .standardize import Standardize, Whiten
from .transform import Chain, Identity, Transform

__all__ = [
    "Affine",
    "Binarize",
    "Chain",
    "Dequantize",
    "Flatten",
    "Flip",
    "Identity",
    "Jitter",
    "Logit",
    "Noise",
    "Pad",
    "Resize",
    "Standardize",
    "ToFloat",
    "Transform",
    "Whiten",
]
