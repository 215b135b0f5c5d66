"""The demonstration: digits that come with a dependency, learnt five ways in two minutes or so.

DSM and FD-DSM learn one log-density from data with all amounts of noise, so that samples can be
drawn from nothing; SSM and FD-SSM learn that of data with a fixed amount. Each pair differs by
the derivative alone, but for one thing: a projection says little about 64 dimensions, so FD-DSM
takes four per image, which the gradient of DSM does not need. Taylor-SSM takes four, too, which
cost it twice as much as one, and finite differences three times.
"""

from ...data import Affine, Chain, Digits, Noise
from ...derivatives import Autodiff, FiniteDifference, Taylor
from ...noise import Arithmetic
from ...objectives import DSM, SSM, MultiscaleDSM, SlicedDSM
from ...projections import Sphere
from ...recipes.ebm import EBM, Rotated, ShuffledFeatures, TemperedSampling
from ...recipes.networks import MLP
from ...recipes.recipe import TrainingPlan
from ...samplers import Temperatures
from ...training import Adam, CosineSchedule
from ...typing import Objective

_DIRECTIONS = Sphere(0.1)
_LEVELS = Arithmetic(0.05, 1.2)
_SCALED = Affine(1 / 16)


def _row(name: str, objective: Objective, *, noise: float, lr: float) -> EBM:
    """Return a recipe for a log-density of digits blurred by some noise."""
    blurred = () if isinstance(objective, MultiscaleDSM) else (Noise(noise),)
    return EBM(
        name,
        objective,
        Digits(transform=Chain((_SCALED, *blurred))),
        MLP((128, 128, 128)),
        Adam(lr, (0.9, 0.95), schedule=CosineSchedule()),
        plan=TrainingPlan(3500, 128, 25, 500, 500),
        tempering=TemperedSampling(Temperatures(50, 600, 150, 30.0), 0.05, noise),
        ood_sources=(Rotated(), ShuffledFeatures()),
    )


_SLICED = SlicedDSM(0.1, FiniteDifference(), _DIRECTIONS, directions=4)

TABLE = (
    _row("DSM", MultiscaleDSM(DSM(0.1), _LEVELS), noise=0.1, lr=6e-3),
    _row("FD-DSM", MultiscaleDSM(_SLICED, _LEVELS), noise=0.1, lr=6e-3),
    _row("SSM", SSM(Autodiff(), _DIRECTIONS), noise=0.3, lr=1e-3),
    _row("FD-SSM", SSM(FiniteDifference(), _DIRECTIONS), noise=0.3, lr=1e-3),
    _row("Taylor-SSM", SSM(Taylor(), _DIRECTIONS, directions=4), noise=0.3, lr=1e-3),
)
"""A row for each objective."""
