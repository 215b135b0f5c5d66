"""Densities on the plane that are known, so that what is learnt of them can be judged.

SM, SSM, FD-SSM and FD-DSM learn eight Gaussians on a ring and a mixture of unequal ones. The
relative Fisher divergence is zero for the true score and one for none at all.
"""

from ...data import builtin_source
from ...derivatives import Autodiff, FiniteDifference, Taylor
from ...objectives import SM, SSM, SlicedDSM
from ...projections import Sphere
from ...recipes.ebm import EBM, TemperedSampling
from ...recipes.networks import GaussianTail
from ...recipes.recipe import TrainingPlan
from ...samplers import Temperatures
from ...training import Adam, CosineSchedule
from ...typing import Objective

_OBJECTIVES: dict[str, Objective] = {
    "FD-SSM": SSM(FiniteDifference(), Sphere(0.1)),
    "SSM": SSM(Autodiff(), Sphere(0.1)),
    "FD-DSM": SlicedDSM(0.1, FiniteDifference(), Sphere(0.1)),
    "SM": SM(Taylor()),
}

_DENSITIES = {
    "mixture": builtin_source("gaussian-mixture"),
    "ring": builtin_source("gaussian-ring"),
}

TABLE = tuple(
    EBM(
        f"{name} {density}" if density == "ring" else name,
        objective,
        data,
        GaussianTail(),
        Adam(5e-3, schedule=CosineSchedule()),
        plan=TrainingPlan(1500, 512, 25, 250, 500, num_samples=1000),
        tempering=TemperedSampling(
            Temperatures(100, 500, 0, 10.0), 0.1, 1e-3, spread=1.0, centre=0.0
        ),
    )
    for density, data in _DENSITIES.items()
    for name, objective in _OBJECTIVES.items()
)
"""A row for each objective and density."""
