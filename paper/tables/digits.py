"""Digits worth showing: MNIST at its own resolution, trained for one to two hours each.

Energy-based models and a noise-conditional score network, trained with the paper's objectives and
sampled from noise through all noise levels. The study `digit_samples` judges them.
"""

from dataclasses import replace

from fdsm.derivatives import FiniteDifference
from fdsm.noise import Geometric, LogNormal
from fdsm.objectives import SSMVR, Annealed, AnnealedSlicedDSM, ViaScore
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

_LEVELS = LogNormal(2.0, 1.0)
_ENERGY_LEVELS, _SCORE_LEVELS = Geometric(20.0, 0.2, 10), Geometric(20.0, 0.1, 10)
_DATA = MNIST(1 / 60, transform=Chain((Dequantize(), Affine(3.2, -0.4))))
_ADAM = Adam(1e-3, (0.9, 0.99), clip=1.0, schedule=CosineSchedule())
_NOTE = (
    "A demonstration, not in the paper. The objective is that of the paper at each noise level, "
    "with weight σ². Directions and steps are in units of σ, so that one step size suits all "
    "levels. Pixels are scaled to zero mean and unit variance. Most examples in training have "
    "levels between 1 and 5, where the model decides which digit a sample becomes."
)
_FD_DSM = AnnealedSlicedDSM(_LEVELS, FiniteDifference(), Sphere(0.3))
_FD_SSMVR = SSMVR(FiniteDifference(), Sphere(0.3))

_PLAN = TrainingPlan(10_000, 64, 50, 500, 500, ema_decay=0.999, num_samples=100)
_FD_DSM_ENERGY = NoiseConditionalEBM(
    "EBM FD-DSM",
    _FD_DSM,
    _DATA,
    DensityUNet(24),
    _ENERGY_LEVELS,
    _ADAM,
    _PLAN,
    validation_rows=200,
    provenance=_NOTE,
)

CPU = (
    _FD_DSM_ENERGY,
    replace(
        _FD_DSM_ENERGY,
        name="EBM FD-SSMVR",
        objective=Annealed(ViaScore(_FD_SSMVR), _LEVELS, relative=True),
        optimizer=replace(_ADAM, lr=2e-3),
        plan=replace(_PLAN, iterations=24_000, batch=32),
        provenance=f"{_NOTE} The objective is that of the gradient of the log-density.",
    ),
    NoiseConditionalScore(
        "FD-SSMVR",
        Annealed(_FD_SSMVR, _LEVELS, relative=True),
        _DATA,
        ScoreUNet(32),
        _SCORE_LEVELS,
        _ADAM,
        replace(_PLAN, iterations=16_000),
        sampling_levels=400,
        validation_rows=200,
        provenance=_NOTE,
    ),
)
"""Two energy-based models and a score network."""

PAPER = CPU
"""The demonstration has only one scale."""
