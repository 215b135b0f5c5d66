r"""Deep kernel exponential families for tables (Table 1 of the paper).

The coefficients of the kernels are solved for on one half of every batch. The loss on the other
half trains all other parameters, so that the solution generalizes to new data. As in the published
code, the equations use exact derivatives even if the loss uses finite differences.
"""

import math
import warnings
from dataclasses import dataclass, field
from functools import cached_property, reduce
from operator import add
from typing import Self, cast

import torch
from torch import Generator, Tensor, nn

from fdsm.evaluation import Measurement, log_densities, mean_of, nll, sm_losses
from fdsm.evaluation.measurement import median_of
from fdsm.models import (
    DKEF,
    DKEFDensity,
    NormalEquations,
    SlicedEquations,
)
from fdsm.models.normal_equations import Equations
from fdsm.projections import Rademacher
from fdsm.samplers import (
    GaussianMixtureProposal,
    LogPartition,
    LogPartitionWarning,
    MixtureProposal,
    Progress,
    StepAdaptation,
    bidirectional_log_partition,
    hmc,
    importance_log_partition,
    importance_log_weights,
    log_mean_exp,
)
from fdsm.tensors import randn_like
from fdsm.training import Adam, GradientStep, OptimizerConfig
from fdsm.typing import LogDensity, NormalizedDensity, Objective, Projection, Step

from ..data import Dataset, Source
from .recipe import Recipe, TrainingPlan

SCALE = "trace + half squared norm, summed over dimensions"
"""Scale of exact score-matching losses, as in `fdsm.evaluation.exact_sm_loss`."""
BASE_SCALE = 2.0
"""Standard deviation of the base measure."""
_ROWS = 100
CHAINS, MOVES = 200, 50
"""Number of HMC chains that start at training rows, and of their moves after the burn-in."""


@dataclass(frozen=True)
class KernelFamily(Recipe):
    """A deep kernel exponential family and how to train it.

    Attributes:
        name: Name of the recipe.
        objective: The loss.
        data: The data set.
        equations: The linear equations of the coefficients of the kernels.
        projection: The random directions of these equations.
        inducing: Number of inducing points.
        optimizer: The optimizer of all other parameters.
        plan: Length of the training.
        penalty_steps: Number of steps that tune the penalty on the validation rows at the end.
        partition_samples: Number of samples for the estimate of the normalizer.
        chain_steps: Number of HMC steps for samples, after the same number to adapt the step.
        provenance: Source of the settings.
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
            raise ValueError("plan.batch must be at least 2: a batch is split into two halves")

    def build(self, shape: torch.Size) -> nn.Module:
        """Return the untrained family in float64, with inducing points at zero."""
        if len(shape) != 1:
            raise ValueError(
                f"a kernel family needs a table, but an event has shape {tuple(shape)}. For "
                "images use an energy-based model or a flow"
            )
        return DKEF(torch.zeros(self.inducing, *shape), base_scale=BASE_SCALE).double()

    def before_training(self, model: nn.Module, data: Dataset, generator: Generator) -> None:
        """Place the inducing points at random training rows."""
        chosen = torch.randperm(len(data.train), generator=generator, device=generator.device)
        rows = data.train[chosen[: self.inducing].cpu()]
        if len(rows) < self.inducing:
            raise ValueError(
                f"{self.inducing} inducing points need at least that many training rows, but "
                f"there are {len(rows)}. Set inducing={len(rows) // 2}"
            )
        with torch.no_grad():
            cast(DKEF, model).inducing.copy_(data.transform.deterministic(rows))

    def step(self, model: nn.Module, data: Dataset) -> Step:
        """Return a gradient step on the loss after solving for the coefficients."""
        family = cast(DKEF, model)

        def loss(batch: Tensor, generator: Generator, progress: float) -> Tensor:
            fitted, held = batch.double().chunk(2)
            v = self.projection.sample(fitted, generator)
            density = family.solve(fitted, v, self.equations)
            return fitted.shape[1] * self.objective(density, held, generator=generator)

        return GradientStep(loss, model, self.optimizer, self.plan.iterations)

    def validate(self, model: nn.Module, data: Dataset, generator: Generator) -> dict[str, float]:
        """Return the objective on the validation rows, after solving on 1,000 training rows."""
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
        """Solve on all training rows, with the penalty that is best on the validation rows."""
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

        The loss has heavy tails, so its median is returned too. The normalizer is estimated twice
        by importance sampling: with samples of the base measure, as published, and with a tenth of
        that number of samples of a proposal adapted to the density. A small effective sample size
        shows that an estimate is not reliable.

        A third estimate, `nll_both_ends`, also uses samples of the density: the ends of HMC chains
        that start at training rows. It notices a region that the adapted proposal misses and that
        the chains reach. Its error includes half the difference to the estimate from the proposal
        alone.
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
        near = adapt_proposal(f, train, base, pilot=n // 5, generator=generator)
        wide = importance_log_partition(
            f, base, self.partition_samples, batch=1000, generator=generator
        )
        forward = importance_log_weights(f, near, near.sample(n, generator))
        mean = log_mean_exp(forward)
        estimates = {
            "": wide,
            "_near_data": LogPartition(
                mean.value.item(), mean.error.item(), mean.effective_sample_size.item(), n
            ),
        }
        for ending, log_partition in estimates.items():
            metrics[f"nll{ending}"] = _likelihood(f, test, log_partition)
            metrics[f"effective_sample_size{ending}"] = Measurement(
                log_partition.effective_sample_size,
                settings={"partition_samples": log_partition.samples},
            )
        metrics["nll_both_ends"] = likelihood_from_both_ends(
            f, test, train, near, forward, generator
        )
        return metrics

    def sample(
        self, model: nn.Module, shape: torch.Size, n: int, generator: Generator, progress: Progress
    ) -> Tensor:
        """Return the last states of HMC chains."""
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

    @property
    def is_normalized(self) -> bool:
        """The normalizer is estimated separately."""
        return False

    @property
    def noise_std(self) -> float:
        """The density is that of the data themselves."""
        return 0.0

    def log_density(self, model: nn.Module) -> LogDensity:
        """Return the solved family as an unnormalized log-density."""
        return lambda x: cast(Tensor, model(x.double()))

    def normal_equations(self, model: DKEF, x: Tensor, generator: Generator) -> NormalEquations:
        """Return the equations of many rows, summed over small parts that fit into caches."""
        kernels, v = model.induced_kernels(), self.projection.sample(x, generator)
        parts = zip(torch.split(x, _ROWS), torch.split(v, _ROWS), strict=True)
        return reduce(add, (self.equations(kernels, *part) for part in parts))

    def _tune_penalty(
        self, model: DKEF, equations: NormalEquations, held: Tensor, generator: Generator
    ) -> None:
        others = [p for p in model.parameters() if p is not model.log_penalty]
        for parameter in others:
            parameter.requires_grad_(False)
        optimizer, kernels = (
            torch.optim.Adam([model.log_penalty], lr=1e-3),
            model.induced_kernels(),
        )
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


def _likelihood(f: LogDensity, x: Tensor, log_partition: LogPartition) -> Measurement:
    likelihood = nll(f, x, log_partition=Measurement(log_partition.value, log_partition.error))
    return likelihood.with_settings(
        partition_samples=log_partition.samples,
        effective_sample_size=log_partition.effective_sample_size,
    )


def likelihood_from_both_ends(
    f: LogDensity,
    x: Tensor,
    rows: Tensor,
    proposal: NormalizedDensity,
    forward: Tensor,
    generator: Generator,
) -> Measurement:
    """Return the negative log-likelihood, normalized from samples of proposal and density.

    Args:
        f: The density, not normalized, `(N, D) -> (N,)`.
        x: Test rows.
        rows: Training rows, at which the chains start that sample the density.
        proposal: The proposal.
        forward: Log-weights of samples of the proposal.
        generator: Random generator.

    Returns:
        The likelihood. Its settings contain all estimates of log Z and whether they agree.
    """
    order = torch.randperm(len(rows), generator=generator, device=generator.device)
    chains = hmc(
        f,
        rows[order[:CHAINS]],
        MOVES,
        burn_in=MOVES,
        leapfrog=5,
        adapt=StepAdaptation(),
        generator=generator,
    )
    reverse = importance_log_weights(f, proposal, chains.samples)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LogPartitionWarning)  # the verdict is a setting
        log_z = bidirectional_log_partition(forward, reverse)
    return nll(f, x, log_partition=Measurement(log_z.value, log_z.error)).with_settings(
        log_partition=log_z.value,
        log_partition_error=log_z.error,
        forward=log_z.forward.value.item(),
        reverse=log_z.reverse.value.item(),
        consistent=log_z.consistent,
        acceptance=chains.acceptance.mean().item(),
    )


@dataclass(frozen=True, eq=False)
class LocalGaussians:
    r"""A mixture of Gaussians around rows, each with the covariance of neighboring rows.

    $$q(x) = \frac1K \sum_k N(x; c_k, L_k L_k^T)$$

    Attributes:
        centers: The rows $c_k$, shape `(K, D)`.
        factors: The triangular factors $L_k$ of the covariances, shape `(K, D, D)`.
    """

    centers: Tensor
    factors: Tensor

    @classmethod
    def of(cls, rows: Tensor, scale: float, neighbors: int = 100, most: int = 1000) -> Self:
        r"""Return the Gaussians around the first rows.

        A tenth of each covariance is $\bar λ I$, with $\bar λ$ the mean of its diagonal, but at
        least the tenth percentile of these means, because rows may coincide.

        Args:
            rows: Rows of data, shape `(N, D)`.
            scale: Factor of the standard deviations.
            neighbors: Number of nearest rows, the row itself included, that give a covariance.
            most: Maximum number of components.

        Returns:
            The proposal.
        """
        centers, count = rows[:most], min(neighbors, len(rows))
        nearest = torch.cdist(centers, rows).topk(count, largest=False).indices
        differences = rows[nearest] - centers[:, None]
        covariances = differences.mT @ differences / count
        spread = covariances.diagonal(dim1=1, dim2=2).mean(1)
        spread = spread.clamp(min=max(spread.quantile(0.1).item(), 1e-12))
        eye = torch.eye(rows.shape[1], dtype=rows.dtype, device=rows.device)
        covariances = 0.9 * covariances + 0.1 * spread[:, None, None] * eye
        return cls(centers, scale * torch.linalg.cholesky(covariances))

    def sample(self, n: int, generator: Generator | None = None) -> Tensor:
        """Return `n` independent samples, shape `(n, D)`."""
        device = self.centers.device
        chosen = torch.randint(len(self.centers), (n,), device=device, generator=generator)
        c, factors = self.centers[chosen], self.factors[chosen]
        return c + (factors @ randn_like(c, generator)[..., None]).squeeze(-1)

    def log_prob(self, x: Tensor) -> Tensor:
        """Return $log q(x)$, normalized, shape `(N, D) -> (N,)`."""
        i, j = torch.triu_indices(*self.factors.shape[1:], device=x.device)
        monomials = torch.cat([x[:, i] * x[:, j], x, torch.ones_like(x[:, :1])], 1)
        return (monomials @ self._coefficients.T).logsumexp(1)

    @cached_property
    def _coefficients(self) -> Tensor:
        """The log-densities of the components as quadratic polynomials, one per row."""
        precisions, d = torch.cholesky_inverse(self.factors), self.centers.shape[1]
        i, j = torch.triu_indices(d, d, device=self.centers.device)
        squares = -precisions[:, i, j] * torch.where(i == j, 0.5, 1.0).to(precisions.dtype)
        linear = (precisions @ self.centers[..., None]).squeeze(-1)
        log_volume = self.factors.diagonal(dim1=1, dim2=2).log().sum(1)
        log_volume = log_volume + d * math.log(2 * math.pi) / 2 + math.log(len(self.centers))
        constant = -(self.centers * linear).sum(1) / 2 - log_volume
        return torch.cat([squares, linear, constant[:, None]], 1)


def adapt_proposal(
    log_density: LogDensity,
    rows: Tensor,
    broad: NormalizedDensity,
    *,
    pilot: int,
    rounds: int = 2,
    generator: Generator | None = None,
) -> MixtureProposal:
    """Return a proposal for importance sampling of a density that was trained on rows.

    Args:
        log_density: The density, not normalized, `(N, D) -> (N,)`.
        rows: The rows, shape `(N, D)`.
        broad: A proposal with the tails of the density, a component of the result.
        pilot: Number of samples in each round. A twentieth of them become centers.
        rounds: Number of rounds.
        generator: Random generator. Default: torch's global one.

    Returns:
        A mixture of the broad proposal, Gaussians around rows, and narrow and wide Gaussians
        around samples of high density.
    """
    fixed = (broad, LocalGaussians.of(rows, 0.8))
    proposal = MixtureProposal(fixed)
    for _ in range(rounds):
        x = proposal.sample(pilot, generator)
        log_weights = log_densities(log_density, x) - log_densities(proposal, x)
        weights = log_weights.softmax(0).clamp(min=1e-200)
        best = torch.multinomial(weights, max(2, pilot // 20), generator=generator)
        narrow, wide = (LocalGaussians.of(x[best], *width) for width in ((0.7, 60), (1.0, 100)))
        proposal = MixtureProposal((*fixed, narrow, wide))
    return proposal
