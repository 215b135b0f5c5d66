"""Digits worth showing: MNIST at its own resolution, trained for about an hour each.

One energy-based model and one noise-conditional score network, both trained with the paper's
objectives and sampled from noise through all noise levels. The study `digit_samples` judges them.
"""

from fdsm.derivatives import FiniteDifference
from fdsm.noise import Geometric, LogUniform
from fdsm.objectives import SSMVR, Annealed, AnnealedSlicedDSM
from fdsm.projections import Sphere
from fdsm.training import Adam, CosineSchedule

from ..data import MNIST, Affine, Chain, Dequantize
from ..recipes import (
    DensityUNet,
    NoiseConditionalEBM,
    NoiseConditionalScore,
    ScoreUNet,
    TrainingPlan,
)

_FIRST, _LAST = 10.0, 0.1
_DATA = MNIST(1 / 60, transform=Chain((Dequantize(), Affine(3.2, -0.4))))
_NOTE = (
    "A demonstration, not in the paper. The objective is that of the paper at each noise level, "
    "with weight σ². Directions and steps are in units of σ, so that one step size suits all "
    "levels. Pixels are scaled to zero mean and unit variance."
)

CPU = (
    NoiseConditionalEBM(
        "FD-DSM",
        AnnealedSlicedDSM(LogUniform(_FIRST, _LAST), FiniteDifference(), Sphere(0.3)),
        _DATA,
        DensityUNet(24),
        Geometric(_FIRST, _LAST, 10),
        Adam(1e-3, (0.9, 0.99), clip=1.0, schedule=CosineSchedule()),
        TrainingPlan(25_000, 64, 50, 500, 500, ema_decay=0.999, num_samples=100),
        validation_rows=200,
        provenance=_NOTE,
    ),
    NoiseConditionalScore(
        "FD-SSMVR",
        Annealed(SSMVR(FiniteDifference(), Sphere(0.3)), LogUniform(_FIRST, _LAST), relative=True),
        _DATA,
        ScoreUNet(32),
        Geometric(_FIRST, _LAST, 10),
        Adam(1e-3, (0.9, 0.99), clip=1.0, schedule=CosineSchedule()),
        TrainingPlan(10_000, 64, 50, 500, 500, ema_decay=0.999, num_samples=100),
        validation_rows=200,
        provenance=_NOTE,
    ),
)
"""One energy-based model and one score network."""

PAPER = CPU
"""The demonstration has only one scale."""
