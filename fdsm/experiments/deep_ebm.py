r"""Deep unnormalised log-densities of images and tables (Tables 2 and 4 of the paper).

DSM and FD-DSM are multi-scale: one log-density, that of data blurred by $σ_0 = 0.1$, learnt from
data with more and with less noise, so that its score is right far from the data too and can be
followed there to draw samples. SSM and its kin only see the data.
"""

from dataclasses import dataclass, field, replace
from typing import Self

import torch
from torch import Generator, Tensor, nn

from ..data import (
    MNIST,
    Array,
    Chain,
    Dataset,
    FashionMNIST,
    Noise,
    Pad,
    Source,
    Table,
    ToFloat,
    Toy,
)
from ..derivatives import Autodiff, FiniteDifference, Taylor, score_of
from ..evaluation import Measurement, exact_sm_loss, ood_auc, relative_fisher_divergence
from ..noise import Arithmetic
from ..objectives import DSM, SSM, SSMVR, MultiscaleDSM, SlicedDSM, ViaScore
from ..projections import Gaussian, Sphere
from ..samplers import Progress, Temperatures, tempered_langevin
from ..training import Adam, Constant, Cosine, GradientStep, Optimiser, Schedule, objective_loss
from ..typing import LogDensity, Objective, Step
from .networks import ByShape, Network, ResNet
from .outside import Other, Outside, Scrambled
from .recipe import Plan, Recipe


@dataclass(frozen=True)
class Tempering:
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
class DeepEBM(Recipe):
    """A deep log-density and how to train it.

    Attributes:
        name: The name of the row.
        objective: What to minimise.
        data: Where the data comes from.
        network: The network.
        optimiser: How to train it.
        step_size: How the step of finite differences goes down.
        plan: How long to train.
        tempering: How samples are drawn.
        outside: What it should tell from its data.
        outside_rows: On how many rows of each kind that is.
        exact_rows: On how many test rows exact score matching is evaluated; not if zero.
        validation_rows: On how many validation rows the objective is.
        source: Where its settings come from.
    """

    name: str
    objective: Objective
    data: Source
    network: Network = ByShape()
    optimiser: Optimiser = Adam(1e-3, (0.9, 0.95), schedule=Cosine())
    step_size: Schedule = Constant()
    plan: Plan = Plan()
    tempering: Tempering = Tempering()
    outside: tuple[Outside, ...] = (Scrambled(),)
    outside_rows: int = 10_000
    exact_rows: int = 500
    validation_rows: int = 500
    source: str = field(default="", repr=False)

    def on(self, source: Source) -> Self:
        """Return the recipe for other data; for rows of numbers, `TABLE`'s trains for longer.

        Iterations that make a convolution affordable leave a perceptron far from trained.

        Args:
            source: The data, with a transform of its own.

        Returns:
            The changed recipe.
        """
        rows = isinstance(source, (Array, Table)) and self.plan == SMALL
        plan = Plan(4000, 128, 10, 500, 500, samples=1000) if rows else self.plan
        return replace(self, data=source, plan=plan, outside=(Scrambled(),))

    def build(self, shape: torch.Size) -> nn.Module:
        """Return the network, untrained."""
        return self.network.build(shape)

    def step(self, model: nn.Module, data: Dataset) -> Step:
        """Return a step down the gradient of the objective."""
        loss = objective_loss(self.objective, model, self.step_size)
        return GradientStep(loss, model, self.optimiser, self.plan.iterations)

    def validate(self, model: nn.Module, data: Dataset, generator: Generator) -> dict[str, float]:
        """Return the objective on validation rows, the noise always the same."""
        rows = data.validation[: self.validation_rows].to(generator.device)
        with torch.no_grad():
            x = data.transform.draw(rows, generator)
        losses = self.objective(model, x, generator=generator)
        return {"loss": losses.mean().item()}

    def evaluate(
        self, model: nn.Module, data: Dataset, generator: Generator
    ) -> dict[str, Measurement]:
        """Return the exact score-matching loss, and how well outsiders are told."""
        train, test = (
            data.transform.fixed(rows[: self.outside_rows].to(generator.device))
            for rows in (data.train, data.test)
        )
        metrics = {}
        if self.exact_rows:
            metrics["exact_sm_loss"] = exact_sm_loss(model, test[: self.exact_rows])
        if isinstance(self.data, Toy):
            truth = self.data.density.score
            metrics["fisher"] = relative_fisher_divergence(score_of(model), truth, test)
        for outside in self.outside:
            others = outside.rows(data, generator)[: self.outside_rows].to(generator.device)
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

    def checked(self, model: nn.Module) -> nn.Module:
        """Return the model, to which the objective is applied."""
        return model

    def log_density(self, model: nn.Module) -> LogDensity:
        """Return the model, which is its own log-density."""
        return model


def _objectives(step: float) -> dict[str, Objective]:
    levels = Arithmetic(0.05, 1.2)
    one_by_one, difference = FiniteDifference(parallel=False), FiniteDifference()
    return {
        "FD-DSM": MultiscaleDSM(SlicedDSM(0.1, difference, Sphere(step)), levels),
        "DSM": MultiscaleDSM(DSM(0.1), levels),
        "FD-DSM*": MultiscaleDSM(SlicedDSM(0.1, one_by_one, Sphere(step)), levels),
        "FD-SSM": SSM(difference, Sphere(step)),
        "SSM": SSM(Autodiff(), Gaussian()),
        "SSMVR": ViaScore(SSMVR(Autodiff(), Gaussian())),
        "FD-SSM*": SSM(one_by_one, Sphere(step)),
        "Taylor-SSM": SSM(Taylor(), Sphere(step), projections=4),
    }


def _images(name: str, validation: float = 0.0) -> Source:
    """Return MNIST padded to 32 × 32, with noise for the objectives that see nothing else."""
    steps = (ToFloat(), Pad(32), *([Noise(0.005)] if "SSM" in name else []))
    return MNIST(validation, transform=Chain(steps))


def _optimiser(name: str) -> Optimiser:
    lr = 1e-5 if "SSM" in name else 5e-5
    return Adam(lr, (0.9, 0.95), clip=0.1, schedule=Cosine())


PAPER = tuple(
    DeepEBM(
        name,
        objective,
        _images(name),
        ResNet(128),
        _optimiser(name),
        plan=Plan(300_000, 64, 50, 0, 5000, samples=0 if "SSM" in name else 100),
        outside=(Other("fashion", FashionMNIST()),),
        exact_rows=1500,
    )
    for name, objective in _objectives(0.05).items()
)
"""Table 2 as published: a row for each objective, a star where evaluations are one by one.

The last row is ours: exact derivatives along four directions, for the price of two.

Losses are per dimension, so that all but FD-SSM's are 1/1024 of the authors' where gradients are
clipped at 0.1; typicality takes 10,000 training images; no step is skipped. Rows that see the data
only, SSM and its kin, draw no samples: far from the data their scores mean nothing.
"""

SMALL = Plan(500, 32, 10, 100, 100, samples=16)
"""How long `TABLE` trains: minutes on two cores."""

TABLE = tuple(
    replace(
        recipe,
        data=_images(recipe.name, 0.1),
        network=ByShape(),
        optimiser=Adam(1e-3, (0.9, 0.95), clip=1.0, schedule=Cosine()),
        plan=replace(SMALL, samples=0 if "SSM" in recipe.name else SMALL.samples),
        tempering=Tempering(Temperatures(50, 600, 150, 30.0), step=0.05),
        outside_rows=1000,
        exact_rows=10,
    )
    for recipe in PAPER
)
"""The same with a sixteenth of the width and far fewer iterations."""
