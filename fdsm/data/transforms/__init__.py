"""How stored rows become what a model sees."""

from .images import CenterCrop, Flatten, Flip, Pad, Resize
from .pointwise import Affine, Binarise, Dequantise, Jitter, Logit, Noise, ToFloat
from .standardize import Standardise, Whiten
from .transform import Chain, Plain, Transform

__all__ = [
    "Affine",
    "Binarise",
    "CenterCrop",
    "Chain",
    "Dequantise",
    "Flatten",
    "Flip",
    "Jitter",
    "Logit",
    "Noise",
    "Pad",
    "Plain",
    "Resize",
    "Standardise",
    "ToFloat",
    "Transform",
    "Whiten",
]
