"""A recipe of your own: an energy-based model of points on a spiral, trained with FD-SSM.

`python -m paper train --recipe paper/examples/own_recipe.py:spiral_ebm` trains it. The step size
of the finite differences shrinks to a fifth during training. To train the same model on your own
points, give their file after `train`, for example `points.npy`.
"""

from fdsm import SSM, FiniteDifference, Sphere
from fdsm.samplers import Temperatures
from fdsm.training import Adam, CosineSchedule, ExponentialSchedule
from paper.data import SyntheticData, spiral
from paper.recipes import EBM, GaussianTail, TemperedSampling, TrainingPlan

spiral_ebm = EBM(
    name="spiral",
    objective=SSM(FiniteDifference(), Sphere(0.1)),
    data=SyntheticData(spiral(), n=20_000),
    network=GaussianTail((64, 64, 64)),
    optimizer=Adam(5e-3, schedule=CosineSchedule()),
    step_size=ExponentialSchedule(0.2),
    plan=TrainingPlan(iterations=1500, batch=512, num_samples=500),
    tempering=TemperedSampling(Temperatures(100, 500, 0, 10.0), step=0.03, sigma=1e-3, center=0.0),
    ood_sources=(),
)
