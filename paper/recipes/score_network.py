"""Noise-conditional score networks (Table 5 of the paper).

They are evaluated by the Fréchet distance of their samples, and by a denoising loss that is the
same for all objectives. It is 1 for a score of zero, and smallest for the true score.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import cast

import torch
from torch import Generator, Tensor, nn

from fdsm.evaluation import Measurement, mean_of
from fdsm.models import RefineNet
from fdsm.noise import Geometric
from fdsm.objectives import AnnealedDSM
from fdsm.samplers import Progress, annealed_langevin
from fdsm.serialize import find_fields
from fdsm.training import Adam, GradientStep, OptimizerConfig, objective_loss
from fdsm.typing import Objective, Score, Step

from ..data import Dataset, Source
from .frechet import (
    Frechet,
    RandomFeatures,
)
from .recipe import Recipe, TrainingPlan


@dataclass(frozen=True)
class ScoreNetwork(Recipe):
    """A score network that is given the noise level, and how to train it.

    Attributes:
        name: Name of the recipe.
        objective: The loss.
        data: The data set.
        levels: The noise levels.
        width: Number of channels of the finest stage of the network.
        optimizer: The optimizer.
        plan: Length of the training.
        steps: Number of Langevin steps at each level.
        step_size: Langevin step size at the last level.
        denoise: Whether a final step removes the noise of the last level.
        test_rows: Number of test rows for the denoising loss.
        distance: The Fréchet distance of samples.
        watched: The Fréchet distance at validation, with fewer samples. `None` skips it.
        provenance: Source of the settings.
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
    distance: Frechet = Frechet(RandomFeatures(), 1000, name="frechet_random")
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
        """Return the untrained network."""
        if len(shape) != 3:
            raise ValueError(
                f"a score network needs images, but an event has shape {tuple(shape)}. For tables "
                "use an energy-based model or a flow"
            )
        return RefineNet(shape[0], self.width, self.levels.levels)

    def step(self, model: nn.Module, data: Dataset) -> Step:
        """Return a gradient step on the objective."""
        loss = objective_loss(self.objective, model)
        return GradientStep(loss, model, self.optimizer, self.plan.iterations)

    def validate(self, model: nn.Module, data: Dataset, generator: Generator) -> dict[str, float]:
        """Return the denoising loss of validation rows, and the Fréchet distance of samples."""
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
        """Return samples of annealed Langevin dynamics."""
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
        """Return the network itself."""
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
