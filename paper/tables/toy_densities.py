"""Known densities in the plane, so that the learned scores can be compared with the true ones.

SM, SSM, FD-SSM and FD-DSM learn a mixture of three unequal Gaussians and a ring of eight equal
ones. The relative Fisher divergence is zero for the true score and one for a score of zero.
"""

from fdsm.derivatives import Autodiff, FiniteDifference, Taylor
from fdsm.objectives import SM, SSM, SlicedDSM
from fdsm.projections import Sphere
from fdsm.samplers import Temperatures
from fdsm.training import Adam, CosineSchedule
from fdsm.typing import Objective

from ..data import Source, builtin_source
from ..recipes import EBM, GaussianTail, TemperedSampling, TrainingPlan

_OBJECTIVES: dict[str, Objective] = {
    "FD-SSM": SSM(FiniteDifference(), Sphere(0.1)),
    "SSM": SSM(Autodiff(), Sphere(0.1)),
    "FD-DSM": SlicedDSM(0.1, FiniteDifference(), Sphere(0.1)),
    "SM": SM(Taylor()),
}


def _recipe(name: str, objective: Objective, data: Source) -> EBM:
    return EBM(
        name,
        objective,
        data,
        GaussianTail(),
        Adam(5e-3, schedule=CosineSchedule()),
        plan=TrainingPlan(1500, 512, 25, 250, 500, num_samples=1000),
        tempering=TemperedSampling(
            Temperatures(100, 500, 0, 10.0), 0.1, 1e-3, spread=1.0, center=0.0
        ),
        provenance="A demonstration. Not in the paper.",
    )


_MIXTURE, _RING = builtin_source("gaussian-mixture"), builtin_source("gaussian-ring")

CPU = (
    *(_recipe(name, objective, _MIXTURE) for name, objective in _OBJECTIVES.items()),
    *(_recipe(f"{name} ring", objective, _RING) for name, objective in _OBJECTIVES.items()),
)
"""One row for each objective and density."""

PAPER = CPU
"""The demonstration has only one scale."""
