r"""Deep unnormalised log-densities of images and tables (Tables 2 and 4 of the paper).

DSM and FD-DSM are multi-scale: one log-density, that of data blurred by $σ_0 = 0.1$, learnt from
data with more and with less noise, so that its score is right far from the data too and can be
followed there to draw samples. SSM and its kin only see the data.
"""

from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Generator, Tensor, nn

from ..data import (
    Dataset,
    Resize,
    Source,
    SyntheticData,
)
from ..data.split import fixed_shuffle
from ..derivatives import score_of
from ..evaluation import Measurement, exact_sm_loss, ood_auc, relative_fisher_divergence
from ..samplers import Progress, Temperatures, tempered_langevin
from ..training import (
    Adam,
    ConstantSchedule,
    CosineSchedule,
    GradientStep,
    OptimizerConfig,
    Schedule,
    objective_loss,
)
from ..typing import LogDensity, Objective, Step
from .networks import ByShape, Network
from .recipe import Recipe, TrainingPlan


class OODSource(Protocol):
    """Where rows come from that are not of the distribution of a data set."""

    @property
    def name(self) -> str:
        """What they are, in a word."""
        ...

    def rows(self, data: Dataset, generator: Generator) -> Tensor:
        """Return rows in the space of the model of `data`, shape `(N, *E)`."""
        ...


@dataclass(frozen=True)
class Rotated:
    """The test images, turned by a quarter: the same strokes and brightness, another meaning.

    Attributes:
        name: What they are.
    """

    name: str = "turned"

    def rows(self, data: Dataset, generator: Generator) -> Tensor:
        """Return the test images as the model would see them, turned."""
        return data.transform.deterministic(data.test).rot90(1, (-2, -1))


@dataclass(frozen=True)
class ShuffledFeatures:
    """The test rows with each coordinate shuffled by itself: right one by one, wrong together.

    Attributes:
        name: What they are.
    """

    name: str = "scrambled"

    def rows(self, data: Dataset, generator: Generator) -> Tensor:
        """Return the scrambled rows as the model would see them."""
        x = data.transform.deterministic(data.test)
        keys = torch.rand(x.shape, generator=generator, device=generator.device).to(x.device)
        return x.gather(0, keys.argsort(0))


@dataclass(frozen=True)
class HeldOut:
    """Further test rows of the same data, which no detector should tell: an area of a half.

    Attributes:
        name: What they are.
        after: How many test rows come before them, and are the inside.
    """

    name: str
    after: int

    def rows(self, data: Dataset, generator: Generator) -> Tensor:
        """Return the test rows from there on as the model would see them."""
        return data.transform.deterministic(data.test[self.after :])


@dataclass(frozen=True)
class OtherDataset:
    """The test rows of another data set, resized to the images of this one if need be.

    Attributes:
        name: What they are.
        source: Where they come from.
    """

    name: str
    source: Source

    def rows(self, data: Dataset, generator: Generator) -> Tensor:
        """Return them as this data set's model would see them."""
        stored = fixed_shuffle(self.source.load().test)
        size = data.test.shape[-1]
        if stored.ndim == 4 and stored.shape[-1] != size:
            stored = Resize(size).deterministic(stored)
        return data.transform.deterministic(stored)


@dataclass(frozen=True)
class TemperedSampling:
    r"""How samples are drawn: `tempered_langevin` from $c + N(0, s²I)$.

    Attributes:
        schedule: The temperatures.
        step: The length of a step.
        sigma: The noise of the model, taken off at the end.
        spread: The standard deviation $s$ of where chains start.
        centre: Their mean $c$.
    """

    schedule: Temperatures = Temperatures()
    step: float = 0.02
    sigma: float = 0.1
    spread: float = 1.0
    centre: float = 0.5


@dataclass(frozen=True)
class ValidationMetric:
    """A loss by which rows with different objectives are compared while they are trained.

    Attributes:
        name: What it is called among the validation numbers.
        objective: The loss.
    """

    name: str
    objective: Objective


@dataclass(frozen=True)
class EBM(Recipe):
    """A deep log-density and how to train it.

    Attributes:
        name: The name of the row.
        objective: What to minimise.
        data: Where the data comes from.
        network: The network.
        optimizer: How to train it.
        step_size: How the step of finite differences goes down.
        plan: How long to train.
        tempering: How samples are drawn.
        ood_sources: What it should tell from its data.
        ood_rows: On how many test rows of each kind that is.
        reference_rows: How many training rows say what is typical.
        sm_eval_rows: On how many of the test rows exact score matching is evaluated; not if zero.
        validation_rows: On how many validation rows the objective is.
        validation_metric: What else is measured there, the same for rows that are to be compared.
        noise_std: Standard deviation of the noise in the data whose density is learnt, as in
            denoising score matching.
        provenance: Where its settings come from.
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

    def build(self, shape: torch.Size) -> nn.Module:
        """Return the network, untrained."""
        return self.network.build(shape)

    def step(self, model: nn.Module, data: Dataset) -> Step:
        """Return a step down the gradient of the objective."""
        loss = objective_loss(self.objective, model, self.step_size)
        return GradientStep(loss, model, self.optimizer, self.plan.iterations)

    def validate(self, model: nn.Module, data: Dataset, generator: Generator) -> dict[str, float]:
        """Return the objective on validation rows, the noise always the same.

        The validation_metric is measured first, so that its random numbers do not depend on the objective.
        """
        rows = data.validation[: self.validation_rows].to(generator.device)
        with torch.no_grad():
            x = data.transform.sample(rows, generator)
        common = {}
        if self.validation_metric is not None:
            measured = self.validation_metric.objective(model, x, generator=generator)
            common[self.validation_metric.name] = measured.mean().item()
        losses = self.objective(model, x, generator=generator)
        return {"loss": losses.mean().item(), **common}

    def evaluate(
        self, model: nn.Module, data: Dataset, generator: Generator
    ) -> dict[str, Measurement]:
        """Return the exact score-matching loss, and how well outsiders are told."""
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
        """Return samples, drawn from hot to cold."""
        how = self.tempering
        z = torch.randn(n, *shape, generator=generator, device=generator.device)
        return tempered_langevin(
            score_of(model),
            how.centre + how.spread * z,
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
        """Return the model, to which the objective is applied."""
        return model

    def log_density(self, model: nn.Module) -> LogDensity:
        """Return the model, which is its own log-density."""
        return model
