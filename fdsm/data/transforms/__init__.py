"""How stored rows become what a model sees."""

from .fitted import Standardise, Whiten
from .images import CenterCrop, Flatten, Flip, Pad, Resize
from .transform import Chain, Plain, Transform
from .values import Affine, Binarise, Dequantise, Jitter, Logit, Noise, ToFloat

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
