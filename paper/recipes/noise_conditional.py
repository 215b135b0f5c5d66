r"""Models of noisy data at many noise levels: log-densities and scores.

One network learns the density of the data with noise of standard deviation $σ$, or its score, for
all $σ$ between a small and a large level. The sampler starts at the largest level and goes through
all of them. At the smallest level the model approximates the data.
"""

from abc import abstractmethod
from dataclasses import dataclass, field, replace

import torch
from torch import Generator, Tensor, nn

from fdsm.derivatives import score_of
from fdsm.evaluation import Measurement
from fdsm.models import AtNoiseLevel
from fdsm.noise import Geometric
from fdsm.samplers import Progress, ancestral_sampling
from fdsm.training import (
    Adam,
    CosineSchedule,
    GradientStep,
    OptimizerConfig,
    objective_loss,
)
from fdsm.typing import LogDensity, Objective, Score, Step

from ..data import Dataset, Source
from .networks import DensityUNet, Network, ScoreUNet
from .recipe import Recipe, TrainingPlan


@dataclass(frozen=True)
class NoiseConditional(Recipe):
    """A model that is given the noise level, and how to train it.

    Attributes:
        name: Name of the recipe.
        objective: The loss of a model given the noise level.
        data: The data set, with zero mean and unit variance in the space of the model.
        network: The network, given the noise level.
        levels: The noise levels, from the largest to the smallest.
        optimizer: The optimizer.
        plan: Length of the training.
        sampling_levels: Number of noise levels of the sampler.
        validation_rows: Number of validation rows. Fewer rows are repeated with other noise.
        provenance: Source of the settings.
    """

    name: str
    objective: Objective
    data: Source
    network: Network
    levels: Geometric = Geometric(3.0, 0.1, 20)
    optimizer: OptimizerConfig = Adam(2e-3, (0.9, 0.99), clip=10.0, schedule=CosineSchedule())
    plan: TrainingPlan = TrainingPlan()
    sampling_levels: int = 200
    validation_rows: int = 500
    provenance: str = field(default="", repr=False)

    @abstractmethod
    def score(self, model: nn.Module) -> Score:
        """Return the score of a model, given the noise level."""

    def build(self, shape: torch.Size) -> nn.Module:
        """Return the untrained network."""
        return self.network.build(shape)

    def step(self, model: nn.Module, data: Dataset) -> Step:
        """Return a gradient step on the objective."""
        loss = objective_loss(self.objective, model)
        return GradientStep(loss, model, self.optimizer, self.plan.iterations)

    def validate(self, model: nn.Module, data: Dataset, generator: Generator) -> dict[str, float]:
        """Return the objective on validation rows, with the same noise every time."""
        rows = data.validation[: self.validation_rows]
        rows = rows.repeat(-(-self.validation_rows // len(rows)), *[1] * (rows.ndim - 1))
        x = data.transform.sample(rows[: self.validation_rows].to(generator.device), generator)
        return {"loss": self.objective(model, x, generator=generator).mean().item()}

    def evaluate(
        self, model: nn.Module, data: Dataset, generator: Generator
    ) -> dict[str, Measurement]:
        """Return no metrics. Densities are compared with references by `paper.runs.evaluate`."""
        return {}

    def sample(
        self, model: nn.Module, shape: torch.Size, n: int, generator: Generator, progress: Progress
    ) -> Tensor:
        """Return samples of ancestral sampling, from the largest noise level to the smallest."""
        z = torch.randn(n, *shape, generator=generator, device=generator.device)
        return ancestral_sampling(
            self.score(model),
            z * (1 + self.levels.first**2) ** 0.5,
            replace(self.levels, count=self.sampling_levels).levels,
            generator=generator,
            progress=progress,
        )

    def objective_model(self, model: nn.Module) -> nn.Module:
        """Return the network, which is given the noise level by the objective."""
        return model


@dataclass(frozen=True)
class NoiseConditionalEBM(NoiseConditional):
    """An energy-based model that is given the noise level.

    Its density is that of the smallest noise level.
    """

    network: Network = DensityUNet()

    @property
    def is_normalized(self) -> bool:
        """The density is known up to a constant factor."""
        return False

    @property
    def noise_std(self) -> float:
        """The smallest noise level."""
        return self.levels.last

    def score(self, model: nn.Module) -> Score:
        """Return the gradient of the log-density."""
        return score_of(model)

    def log_density(self, model: nn.Module) -> LogDensity:
        """Return the log-density at the smallest noise level."""
        return AtNoiseLevel(model, self.levels.last)


@dataclass(frozen=True)
class NoiseConditionalScore(NoiseConditional):
    """A score network that is given the noise level."""

    network: Network = ScoreUNet()

    def score(self, model: nn.Module) -> Score:
        """Return the network itself."""
        return model
