"""Normalizing flows (NICE; Table 3 of the paper).

A flow is a normalized density, so it has a likelihood, whichever objective it was trained with.
Likelihoods are in nats in the space of the model, as published.
"""

from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Generator, Tensor, nn

from fdsm.evaluation import Measurement, exact_sm_loss, nll
from fdsm.models import NICE
from fdsm.objectives import ApproximateBackprop, CurvaturePropagation
from fdsm.samplers import Progress
from fdsm.training import Adam, GradientStep, OptimizerConfig
from fdsm.typing import LogDensity, Objective, Step

from ..data import Dataset, Source
from .recipe import Recipe, TrainingPlan


@dataclass(frozen=True)
class Flow(Recipe):
    """A flow and how to train it.

    Attributes:
        name: Name of the recipe.
        objective: The loss.
        data: The data set.
        hidden: Width of the hidden layers of a coupling.
        depth: Number of hidden layers of a coupling.
        couplings: Number of couplings.
        optimizer: The optimizer.
        plan: Length of the training.
        sm_eval_rows: Number of test rows for the exact score-matching loss.
        validation_rows: Number of validation rows for the likelihood.
        noise_std: Standard deviation of the noise in the data whose density is learned.
        provenance: Source of the settings.
    """

    name: str
    objective: Objective
    data: Source
    hidden: int = 1000
    depth: int = 4
    couplings: int = 4
    optimizer: OptimizerConfig = Adam(1e-3)
    plan: TrainingPlan = TrainingPlan()
    sm_eval_rows: int = 100
    validation_rows: int = 1000
    noise_std: float = 0.0
    provenance: str = field(default="", repr=False)

    def build(self, shape: torch.Size) -> nn.Module:
        """Return the untrained flow."""
        return NICE(shape, self.hidden, self.depth, self.couplings)

    def step(self, model: nn.Module, data: Dataset) -> Step:
        """Return a gradient step on the objective."""
        layerwise = isinstance(self.objective, (ApproximateBackprop, CurvaturePropagation))
        differentiated: Any = cast(NICE, model).density_layers if layerwise else model

        def loss(batch: Tensor, generator: Generator, progress: float) -> Tensor:
            return self.objective(differentiated, batch, generator=generator)

        return GradientStep(loss, model, self.optimizer, self.plan.iterations)

    def validate(self, model: nn.Module, data: Dataset, generator: Generator) -> dict[str, float]:
        """Return the negative log-likelihood of validation rows."""
        rows = data.validation[: self.validation_rows].to(generator.device)
        x = data.transform.sample(rows, generator)
        return {"nll": nll(model, x, log_partition=0.0).value}

    def evaluate(
        self, model: nn.Module, data: Dataset, generator: Generator
    ) -> dict[str, Measurement]:
        """Return the likelihood and the exact score-matching loss of test rows."""
        x = data.transform.sample(data.test.to(generator.device), generator)
        return {
            "nll": nll(model, x, log_partition=0.0),
            "exact_sm_loss": exact_sm_loss(model, x[: self.sm_eval_rows]),
        }

    def sample(
        self, model: nn.Module, shape: torch.Size, n: int, generator: Generator, progress: Progress
    ) -> Tensor:
        """Return exact samples."""
        return cast(NICE, model).sample(n, generator)

    @property
    def is_normalized(self) -> bool:
        """The density integrates to one."""
        return True

    def objective_model(self, model: nn.Module) -> nn.Module:
        """Return the flow itself."""
        return model

    def log_density(self, model: nn.Module) -> LogDensity:
        """Return the flow itself, which is a normalized log-density."""
        return model
