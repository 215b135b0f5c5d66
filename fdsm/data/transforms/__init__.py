"""How stored rows become what a model sees."""

from .images import CenterCrop, Flatten, Flip, Pad, Resize
from .pointwise import Affine, Binarize, Dequantize, Jitter, Logit, Noise, ToFloat
from .standardize import Standardize, Whiten
from .transform import Chain, Plain, Transform

__all__ = [
    "Affine",
    "Binarize",
    "CenterCrop",
    "Chain",
    "Dequantize",
    "Flatten",
    "Flip",
    "Jitter",
    "Logit",
    "Noise",
    "Pad",
    "Plain",
    "Resize",
    "Standardize",
    "ToFloat",
    "Transform",
    "Whiten",
]
