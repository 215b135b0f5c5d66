r"""Deep kernel exponential families on three UCI tables (Table 1 of the paper).

The coefficients of the kernels are solved for on one half of every batch, and the loss is that of
the other half, so that everything else is trained for what the solution is on new data. In the
published code the solution is by exact derivatives even where the loss is by finite differences;
the rows named FD-SSM do so too, and those named FD-SSM-all take differences for both.
"""

import math
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add
from typing import Self, cast

import torch
from torch import Generator, Tensor, nn

from ..data import Array, Dataset, Source, Table
from ..evaluation import Measurement, mean_of, nll, sm_losses
from ..evaluation.measurement import median_of
from ..evaluation.score_matching import SCALE
from ..models import (
    DKEF,
    DKEFDensity,
    NormalEquations,
    SlicedEquations,
)
from ..models.normal_equations import Equations
from ..projections import Rademacher
from ..samplers import (
    GaussianMixtureProposal,
    LogPartition,
    Progress,
    StepAdaptation,
    hmc,
    importance_log_partition,
)
from ..training import Adam, GradientStep, OptimizerConfig
from ..typing import LogDensity, Objective, Projection, Step
from .local_gaussian_proposal import refined
from .recipe import Recipe, TrainingPlan

BASE_SCALE = 2.0
"""The standard deviation of the base measure."""
_ROWS = 100


@dataclass(frozen=True)
class KernelFamily(Recipe):
    """A deep kernel exponential family and how to train it.

    Attributes:
        name: The name of the row.
        objective: What to minimise.
        data: Where the data comes from.
        equations: How to solve for the coefficients.
        projection: Directions for that.
        inducing: How many inducing points.
        optimizer: How to train everything else.
        plan: How long to train.
        penalty_steps: How many steps the penalty is tuned for on the validation rows at the end.
        partition_samples: How many samples the normaliser is estimated with.
        chain_steps: How many steps the chains of samples take, after as many to adapt.
        provenance: Where its settings come from.
    """

    name: str
    objective: Objective
    data: Source
    equations: Equations = SlicedEquations()
    projection: Projection = Rademacher(0.1)
    inducing: int = 200
    optimizer: OptimizerConfig = Adam(1e-2, clip=1.0)
    plan: TrainingPlan = TrainingPlan()
    penalty_steps: int = 1000
    partition_samples: int = 1_000_000
    chain_steps: int = 200
    provenance: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        if self.plan.batch < 2:
            raise ValueError("a batch is cut in halves, so plan.batch must be at least 2")

    def with_data(self, source: Source) -> Self:
        """Return the recipe for another table, with a plan for a first trial on your own.

        Published settings validate in every iteration, which takes most of the time.

        Args:
            source: The data, with a transform of its own.

        Returns:
            The changed recipe; for a small table it has fewer inducing points and rows per batch.
        """
        if not isinstance(source, (Array, Table)):
            return replace(self, data=source)
        half = math.floor(len(source.rows()) * (1 - source.validation - source.test)) // 2
        batch, inducing = (max(2, min(half, n)) for n in (self.plan.batch, self.inducing))
        return replace(
            self,
            data=source,
            inducing=inducing,
            plan=replace(self.plan, iterations=1000, batch=batch, validate_every=20),
            penalty_steps=min(self.penalty_steps, 200),
            partition_samples=min(self.partition_samples, 100_000),
        )

    def build(self, shape: torch.Size) -> nn.Module:
        """Return the family, with inducing points at zero, in float64 for heavy tails."""
        if len(shape) != 1:
            raise ValueError(
                f"kernel families are for rows of numbers, but an event has shape {tuple(shape)}: "
                "use deep_ebm for images"
            )
        return DKEF(torch.zeros(self.inducing, *shape), base_scale=BASE_SCALE).double()

    def before_training(self, model: nn.Module, data: Dataset, generator: Generator) -> None:
        """Put the inducing points at random training rows."""
        chosen = torch.randperm(len(data.train), generator=generator, device=generator.device)
        rows = data.train[chosen[: self.inducing].cpu()]
        if len(rows) < self.inducing:
            raise ValueError(
                f"{self.inducing} inducing points need as many training rows, but there are "
                f"{len(rows)}: choose fewer (`--set inducing={len(rows) // 2}`)"
            )
        with torch.no_grad():
            cast(DKEF, model).inducing.copy_(data.transform.deterministic(rows))

    def step(self, model: nn.Module, data: Dataset) -> Step:
        """Return a step down the gradient of the loss after solving."""
        family = cast(DKEF, model)

        def loss(batch: Tensor, generator: Generator, progress: float) -> Tensor:
            fitted, held = batch.double().chunk(2)
            v = self.projection.sample(fitted, generator)
            density = family.solve(fitted, v, self.equations)
            return fitted.shape[1] * self.objective(density, held, generator=generator)

        return GradientStep(loss, model, self.optimizer, self.plan.iterations)

    def validate(self, model: nn.Module, data: Dataset, generator: Generator) -> dict[str, float]:
        """Return the objective on all validation rows, after solving on 1,000 for training."""
        family = cast(DKEF, model)
        order = torch.randperm(len(data.train), generator=generator, device=generator.device)
        rows = (
            data.transform
            .deterministic(data.train[order[:1000].cpu()])
            .to(generator.device)
            .double()
        )
        x = data.transform.deterministic(data.validation).to(generator.device).double()
        with torch.no_grad():
            density = family.solve_from(self.normal_equations(family, rows, generator))
            losses = self.objective(density, x, generator=generator)
        return {"sm_loss": x.shape[1] * losses.mean().item()}

    def after_training(self, model: nn.Module, data: Dataset, generator: Generator) -> None:
        """Solve for all training rows, with the penalty that is best on the validation rows."""
        family = cast(DKEF, model)
        train, held = (
            data.transform.deterministic(rows).to(generator.device).double()
            for rows in (data.train, data.validation)
        )
        with torch.no_grad():
            total = self.normal_equations(family, train, generator)
        self._tune_penalty(family, total, held, generator)
        family.finalize(total)

    def evaluate(
        self, model: nn.Module, data: Dataset, generator: Generator
    ) -> dict[str, Measurement]:
        """Return the exact score-matching loss and the likelihood of the test rows.

        The loss has heavy tails, so there is its median, too. The normaliser is estimated twice:
        from the base measure, as published, and by a tenth of the samples from a mixture of it
        with Gaussians around training rows and around what the density favours. How far to trust
        either is its effective sample size.
        """
        f = self.log_density(model)
        test, train = (
            data.transform.deterministic(rows).to(generator.device).double()
            for rows in (data.test, data.train)
        )
        losses = sm_losses(f, test)
        metrics = {
            "exact_sm_loss": mean_of(losses, scale=SCALE, dimension=test.shape[1]),
            "exact_sm_loss_median": median_of(losses, scale=SCALE, dimension=test.shape[1]),
        }
        base = GaussianMixtureProposal(torch.zeros_like(test[:1]), BASE_SCALE)
        n = max(100, self.partition_samples // 10)
        near = refined(f, train, base, pilot=n // 5, generator=generator)
        for ending, proposal, count in (
            ("", base, self.partition_samples),
            ("_near_data", near, n),
        ):
            found = importance_log_partition(f, proposal, count, batch=1000, generator=generator)
            metrics[f"nll{ending}"] = _likelihood(f, test, found)
            metrics[f"effective_sample_size{ending}"] = Measurement(
                found.effective_sample_size, settings={"partition_samples": count}
            )
        return metrics

    def sample(
        self, model: nn.Module, shape: torch.Size, n: int, generator: Generator, progress: Progress
    ) -> Tensor:
        """Return the last states of Hamiltonian chains."""
        start = torch.randn(
            n, *shape, dtype=torch.float64, device=generator.device, generator=generator
        )
        chains = hmc(
            self.log_density(model),
            start,
            self.chain_steps,
            burn_in=self.chain_steps,
            adapt=StepAdaptation(),
            generator=generator,
            progress=progress,
        )
        return chains.samples.float()

    def log_density(self, model: nn.Module) -> LogDensity:
        """Return the solved family as a log-density, not normalised."""
        return lambda x: cast(Tensor, model(x.double()))

    def normal_equations(self, model: DKEF, x: Tensor, generator: Generator) -> NormalEquations:
        """Return the equations of many rows, so few at a time that they fit into caches."""
        kernels, v = model.induced_kernels(), self.projection.sample(x, generator)
        parts = zip(torch.split(x, _ROWS), torch.split(v, _ROWS), strict=True)
        return reduce(add, (self.equations(kernels, *part) for part in parts))

    def _tune_penalty(
        self, model: DKEF, equations: NormalEquations, held: Tensor, generator: Generator
    ) -> None:
        others = [p for p in model.parameters() if p is not model.log_penalty]
        for parameter in others:
            parameter.requires_grad_(False)
        optimizer, kernels = torch.optim.Adam([model.log_penalty], lr=1e-3), model.induced_kernels()
        for step in range(self.penalty_steps):
            rows = torch.split(held, _ROWS)[step % max(1, len(held) // _ROWS)]
            optimizer.zero_grad()
            density = DKEFDensity(kernels, equations.solution(model.penalty))
            losses = self.objective(density, rows, generator=generator)
            losses.mean().backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        for parameter in others:
            parameter.requires_grad_()
        model.zero_grad()


def _likelihood(f: LogDensity, x: Tensor, found: LogPartition) -> Measurement:
    likelihood = nll(f, x, log_partition=Measurement(found.value, found.error))
    return likelihood.with_settings(
        partition_samples=found.samples, effective_sample_size=found.effective_sample_size
    )
