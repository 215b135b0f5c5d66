r"""Energy-based models of noisy data at many noise levels, for users' tables and images.

One network learns the log-density of the data with noise of standard deviation $σ$, for all $σ$
between a small and a large level. At the smallest level it approximates the density of the data.
The sampler starts at the largest level and goes through all of them.
"""

from dataclasses import dataclass, field, replace

import torch
from torch import Generator, Tensor, nn

from ..data import Dataset, FillMissing, Source
from ..data.transforms import Chain, Transform
from fdsm.tables.imputation import fill_within_folds
from fdsm.derivatives import score_of
from fdsm.evaluation import Measurement
from fdsm.models import AtNoiseLevel, MeanOfMembers, NoiseConditionalEnsemble, OneMember
from fdsm.noise import Geometric
from fdsm.samplers import Progress, ancestral_sampling
from fdsm.sharding import over_rows, positions
from fdsm.tensors import randn_like
from fdsm.training import (
    Adam,
    CosineSchedule,
    GradientStep,
    OptimizerConfig,
    derived_seed,
    objective_loss,
)
from fdsm.typing import LogDensity, Objective, Step
from .networks import ConditionalMLP, Network
from .recipe import Batches, Recipe, TrainingPlan, seeded


@dataclass(frozen=True)
class NoiseConditionalEBM(Recipe):
    """An energy-based model that is given the noise level, and how to train it.

    Attributes:
        name: Name of the recipe.
        objective: The loss of a log-density given the noise level.
        data: The data set, with zero mean and unit variance in the space of the model.
        network: The network, a log-density given the noise level.
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
    network: Network = ConditionalMLP()
    levels: Geometric = Geometric(3.0, 0.1, 20)
    optimizer: OptimizerConfig = Adam(2e-3, (0.9, 0.99), clip=10.0, schedule=CosineSchedule())
    plan: TrainingPlan = TrainingPlan()
    sampling_levels: int = 200
    validation_rows: int = 500
    provenance: str = field(default="", repr=False)

    @property
    def is_normalized(self) -> bool:
        """The density is known up to a constant factor."""
        return False

    @property
    def noise_std(self) -> float:
        """The smallest noise level."""
        return self.levels.last

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
        losses = lambda x: self.objective(model, x, generator=generator)
        return {"loss": over_rows(losses, x).mean().item()}

    def evaluate(
        self, model: nn.Module, data: Dataset, generator: Generator
    ) -> dict[str, Measurement]:
        """Return no metrics. Densities are compared with references by `fdsm.runs.evaluate`."""
        return {}

    def sample(
        self, model: nn.Module, shape: torch.Size, n: int, generator: Generator, progress: Progress
    ) -> Tensor:
        """Return samples of ancestral sampling, from the largest noise level to the smallest."""
        z = torch.randn(n, *shape, generator=generator, device=generator.device)
        return ancestral_sampling(
            score_of(model),
            z * (1 + self.levels.first**2) ** 0.5,
            replace(self.levels, count=self.sampling_levels).levels,
            generator=generator,
            progress=progress,
        )

    def objective_model(self, model: nn.Module) -> nn.Module:
        """Return the network, which is given the noise level by the objective."""
        return model

    def log_density(self, model: nn.Module) -> LogDensity:
        """Return the log-density at the smallest noise level."""
        return AtNoiseLevel(model, self.levels.last)


@dataclass(frozen=True)
class CrossFittedEBM(Recipe):
    r"""An ensemble of noise-conditional energy-based models for a table, trained by cross-fitting.

    The rows are divided at random into folds. Member $k$ of the ensemble learns from all rows
    outside fold $k$, by denoising score matching with noise levels $σ$ that are log-uniform
    between the smallest and the largest:

    $$\frac{1}{2D} E \left\| σ \, ∇\log p_k(x + σε, σ) + ε \right\|²$$

    So every row is held out once: for early stopping, for the calibration of outlier scores and
    for the comparison with other densities. No row is lost to a test set.

    Attributes:
        name: Name of the recipe.
        data: The table, with unit variance in the space of the model and all rows in `train`.
        folds: Number of folds and members, K.
        width: Width of the hidden layers.
        blocks: Number of residual blocks.
        levels: The noise levels of the sampler. Training uses all levels between the first and
            the last.
        scored_levels: Noise levels at which the log-density is read for outlier scores. The first
            is that of `log_density`.
        optimizer: The optimizer.
        plan: Length of the training.
        validation_rows: Largest number of rows per fold for validation. Fewer rows are repeated
            with other noise.
        provenance: Source of the settings.
    """

    name: str
    data: Source
    folds: int = 4
    width: int = 64
    blocks: int = 2
    levels: Geometric = Geometric(2.0, 0.05, 100)
    scored_levels: tuple[float, ...] = (0.1, 0.2, 0.4)
    optimizer: OptimizerConfig = Adam(
        2e-3, (0.9, 0.99), weight_decay=0.01, clip=10.0, schedule=CosineSchedule()
    )
    plan: TrainingPlan = TrainingPlan()
    validation_rows: int = 500
    provenance: str = field(default="", repr=False)

    @property
    def is_normalized(self) -> bool:
        """The density is known up to a constant factor."""
        return False

    @property
    def noise_std(self) -> float:
        """The noise level of `log_density`."""
        return self.scored_levels[0]

    @property
    def cross_fits(self) -> bool:
        """Every row is held out once, so no rows are needed for validation and test."""
        return True

    @property
    def num_threads(self) -> int | None:
        """One thread for small networks, whose operations are too short to be divided."""
        return 1 if self.width < 128 else None

    @property
    def row_dimension(self) -> int:
        """Batches and losses have one entry per member in the first dimension."""
        return 1

    def fold_of_rows(self, n: int) -> Tensor:
        """Return the fold of each of `n` training rows, shape `(n,)`."""
        order = torch.randperm(n, generator=seeded("cpu", derived_seed(0, "folds")))
        return order % self.folds

    def build(self, shape: torch.Size) -> nn.Module:
        """Return the untrained ensemble."""
        return NoiseConditionalEnsemble(shape.numel(), self.folds, self.width, self.blocks)

    def batches(self, data: Dataset, seed: int, device: str) -> Batches:
        """Return batches of rows outside the fold of each member, shape `(K, B, D)`."""
        folds = self.fold_of_rows(len(data.train))
        inputs = _training_inputs(data.transform, data.train, folds)
        outside = [(folds != k).nonzero().flatten() for k in range(self.folds)]
        size = min(self.plan.batch, *map(len, outside))

        def batch(iteration: int, generator: Generator) -> Tensor:
            order = seeded("cpu", derived_seed(seed, iteration))
            rows = torch.stack([
                rows[torch.randint(len(rows), (size,), generator=order)] for rows in outside
            ])
            completion = torch.randint(len(inputs), rows.shape, generator=order)
            return inputs[completion, rows].to(device)

        return batch

    def step(self, model: nn.Module, data: Dataset) -> Step:
        """Return a gradient step on the loss of all members."""
        loss = lambda batch, generator, progress: self.losses(model, batch, generator)
        return GradientStep(loss, model, self.optimizer, self.plan.iterations)

    def validate(self, model: nn.Module, data: Dataset, generator: Generator) -> dict[str, float]:
        """Return the loss of each member on the rows it has not seen, with the same noise."""
        x = self.held_out_inputs(data, self.validation_rows).to(generator.device)
        repeats = -(-self.validation_rows // x.shape[1])
        losses = lambda x: self.losses(model, x, generator, create_graph=False)
        return {"loss": over_rows(losses, x.repeat(1, repeats, 1), dim=1).mean().item()}

    def held_out_inputs(self, data: Dataset, limit: int) -> Tensor:
        """Return equally many held-out rows of each fold, shape `(K, B, D)`."""
        folds = self.fold_of_rows(len(data.train))
        rows = [(folds == k).nonzero().flatten() for k in range(self.folds)]
        size = min(limit, *map(len, rows))
        chosen = torch.stack([fold[:size] for fold in rows])
        return data.train_inputs[chosen]

    def evaluate(
        self, model: nn.Module, data: Dataset, generator: Generator
    ) -> dict[str, Measurement]:
        """Return no metrics. Densities are compared with references by `fdsm.runs.evaluate`."""
        return {}

    def sample(
        self, model: nn.Module, shape: torch.Size, n: int, generator: Generator, progress: Progress
    ) -> Tensor:
        """Return samples of ancestral sampling, from the largest noise level to the smallest."""
        z = torch.randn(n, *shape, generator=generator, device=generator.device)
        return ancestral_sampling(
            score_of(MeanOfMembers(model, self.folds)),
            z * (1 + self.levels.first**2) ** 0.5,
            self.levels.levels,
            generator=generator,
            progress=progress,
        )

    def log_density(self, model: nn.Module) -> LogDensity:
        """Return the mean log-density of the members at the first scored noise level."""
        return AtNoiseLevel(MeanOfMembers(model, self.folds), self.noise_std)

    def held_out_comparison(self, model: nn.Module, data: Dataset) -> tuple[LogDensity, Dataset]:
        """Return the log-density of the first member, and the data split as for this member."""
        folds = self.fold_of_rows(len(data.train))
        split = replace(data, train=data.train[folds != 0], test=data.train[folds == 0])
        return AtNoiseLevel(OneMember(model, self.folds, 0), self.noise_std), split

    def member_log_densities(self, model: nn.Module, x: Tensor) -> Tensor:
        """Return log-densities at the scored levels, shape `(K, N, D) -> (L, K, N)`."""
        with torch.no_grad():
            return torch.stack([
                model(x, x.new_full(x.shape[:2], sigma)) for sigma in self.scored_levels
            ])

    def losses(
        self, model: nn.Module, x: Tensor, generator: Generator, *, create_graph: bool = True
    ) -> Tensor:
        """Return the denoising loss of each row by its member, `(K, B, D) -> (K, B)`."""
        k, b, d = x.shape
        # One level in each of B equal parts of the range reduces the variance of the mean.
        rows, total = positions(b)
        part = torch.arange(rows.start, rows.stop, device=x.device)
        uniform = torch.rand(k, b, generator=generator, device=x.device, dtype=x.dtype)
        share = (uniform + part) / total
        sigma = self.levels.last * (self.levels.first / self.levels.last) ** share
        noise = randn_like(x, generator)
        noisy = (x + sigma[..., None] * noise).requires_grad_()
        with torch.enable_grad():
            total = model(noisy, sigma).sum()
            (score,) = torch.autograd.grad(total, noisy, create_graph=create_graph)
        return (sigma[..., None] * score + noise).square().sum(-1) / (2 * d)


def _training_inputs(transform: Transform, rows: Tensor, folds: Tensor) -> Tensor:
    """Return model inputs of rows, completed in one or several ways, shape `(C, N, D)`.

    Missing cells are filled from rows of the same fold, so that no member sees its held-out rows.
    """
    if isinstance(transform, Chain) and transform.steps:
        *before, last = transform.steps
        if isinstance(last, FillMissing):
            return fill_within_folds(Chain(tuple(before)).deterministic(rows), folds)
    return transform.deterministic(rows)[None]
