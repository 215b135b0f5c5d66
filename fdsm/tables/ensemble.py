r"""The density of a table: an ensemble of energy-based models, trained by cross-fitting.

The rows are divided at random into folds. Member $k$ of the ensemble learns from all rows outside
fold $k$. So every row is held out once: for early stopping, for the calibration of outlier scores
and for the comparison with other densities. No row is lost to a test set.
"""

import math
import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from ..derivatives import Autodiff, FiniteDifference, Taylor, score_of
from ..models import (
    AtNoiseLevel,
    MeanOfMembers,
    NoiseConditionalEnsemble,
    OneMember,
    ProductOfMembers,
)
from ..noise import Geometric, LogUniform
from ..objectives import SM, SSM, Annealed, AnnealedDSM, ViaScore
from ..projections import Sphere
from ..samplers import Progress, ancestral_sampling
from ..training import (
    Adam,
    Callback,
    CosineSchedule,
    GradientStep,
    IterationEvent,
    NonFiniteLossError,
    derived_seed,
    keep_freed_memory,
    objective_loss,
)
from ..typing import Derivative, LogDensity, Objective, Score
from .imputation import CompletedRows

FOLDS = 4
LEVELS = LogUniform(2.0, 0.05)
"""Noise levels of the training, in standard deviations of the columns."""
SAMPLING_LEVELS = Geometric(LEVELS.first, LEVELS.last, 100)
SCORED_LEVELS = (0.1, 0.2, 0.4)
"""Noise levels at which the log-density is read for outlier scores. The first is that of
`log_density`."""


@dataclass(frozen=True)
class FusedAdam(Adam):
    """Adam with the fused kernel of torch, whose steps of small networks take a quarter."""

    def build(self, parameters: Iterable[nn.Parameter]) -> Optimizer:
        """Return the torch optimizer of the parameters."""
        return torch.optim.AdamW(
            parameters, self.lr, self.betas, weight_decay=self.weight_decay, fused=True
        )


OPTIMIZER = FusedAdam(2e-3, (0.9, 0.99), weight_decay=0.01, clip=10.0, schedule=CosineSchedule())
BATCH = 128
"""Number of rows of a batch, for each member."""
VALIDATION_ROWS = 500
"""Largest number of held-out rows per fold for early stopping. Fewer are repeated."""
VALIDATIONS, PATIENCE = 40, 10
"""Number of validations in a training, and how many without improvement end it."""
LARGE = 100_000
"""From this number of rows on, the network is wider and the training longer."""

ENGINES: dict[Literal["taylor", "fd", "autodiff"], Derivative] = {
    "taylor": Taylor(),
    "fd": FiniteDifference(),
    "autodiff": Autodiff(),
}
TITLES: dict[str, str] = {
    "dsm": "denoising score matching",
    "ssm": "sliced score matching",
    "sm": "exact score matching",
}


def choose_objective(
    name: Literal["dsm", "ssm", "sm"] = "dsm",
    derivative: Literal["taylor", "fd", "autodiff"] | None = None,
) -> Objective:
    """Return an objective of noise-conditional log-densities, over the noise levels `LEVELS`.

    Args:
        name: Denoising, sliced or exact score matching.
        derivative: How sliced and exact score matching differentiate. Default: Taylor.

    Returns:
        The objective.

    Raises:
        ValueError: If a derivative is given for denoising score matching, which takes none.
    """
    if name == "dsm":
        if derivative is not None:
            raise ValueError(
                "denoising score matching takes no derivatives along directions, so there is no "
                "choice of derivative. Objectives with a choice: ssm, sm"
            )
        return ViaScore(AnnealedDSM(LEVELS))
    engine = ENGINES[derivative or "taylor"]
    at_level = SM(engine) if name == "sm" else SSM(engine, Sphere(0.1), directions=4)
    return Annealed(at_level, LEVELS, relative=True)


def objective_title(objective: Objective) -> str:
    """Return the name of an objective of `choose_objective`, or the objective as code.

    Example:
        >>> objective_title(choose_objective("ssm", "fd"))
        'sliced score matching, derivatives with FiniteDifference'
    """
    if objective == choose_objective():
        return TITLES["dsm"]
    names: tuple[Literal["ssm", "sm"], ...] = ("ssm", "sm")
    for name in names:
        for derivative, engine in ENGINES.items():
            if objective == choose_objective(name, derivative):
                return f"{TITLES[name]}, derivatives with {type(engine).__name__}"
    return repr(objective)


@dataclass(frozen=True)
class Ensemble:
    """A trained ensemble.

    Attributes:
        network: The members.
        objective: The objective that they minimize.
    """

    network: NoiseConditionalEnsemble
    objective: Objective

    @cached_property
    def joint(self) -> ProductOfMembers:
        """The joint log-density of one row per member, which the objective trains.

        It is built once, because a model that an objective has not seen before is inspected.
        """
        return ProductOfMembers(self.network)

    @property
    def log_density(self) -> LogDensity:
        """The mean log-density of the members at the first scored level, `(N, D) -> (N,)`."""
        return AtNoiseLevel(MeanOfMembers(self.network), SCORED_LEVELS[0])

    @property
    def score(self) -> Score:
        """The score of the mean log-density, given the noise level, `(N, D), (N,) -> (N, D)`."""
        return score_of(MeanOfMembers(self.network))

    def member_log_density(self, index: int) -> LogDensity:
        """Return the log-density of a member at the first scored level, `(N, D) -> (N,)`."""
        return AtNoiseLevel(OneMember(self.network, index), SCORED_LEVELS[0])

    def member_log_densities(self, x: Tensor) -> Tensor:
        """Return log-densities at the scored levels, shape `(K, N, D) -> (L, K, N)`."""
        with torch.no_grad():
            x = x.expand(FOLDS, -1, -1)
            levels = [x.new_full(x.shape[:2], sigma) for sigma in SCORED_LEVELS]
            return torch.stack([self.network(x, sigma) for sigma in levels])

    def losses(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Return the objective of rows of which each member has its own, `(K, B, D) -> (B,)`."""
        with torch.no_grad():
            return self.objective(self.joint, x.transpose(0, 1), generator=generator)

    def sample(self, n: int, generator: torch.Generator, progress: Progress) -> Tensor:
        """Return samples of ancestral sampling over `SAMPLING_LEVELS`, shape `(n, D)`."""
        weight = self.network.rows.weight
        z = weight.new_empty(n, weight.shape[1]).normal_(generator=generator)
        return ancestral_sampling(
            self.score,
            z * (1 + SAMPLING_LEVELS.first**2) ** 0.5,
            SAMPLING_LEVELS.levels,
            generator=generator,
            progress=progress,
        )


@dataclass(frozen=True)
class History:
    """The course of a training.

    Attributes:
        iterations: Number of iterations.
        seconds: Duration.
        losses: Iterations, and the held-out loss after each.
    """

    iterations: int
    seconds: float
    losses: tuple[tuple[int, float], ...]


def fold_of_rows(n: int) -> Tensor:
    """Return the fold of each of `n` training rows, which are in random order, shape `(n,)`."""
    order = torch.randperm(n, generator=torch.Generator().manual_seed(derived_seed(0, "folds")))
    return order % FOLDS


def default_iterations(rows: int) -> int:
    """Return the largest number of training iterations for a number of rows."""
    if rows < 10_000:
        return 600
    return 1000 if rows < LARGE else 2000


def train_ensemble(
    completed: CompletedRows,
    objective: Objective,
    *,
    iterations: int,
    seed: int,
    device: str = "cpu",
    progress: Callback | None = None,
) -> tuple[Ensemble, History]:
    """Train the members, each on the rows outside its fold, and stop early by held-out rows.

    Args:
        completed: Inputs of the training rows. Missing cells are filled from rows of the same
            fold, so that no member sees its held-out rows.
        objective: The objective of a noise-conditional log-density.
        iterations: Largest number of iterations.
        seed: Random seed.
        device: Device.
        progress: Called after each iteration.

    Returns:
        The ensemble with the smallest held-out loss, and a record of the training.

    Raises:
        NonFiniteLossError: If the loss is not finite.
        ValueError: If there is no iteration.
    """
    if iterations < 1:
        raise ValueError(f"iterations must be at least 1, but is {iterations}")
    inputs = completed.rows
    folds = fold_of_rows(len(inputs))
    outside = [(folds != k).nonzero().flatten() for k in range(FOLDS)]
    held_out = [(folds == k).nonzero().flatten() for k in range(FOLDS)]
    batch_size = min(BATCH, *map(len, outside))
    validation_size = min(VALIDATION_ROWS, *map(len, held_out))
    validation_rows = torch.stack([rows[:validation_size] for rows in held_out])
    validation = completed.rows[validation_rows].repeat(
        1, -(-VALIDATION_ROWS // validation_size), 1
    )

    width = 128 if len(inputs) >= LARGE else 64
    network = NoiseConditionalEnsemble(
        inputs.shape[1], FOLDS, width, generator=_generator(seed, "weights")
    ).to(device, inputs.dtype)
    ensemble = Ensemble(network, objective)
    loss = objective_loss(objective, ensemble.joint)
    step = GradientStep(loss, network, OPTIMIZER, iterations)
    order, generator = _generator(seed, "order"), _generator(seed, "train", device)
    every = max(1, iterations // VALIDATIONS)
    losses: list[tuple[int, float]] = []
    best, best_iteration, best_weights = math.inf, 0, network.state_dict()
    keep_freed_memory()
    began = time.perf_counter()
    with _threads(1 if width < 128 else None):
        for iteration in range(1, iterations + 1):
            choice = [torch.randint(len(rows), (batch_size,), generator=order) for rows in outside]
            rows = torch.stack([r[c] for r, c in zip(outside, choice, strict=True)])
            batch = completed.draw(rows, order).transpose(0, 1)
            metrics = step(batch, generator)
            seconds = time.perf_counter() - began
            if progress is not None:
                mean = 1000 * seconds / iteration
                values = {name: value.item() for name, value in metrics.items()}
                progress(IterationEvent(iteration, iterations, seconds, mean, values))
            if iteration % every and iteration < iterations:
                continue
            held_out_loss = ensemble.losses(validation, _generator(0, "validate", device)).mean()
            measured = {"training": metrics["loss"].item(), "held-out": held_out_loss.item()}
            for name, value in measured.items():
                if not math.isfinite(value):
                    raise NonFiniteLossError(
                        f"the {name} loss of iteration {iteration:,} is {value}"
                    )
            losses.append((iteration, measured["held-out"]))
            if measured["held-out"] < best:
                best, best_weights = measured["held-out"], deepcopy(network.state_dict())
                best_iteration = iteration
            elif iteration - best_iteration >= PATIENCE * every:
                break
    network.load_state_dict(best_weights)
    network.requires_grad_(requires_grad=False).eval()
    return ensemble, History(iteration, seconds, tuple(losses))


def _generator(seed: int, purpose: str, device: str = "cpu") -> torch.Generator:
    return torch.Generator(device).manual_seed(derived_seed(seed, purpose))


@contextmanager
def _threads(count: int | None) -> Generator[None]:
    """Use at most a number of threads. Small networks have operations too short to divide."""
    before = torch.get_num_threads()
    torch.set_num_threads(before if count is None else min(count, before))
    try:
        yield
    finally:
        torch.set_num_threads(before)
