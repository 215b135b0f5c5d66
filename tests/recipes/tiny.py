"""Recipes that take no time, for tests."""

from dataclasses import dataclass, replace

import torch
from torch import nn

from fdsm.data import GaussianMixtureDensity, SyntheticData
from fdsm.objectives import DSM
from fdsm.paper.tables.toy_densities import CPU
from fdsm.recipes.networks import GaussianTail
from fdsm.recipes.recipe import TrainingPlan
from fdsm.training import ExponentialSchedule

tiny = replace(
    CPU[0],
    name="tiny",
    data=SyntheticData(GaussianMixtureDensity(((0.0, 0.0), (1.0, 1.0)), (0.5, 0.3)), n=200),
    network=GaussianTail((8, 8)),
    step_size=ExponentialSchedule(0.5),
    plan=TrainingPlan(40, 32, 5, 10, 10, ema_decay=0.9, num_samples=8),
    tempering=replace(
        CPU[0].tempering, schedule=replace(CPU[0].tempering.schedule, hold=2, anneal=5)
    ),
    sm_eval_rows=10,
)


@dataclass(frozen=True)
class Dropping:
    """A network whose dropout takes its random numbers from torch's own generator."""

    def build(self, shape: torch.Size) -> nn.Module:
        return nn.Sequential(
            nn.Linear(shape[0], 16),
            nn.SiLU(),
            nn.Dropout(0.5),
            nn.Linear(16, 1, bias=False),
            nn.Flatten(0),
        )


dropping = replace(tiny, name="dropping", objective=DSM(0.3), network=Dropping())
