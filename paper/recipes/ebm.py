r"""Energy-based models as in the paper (Tables 2 and 4, Figure 3).

A model is one unnormalized log-density. Multi-scale DSM and FD-DSM train it on data with several
noise levels, so that its score is useful far from the data and can be followed to draw samples.
SSM and its variants train it on the data alone.
"""

from dataclasses import dataclass, field, replace
from typing import Protocol, Self

import torch
from torch import Generator, Tensor, nn

from fdsm.derivatives import score_of
from fdsm.evaluation import Measurement, exact_sm_loss, ood_auc, relative_fisher_divergence
from fdsm.samplers import Progress, Temperatures, tempered_langevin
from fdsm.training import (
    Adam,
    ConstantSchedule,
    CosineSchedule,
    GradientStep,
    OptimizerConfig,
    Schedule,
    objective_loss,
)
from fdsm.typing import LogDensity, Objective, Step

from ..data import (
    Dataset,
    Resize,
    Source,
    SyntheticData,
)
from ..data.split import fixed_shuffle
from .networks import ByShape, Network
from .recipe import Recipe, TrainingPlan


class OODSource(Protocol):
    """A source of out-of-distribution rows for a data set."""

    @property
    def name(self) -> str:
        """Name of the rows in metrics."""
        ...

    def rows(self, data: Dataset, generator: Generator) -> Tensor:
        """Return rows in the space of the model of `data`, shape `(N, *E)`."""
        ...


@dataclass(frozen=True)
class ShuffledFeatures:
    """The test rows with each coordinate shuffled independently, which keeps the marginals.

    Attributes:
        name: Name of the rows in metrics.
    """

    name: str = "shuffled"

    def rows(self, data: Dataset, generator: Generator) -> Tensor:
        """Return the shuffled rows in the space of the model."""
        x = data.transform.deterministic(data.test)
        keys = torch.rand(x.shape, generator=generator, device=generator.device).to(x.device)
        return x.gather(0, keys.argsort(0))


@dataclass(frozen=True)
class HeldOut:
    """Further test rows of the same data, for which the AUC should be 0.5.

    Attributes:
        name: Name of the rows in metrics.
        after: Number of test rows before them, which are the in-distribution rows.
    """

    name: str
    after: int

    def rows(self, data: Dataset, generator: Generator) -> Tensor:
        """Return the remaining test rows in the space of the model."""
        return data.transform.deterministic(data.test[self.after :])


@dataclass(frozen=True)
class OtherDataset:
    """The test rows of another data set. Images are resized to the size of the training images.

    Attributes:
        name: Name of the rows in metrics.
        source: The other data set.
    """

    name: str
    source: Source

    def rows(self, data: Dataset, generator: Generator) -> Tensor:
        """Return the rows of the other data set in the space of the model."""
        stored = fixed_shuffle(self.source.load().test)
        size = data.test.shape[-1]
        if stored.ndim == 4 and stored.shape[-1] != size:
            stored = Resize(size).deterministic(stored)
        return data.transform.deterministic(stored)


@dataclass(frozen=True)
class TemperedSampling:
    r"""Settings of `tempered_langevin`, which starts from $c + N(0, s²I)$.

    Attributes:
        schedule: The temperatures.
        step: Length of a step.
        sigma: Noise level of the model, removed by the last step.
        spread: Standard deviation $s$ of the initial states.
        center: Mean $c$ of the initial states.
    """

    schedule: Temperatures = Temperatures()
    step: float = 0.02
    sigma: float = 0.1
    spread: float = 1.0
    center: float = 0.5


@dataclass(frozen=True)
class ValidationMetric:
    """A validation loss that is the same for recipes with different objectives.

    Attributes:
        name: Name of the metric.
        objective: The loss.
    """

    name: str
    objective: Objective


@dataclass(frozen=True)
class EBM(Recipe):
    """An energy-based model and how to train it.

    Attributes:
        name: Name of the recipe.
        objective: The loss.
        data: The data set.
        network: The network.
        optimizer: The optimizer.
        step_size: Schedule of the step size of finite differences.
        plan: Length of the training.
        tempering: Settings of the sampler.
        ood_sources: Out-of-distribution data for the evaluation.
        ood_rows: Number of test rows of each kind.
        reference_rows: Number of training rows for the mean log-density in the typicality.
        sm_eval_rows: Number of test rows for the exact score-matching loss. Zero skips it.
        validation_rows: Number of validation rows.
        validation_metric: A second validation loss, the same for all recipes that are compared.
        noise_std: Standard deviation of the noise in the data whose density is learned, as in
            denoising score matching.
        provenance: Source of the settings.
    """

    name: str
    objective: Objective
    data: Source
    network: Network = ByShape()
    optimizer: OptimizerConfig = Adam(1e-3, (0.9, 0.95), schedule=CosineSchedule())
    step_size: Schedule = ConstantSchedule()
    plan: TrainingPlan = TrainingPlan()
    tempering: TemperedSampling = TemperedSampling()
    ood_sources: tuple[OODSource, ...] = (ShuffledFeatures(),)
    ood_rows: int = 10_000
    reference_rows: int = 10_000
    sm_eval_rows: int = 500
    validation_rows: int = 500
    validation_metric: ValidationMetric | None = None
    noise_std: float = 0.0
    provenance: str = field(default="", repr=False)

    def with_data(self, source: Source) -> Self:
        """Return the recipe for another data set, without other data sets in its evaluation."""
        return replace(super().with_data(source), ood_sources=(ShuffledFeatures(),))

    def build(self, shape: torch.Size) -> nn.Module:
        """Return the untrained network."""
        return self.network.build(shape)

    def step(self, model: nn.Module, data: Dataset) -> Step:
        """Return a gradient step on the objective."""
        loss = objective_loss(self.objective, model, self.step_size)
        return GradientStep(loss, model, self.optimizer, self.plan.iterations)

    def validate(self, model: nn.Module, data: Dataset, generator: Generator) -> dict[str, float]:
        """Return the objective on validation rows, with the same noise every time.

        The common metric comes first, so that its random numbers do not depend on the objective.
        """
        rows = data.validation[: self.validation_rows].to(generator.device)
        with torch.no_grad():
            x = data.transform.sample(rows, generator)

        def mean(objective: Objective) -> float:
            return objective(model, x, generator=generator).mean().item()

        common = {}
        if self.validation_metric is not None:
            common[self.validation_metric.name] = mean(self.validation_metric.objective)
        return {"loss": mean(self.objective), **common}

    def evaluate(
        self, model: nn.Module, data: Dataset, generator: Generator
    ) -> dict[str, Measurement]:
        """Return the exact score-matching loss and the AUCs of out-of-distribution detection."""
        train, test = (
            data.transform.deterministic(rows[:count].to(generator.device))
            for rows, count in (
                (data.train, self.reference_rows),
                (data.test, self.ood_rows),
            )
        )
        metrics = {}
        if self.sm_eval_rows:
            metrics["exact_sm_loss"] = exact_sm_loss(model, test[: self.sm_eval_rows])
        if isinstance(self.data, SyntheticData):
            truth = self.data.density.score
            metrics["fisher"] = relative_fisher_divergence(score_of(model), truth, test)
        for outside in self.ood_sources:
            others = outside.rows(data, generator)[: self.ood_rows].to(generator.device)
            auc = ood_auc(model, train, test, others, generator=generator)
            metrics[f"ood_auc_{outside.name}"] = auc
        return metrics

    def sample(
        self, model: nn.Module, shape: torch.Size, n: int, generator: Generator, progress: Progress
    ) -> Tensor:
        """Return samples of tempered Langevin dynamics."""
        how = self.tempering
        z = torch.randn(n, *shape, generator=generator, device=generator.device)
        return tempered_langevin(
            score_of(model),
            how.center + how.spread * z,
            how.schedule,
            step=how.step,
            sigma=how.sigma,
            generator=generator,
            progress=progress,
        )

    @property
    def is_normalized(self) -> bool:
        """The density is known up to a constant factor."""
        return False

    def objective_model(self, model: nn.Module) -> nn.Module:
        """Return the model itself."""
        return model

    def log_density(self, model: nn.Module) -> LogDensity:
        """Return the model itself."""
        return model
