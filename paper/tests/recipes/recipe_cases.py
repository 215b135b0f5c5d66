"""Recipes that train in a second. Runs can name them as `recipe_cases.py:tiny`."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import Generator, Tensor, nn

from fdsm.derivatives import FiniteDifference
from fdsm.objectives import DSM, SSM
from fdsm.projections import Sphere
from fdsm.samplers import Temperatures
from fdsm.training import Adam, CosineSchedule, ExponentialSchedule, ShuffledBatches, fit
from paper.data import Chain, Dataset, GaussianMixtureDensity, SyntheticData
from paper.recipes import EBM, GaussianTail, KernelFamily, Recipe, TemperedSampling, TrainingPlan

tiny = EBM(
    "tiny",
    SSM(FiniteDifference(), Sphere(0.1)),
    SyntheticData(GaussianMixtureDensity(((0.0, 0.0), (1.0, 1.0)), (0.5, 0.3)), n=200),
    GaussianTail((8, 8)),
    Adam(5e-3, schedule=CosineSchedule()),
    step_size=ExponentialSchedule(0.5),
    plan=TrainingPlan(40, 32, 5, 10, 10, ema_decay=0.9, num_samples=8),
    tempering=TemperedSampling(Temperatures(2, 5, 0, 10.0), 0.1, 1e-3, spread=1.0, center=0.0),
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


kernel = KernelFamily("kernel", SSM(), tiny.data, inducing=20, plan=tiny.plan)
dropping = replace(tiny, name="dropping", objective=DSM(0.3), network=Dropping())


def silent(steps: Iterable[int]) -> Iterable[int]:
    """Show no progress."""
    return steps


def splits(train: Tensor, validation: Tensor, test: Tensor) -> Dataset:
    """Return a data set of given rows, which the model sees as they are."""
    return Dataset(train, validation, test, Chain(()), {})


def fit_model(recipe: Recipe, iterations: int, batch: int) -> tuple[nn.Module, Dataset]:
    """Return the model of a recipe after a short training, and its data."""
    torch.manual_seed(0)
    generator, data = Generator().manual_seed(0), recipe.data.load()
    model = recipe.build(data.shape)
    recipe.before_training(model, data, generator)
    batches = ShuffledBatches(data.train, data.transform, batch, seed=0)
    fit(recipe.step(model, data), batches, iterations, generator=generator)
    recipe.after_training(model, data, generator)
    return model, data


def first_step(
    recipe: Recipe, shape: tuple[int, ...], data: Dataset | None = None
) -> tuple[nn.Module, dict[str, float]]:
    """Return the model after a step on two events, and how far each of its tensors moved."""
    torch.manual_seed(0)
    generator = Generator().manual_seed(0)
    model = recipe.build(torch.Size(shape))
    if data is not None:
        recipe.before_training(model, data, generator)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    step = recipe.step(model, cast(Dataset, data))
    step(torch.rand(2, *shape, generator=generator), generator)
    moved = {name: (p - before[name]).abs().max().item() for name, p in model.named_parameters()}
    return model, moved
