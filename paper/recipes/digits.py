"""The demonstration: five objectives on the 8 × 8 digits of scikit-learn, in a few minutes.

DSM and FD-DSM learn one log-density from data with all noise levels, so that tempered Langevin
dynamics can draw samples from it. SSM, FD-SSM and Taylor-SSM learn the log-density of data with
one noise level. FD-DSM uses four directions per image, because one direction carries little
information about 64 dimensions. Taylor-SSM uses four as well: four directions cost it twice as
much as one, while finite differences would cost three times as much.
"""

from ..data import Affine, Chain, Digits, Noise, Transform
from fdsm.derivatives import Autodiff, FiniteDifference, Taylor
from fdsm.noise import Arithmetic
from fdsm.objectives import DSM, SSM, MultiscaleDSM, SlicedDSM
from fdsm.projections import Sphere
from fdsm.samplers import Temperatures
from fdsm.training import Adam, CosineSchedule
from fdsm.typing import Objective
from .ebm import EBM, Rotated, ShuffledFeatures, TemperedSampling
from .networks import MLP
from .recipe import TrainingPlan

_SPHERE = Sphere(0.1)
_LEVELS = Arithmetic(0.05, 1.2)
_FD_DSM = SlicedDSM(0.1, FiniteDifference(), _SPHERE, directions=4)


def _recipe(
    name: str, objective: Objective, *, sigma: float, lr: float, noise: tuple[Transform, ...] = ()
) -> EBM:
    """Return the recipe of an objective.

    Args:
        name: Name of the row.
        objective: The objective.
        sigma: Noise level of the density that is sampled.
        lr: Learning rate.
        noise: Noise that is added to the data. Multi-scale objectives add their own.

    Returns:
        The recipe.
    """
    return EBM(
        name,
        objective,
        Digits(transform=Chain((Affine(1 / 16), *noise))),
        MLP((128, 128, 128)),
        Adam(lr, (0.9, 0.95), schedule=CosineSchedule()),
        plan=TrainingPlan(3500, 128, 25, 500, 500),
        tempering=TemperedSampling(Temperatures(50, 600, 150, 30.0), 0.05, sigma),
        ood_sources=(Rotated(), ShuffledFeatures()),
        provenance="A demonstration. Not in the paper.",
    )


def _sliced(name: str, objective: Objective) -> EBM:
    return _recipe(name, objective, sigma=0.3, lr=1e-3, noise=(Noise(0.3),))


DIGITS = (
    _recipe("DSM", MultiscaleDSM(DSM(0.1), _LEVELS), sigma=0.1, lr=6e-3),
    _recipe("FD-DSM", MultiscaleDSM(_FD_DSM, _LEVELS), sigma=0.1, lr=6e-3),
    _sliced("SSM", SSM(Autodiff(), _SPHERE)),
    _sliced("FD-SSM", SSM(FiniteDifference(), _SPHERE)),
    _sliced("Taylor-SSM", SSM(Taylor(), _SPHERE, directions=4)),
)
"""One recipe for each objective."""
