"""Known densities in the plane, so that the learnt scores can be compared with the true ones.

SM, SSM, FD-SSM and FD-DSM learn a mixture of three unequal Gaussians and a ring of eight equal
ones. The relative Fisher divergence is zero for the true score and one for a score of zero.
"""

from ...data import GaussianMixture, GaussianRing, Source, SyntheticData
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

_MIXTURE = SyntheticData(
    GaussianMixture(
        means=((-1.5, 0.0), (1.0, 1.2), (1.2, -1.0)),
        scales=(0.6, 0.35, 0.45),
        weights=(0.5, 0.2, 0.3),
    ),
    n=50_000,
)
_RING = SyntheticData(GaussianRing(), n=50_000)


def _recipe(name: str, objective: Objective, data: Source) -> EBM:
    return EBM(
        name,
        objective,
        data,
        GaussianTail(),
        Adam(5e-3, schedule=CosineSchedule()),
        plan=TrainingPlan(1500, 512, 25, 250, 500, num_samples=1000),
        tempering=TemperedSampling(
            Temperatures(100, 500, 0, 10.0), 0.1, 1e-3, spread=1.0, centre=0.0
        ),
        provenance="A demonstration. Not in the paper.",
    )


CPU = (
    *(_recipe(name, objective, _MIXTURE) for name, objective in _OBJECTIVES.items()),
    *(_recipe(f"{name} ring", objective, _RING) for name, objective in _OBJECTIVES.items()),
)
"""One row for each objective and density."""

PAPER = CPU
"""The demonstration has only one scale."""
