"""NICE on MNIST (Table 3 of the paper): one flow, and every way to train it that is compared.

The flow is normalised, so that what score matching has learnt can be judged by its likelihood. The
numbers are those of logit space, in nats, as published. Three quarters of the pixels are clamped
to one value there, on which exact score matching has no minimum, so that its loss says little
beyond that; the likelihood is what to look at.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Self, cast

import torch
from torch import Generator, Tensor, nn

from ..data import Chain, Dataset, Dequantize, Flatten, Logit, Source
from ..evaluation import Measurement, exact_sm_loss, nll
from ..models import NICE
from ..samplers import Progress
from ..training import Adam, GradientStep, OptimizerConfig
from ..typing import LogDensity, Objective, Step
from .recipe import Recipe, TrainingPlan


def itself(flow: NICE) -> NICE:
    """Return the flow, for objectives that take a log-density."""
    return flow


def layers(flow: NICE) -> list[nn.Module]:
    """Return the layers of the flow, for objectives that go through them one by one."""
    return flow.density_layers


@dataclass(frozen=True)
class Flow(Recipe):
    """A flow and how to train it.

    Attributes:
        name: The name of the row.
        objective: What to minimise.
        data: Where the data comes from.
        through: What of the flow the objective takes.
        hidden: The width of the hidden layers of a coupling.
        depth: How many hidden layers it has.
        couplings: How many couplings there are.
        optimizer: How to train it.
        plan: How long to train.
        sm_eval_rows: On how many test rows exact score matching is evaluated.
        validation_rows: On how many validation rows the likelihood is.
        provenance: Where its settings come from.
    """

    name: str
    objective: Objective
    data: Source
    through: Callable[[NICE], Any] = itself
    hidden: int = 1000
    depth: int = 4
    couplings: int = 4
    optimizer: OptimizerConfig = Adam(1e-3)
    plan: TrainingPlan = TrainingPlan()
    sm_eval_rows: int = 100
    validation_rows: int = 1000
    provenance: str = field(default="", repr=False)

    def with_data(self, source: Source) -> Self:
        """Return the recipe for other data; images go to logit space, rows of numbers do not."""
        if isinstance(source.transform, Dequantize):
            chain = Chain((source.transform, Logit(1e-3), Flatten()))
            source = replace(cast(Any, source), transform=chain)
        return replace(self, data=source)

    def build(self, shape: torch.Size) -> nn.Module:
        """Return the flow, untrained."""
        return NICE(shape, self.hidden, self.depth, self.couplings)

    def step(self, model: nn.Module, data: Dataset) -> Step:
        """Return a step down the gradient of the objective."""
        subject = self.through(cast(NICE, model))

        def loss(batch: Tensor, generator: Generator, progress: float) -> Tensor:
            return self.objective(subject, batch, generator=generator)

        return GradientStep(loss, model, self.optimizer, self.plan.iterations)

    def validate(self, model: nn.Module, data: Dataset, generator: Generator) -> dict[str, float]:
        """Return the negative log-likelihood of validation rows."""
        rows = data.validation[: self.validation_rows].to(generator.device)
        return {"nll": nll(model, data.transform.sample(rows, generator)).value}

    def evaluate(
        self, model: nn.Module, data: Dataset, generator: Generator
    ) -> dict[str, Measurement]:
        """Return the likelihood and the exact score-matching loss of test rows."""
        x = data.transform.sample(data.test.to(generator.device), generator)
        return {
            "nll": nll(model, x),
            "exact_sm_loss": exact_sm_loss(model, x[: self.sm_eval_rows]),
        }

    def sample(
        self, model: nn.Module, shape: torch.Size, n: int, generator: Generator, progress: Progress
    ) -> Tensor:
        """Return exact samples."""
        return cast(NICE, model).sample(n, generator)

    def objective_model(self, model: nn.Module) -> nn.Module:
        """Return the flow, to which objectives with a derivative are applied."""
        return model

    def log_density(self, model: nn.Module) -> LogDensity:
        """Return the flow, which is its own log-density, normalised."""
        return model
