"""Digits worth showing: MNIST at its own resolution, trained for hours.

One energy-based model and one noise-conditional score network, both trained with the paper's
objectives and sampled from noise through all noise levels. The study `digit_samples` judges them.
"""

from fdsm.derivatives import FiniteDifference
from fdsm.noise import Geometric
from fdsm.objectives import SSM, SSMVR, Annealed
from fdsm.projections import Sphere
from fdsm.training import Adam, CosineSchedule

from ..data import MNIST, Affine, Chain, Dequantize, Pad
from ..recipes import (
    ConditionalResNet,
    Frechet,
    NoiseConditionalEBM,
    RandomFeatures,
    ScoreNetwork,
    TrainingPlan,
)

_ENERGY_LEVELS, _SCORE_LEVELS = Geometric(3.0, 0.1, 20), Geometric(2.0, 0.05, 12)
_NOTE = (
    "A demonstration, not in the paper. The objective is that of the paper at each noise level, "
    "with weight σ². Directions and steps are in units of σ, so that one step size suits all "
    "levels."
)

CPU = (
    NoiseConditionalEBM(
        "FD-SSM",
        Annealed(
            SSM(FiniteDifference(), Sphere(0.3), directions=2), _ENERGY_LEVELS, relative=True
        ),
        MNIST(1 / 60, transform=Chain((Pad(32), Dequantize(), Affine(2.0, -1.0)))),
        ConditionalResNet(8),
        _ENERGY_LEVELS,
        Adam(1e-3, (0.9, 0.99), clip=1.0, schedule=CosineSchedule()),
        TrainingPlan(25_000, 32, 50, 500, 500, ema_decay=0.999, num_samples=100),
        sampling_levels=300,
        validation_rows=200,
        provenance=f"{_NOTE} Images are padded to 32 × 32 and scaled to values from -1 to 1.",
    ),
    ScoreNetwork(
        "FD-SSMVR",
        Annealed(SSMVR(FiniteDifference(), Sphere(0.3)), _SCORE_LEVELS, relative=True),
        MNIST(1 / 60, transform=Dequantize()),
        _SCORE_LEVELS,
        8,
        Adam(1e-3, clip=1.0, schedule=CosineSchedule()),
        TrainingPlan(15_000, 32, 50, 500, 500, ema_decay=0.999, num_samples=100),
        steps=10,
        step_size=7.5e-4,
        denoise=True,
        distance=Frechet(RandomFeatures(), 500, name="frechet_random"),
        provenance=_NOTE,
    ),
)
"""One energy-based model and one score network."""

PAPER = CPU
"""The demonstration has only one scale."""
