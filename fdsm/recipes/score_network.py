"""Noise-conditional score networks (Table 5 of the paper).

They are judged by the Fréchet distance of their samples, and by a denoising loss that is the same
for all objectives: one for no score at all, and least for the true one.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import cast

import torch
from torch import Generator, Tensor, nn

from ..data import Dataset, Source
from ..evaluation import Measurement, mean_of
from ..models import RefineNet
from ..noise import Geometric
from ..objectives import AnnealedDSM
from ..samplers import Progress, annealed_langevin
from ..serialize import find_fields
from ..training import Adam, GradientStep, OptimizerConfig, objective_loss
from ..typing import Objective, Score, Step
from .frechet import (
    Frechet,
    InceptionFeatures,
    for_training,
)
from .recipe import Recipe, TrainingPlan


@dataclass(frozen=True)
class ScoreNetwork(Recipe):
    """A score network that is told the noise level, and how to train it.

    Attributes:
        name: The name of the row.
        objective: What to minimise.
        data: Where the data comes from.
        levels: The noise levels.
        width: The channels of the finest stage of the network.
        optimizer: How to train it.
        plan: How long to train.
        steps: How many steps of sampling at every level.
        step_size: The step at the last level.
        denoise: Whether samples end with a step that takes the last noise off.
        test_rows: On how many test rows the denoising loss is evaluated.
        distance: How the Fréchet distance of samples is.
        watched: How it is when validating, with fewer samples; not at all if `None`.
        provenance: Where its settings come from.
    """

    name: str
    objective: Objective
    data: Source
    levels: Geometric = Geometric(1.0, 0.01, 10)
    width: int = 128
    optimizer: OptimizerConfig = Adam(1e-3)
    plan: TrainingPlan = TrainingPlan()
    steps: int = 100
    step_size: float = 2e-5
    denoise: bool = False
    test_rows: int = 2000
    distance: Frechet = Frechet(InceptionFeatures(), 50_000, for_training, images=50_000)
    watched: Frechet | None = None
    provenance: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        for levels in find_fields(self.objective, "levels"):
            if levels != self.levels:
                raise ValueError(
                    f"the noise levels of the objective, {levels}, are not those of the network, "
                    f"{self.levels}: change both in a recipe of your own"
                )

    def build(self, shape: torch.Size) -> nn.Module:
        """Return the network, untrained."""
        if len(shape) != 3:
            raise ValueError(
                f"this network is for images, but an event has shape {tuple(shape)}: "
                "use deep_ebm for rows of numbers"
            )
        return RefineNet(shape[0], self.width, self.levels.levels)

    def step(self, model: nn.Module, data: Dataset) -> Step:
        """Return a step down the gradient of the objective."""
        loss = objective_loss(self.objective, model)
        return GradientStep(loss, model, self.optimizer, self.plan.iterations)

    def validate(self, model: nn.Module, data: Dataset, generator: Generator) -> dict[str, float]:
        """Return the denoising loss of validation rows, and the distance of a few samples."""
        rows = data.validation[:500]
        numbers = {"denoising": self._denoising(model, data, rows, generator).value}
        if self.watched is not None:
            numbers[self.watched.name] = self._distance(self.watched, model, data, generator).value
        return numbers

    def evaluate(
        self, model: nn.Module, data: Dataset, generator: Generator
    ) -> dict[str, Measurement]:
        """Return the Fréchet distance of samples and the denoising loss of test rows."""
        rows = data.test[: self.test_rows]
        return {
            self.distance.name: self._distance(self.distance, model, data, generator),
            "denoising": self._denoising(model, data, rows, generator),
        }

    def sample(
        self, model: nn.Module, shape: torch.Size, n: int, generator: Generator, progress: Progress
    ) -> Tensor:
        """Return samples, drawn from the most noise to the least."""
        return annealed_langevin(
            cast(Score, model),
            torch.rand(n, *shape, generator=generator, device=generator.device),
            self.levels.levels,
            steps=self.steps,
            step_size=self.step_size,
            denoise=self.denoise,
            generator=generator,
            progress=progress,
        ).clamp(0, 1)

    def objective_model(self, model: nn.Module) -> nn.Module:
        """Return the network, to which the objective is applied."""
        return model

    def _distance(
        self, how: Frechet, model: nn.Module, data: Dataset, generator: Generator
    ) -> Measurement:
        draw = lambda n: self.sample(model, data.shape, n, generator, _unwatched)
        return how(draw, data, generator.device)

    @torch.no_grad()
    def _denoising(
        self, model: nn.Module, data: Dataset, rows: Tensor, generator: Generator
    ) -> Measurement:
        objective, losses = AnnealedDSM(self.levels), []
        for part in torch.split(rows, 100):
            x = data.transform.sample(part.to(generator.device), generator)
            losses.append(objective(model, x, generator=generator))
        return mean_of(torch.cat(losses), levels=list(self.levels.levels))


def _unwatched(steps: Iterable[int]) -> Iterable[int]:
    return steps
