"""A recipe that takes no time, for tests."""

from dataclasses import replace

from fdsm.data import GaussianMixture, Toy
from fdsm.experiments.density import TABLE
from fdsm.experiments.networks import Confined
from fdsm.experiments.recipe import Plan
from fdsm.training import Exponential

tiny = replace(
    TABLE[0],
    name="tiny",
    data=Toy(GaussianMixture(((0.0, 0.0), (1.0, 1.0)), (0.5, 0.3)), n=200),
    network=Confined((8, 8)),
    step_size=Exponential(0.5),
    plan=Plan(40, 32, 5, 10, 10, average=0.9, samples=8),
    tempering=replace(
        TABLE[0].tempering, schedule=replace(TABLE[0].tempering.schedule, hold=2, anneal=5)
    ),
    exact_rows=10,
)
