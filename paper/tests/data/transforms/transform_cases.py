"""Rows and transforms that the tests of transforms share."""

import torch
from torch import Generator, Tensor

from paper.data import (
    Affine,
    Chain,
    Dequantize,
    Flatten,
    Flip,
    Identity,
    Jitter,
    Logit,
    Noise,
    Pad,
    Standardize,
    ToFloat,
    Transform,
    Whiten,
)

MIXING = [[1e3, 2, 0, 1], [0, 1, 5, 0], [0, 0, 1e-3, 1], [0, 0, 0, 2]]
TABLE = torch.randn(50, 4, generator=Generator().manual_seed(0), dtype=torch.float64)
TABLE = TABLE @ torch.tensor(MIXING, dtype=torch.float64) + torch.tensor([1e4, 0, -3, 7])
LEVELS = torch.randint(256, (20, 2, 3, 4), generator=Generator().manual_seed(1), dtype=torch.uint8)
UNIT = torch.rand(20, 1, 2, 3, generator=Generator().manual_seed(2), dtype=torch.float64)

INVERTIBLE: dict[str, tuple[Transform, Tensor]] = {
    "to_float": (ToFloat(), LEVELS),
    "affine": (Affine(-2.0, 3.0), UNIT),
    "dequantize": (Dequantize(256), LEVELS),
    "jitter": (Jitter(0.1), UNIT),
    "noise": (Noise(0.1), UNIT),
    "logit": (Logit(1e-9), UNIT),
    "pad": (Pad(7), LEVELS),
    "flip": (Flip(), LEVELS),
    "flatten": (Flatten(), LEVELS),
    "standardize": (Standardize(), TABLE),
    "whiten": (Whiten(), TABLE),
    "identity": (Identity(), UNIT),
    "empty-chain": (Chain(), UNIT),
    "nice": (
        Chain((ToFloat(), Jitter(1 / 256), Affine(0.98, 0.01), Logit(), Flatten())),
        LEVELS,
    ),
    "image-whitened": (Chain((Dequantize(), Flatten(), Standardize(), Affine(2.0))), LEVELS),
}
"""Transforms with an inverse, and rows to apply them to."""
