"""The base class of recipes: everything that determines a training run except its seed."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol, Self, runtime_checkable

import torch
from torch import Generator, Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from fdsm.evaluation import Measurement
from fdsm.samplers import Progress
from fdsm.training import ShuffledBatches
from fdsm.typing import LogDensity, Objective, Step

from ..data import Dataset, Source

Batches = Callable[[int, Generator], Tensor]
"""Returns the batch of an iteration. Random transforms use the generator."""


@dataclass(frozen=True)
class TrainingPlan:
    """Length of a training run, and intervals between its periodic tasks.

    Attributes:
        iterations: Number of training iterations.
        batch: Number of rows in a batch. All training rows if there are fewer.
        log_every: Iterations between two log entries.
        validate_every: Iterations between two validations. Zero disables validation.
        checkpoint_every: Iterations between two checkpoints.
        keep_checkpoints: Number of most recent checkpoints to keep.
        ema_decay: Decay of the exponential moving average of the weights that is evaluated.
            `None` evaluates the weights themselves.
        patience: Stop after this many iterations without a better validation, and return the
            best weights. `None` trains for all iterations and returns the last weights.
        num_samples: Number of samples to draw after training.
    """

    iterations: int = 3000
    batch: int = 128
    log_every: int = 10
    validate_every: int = 500
    checkpoint_every: int = 500
    keep_checkpoints: int = 2
    ema_decay: float | None = None
    patience: int | None = None
    num_samples: int = 64

    def __post_init__(self) -> None:
        minimum = {"iterations": 1, "batch": 1, "log_every": 1, "validate_every": 0}
        minimum |= {"checkpoint_every": 1, "keep_checkpoints": 1, "num_samples": 0}
        problems = [
            f"plan.{name} must be at least {smallest}, but is {getattr(self, name)}"
            for name, smallest in minimum.items()
            if getattr(self, name) < smallest
        ]
        if self.patience is not None and not 0 < self.validate_every <= self.patience:
            problems.append(
                f"plan.validate_every must be between 1 and plan.patience = {self.patience}, "
                f"but is {self.validate_every}"
            )
        if problems:
            raise ValueError("; ".join(problems))


class Recipe(ABC):
    """A model family, its data, and how to train, evaluate and sample it.

    A recipe is a frozen dataclass of values, so that a run can record it as JSON and be rebuilt
    from that record.

    Attributes:
        name: Name of the recipe, such as that of a row in a table.
        data: The data set.
        plan: Length of the training.
        provenance: Source of the settings, for documentation. It is not a setting itself.
    """

    name: str
    data: Source
    plan: TrainingPlan
    provenance: str

    @abstractmethod
    def build(self, shape: torch.Size) -> nn.Module:
        """Return an untrained model for events of a shape, initialized by torch's generator."""

    def before_training(self, model: nn.Module, data: Dataset, generator: Generator) -> None:
        """Prepare the model using the data, before the first iteration."""
        return None

    def batches(self, data: Dataset, seed: int, device: str) -> Batches:
        """Return the training batches. Default: all rows in a new random order every epoch."""
        return ShuffledBatches(data.train, data.transform, self.plan.batch, seed, device)

    @abstractmethod
    def step(self, model: nn.Module, data: Dataset) -> Step:
        """Return the training step."""

    def timed_part(self, step: Step) -> Step:
        """Return the part of a step that published times refer to. Default: the whole step."""
        return step

    @abstractmethod
    def validate(self, model: nn.Module, data: Dataset, generator: Generator) -> dict[str, float]:
        """Return a few metrics of the validation rows. Lower is better."""

    def after_training(self, model: nn.Module, data: Dataset, generator: Generator) -> None:
        """Finish the model using the data, after the last iteration."""
        return None

    @abstractmethod
    def evaluate(
        self, model: nn.Module, data: Dataset, generator: Generator
    ) -> dict[str, Measurement]:
        """Return the final metrics of the test rows."""

    @abstractmethod
    def sample(
        self, model: nn.Module, shape: torch.Size, n: int, generator: Generator, progress: Progress
    ) -> Tensor:
        """Return `n` samples in the space of the model, shape `(n, *shape)`."""

    def with_data(self, source: Source) -> Self:
        """Return the same recipe for another data set, with the transform of its own."""
        return replace(self, data=replace(source, transform=self.data.transform))  # type: ignore[type-var]


@runtime_checkable
class HasLogDensity(Protocol):
    """A recipe whose model has a log-density that can be computed."""

    @property
    def is_normalized(self) -> bool:
        """Whether the density integrates to one."""
        ...

    @property
    def noise_std(self) -> float:
        """Standard deviation of the noise in the data whose density the model learns."""
        ...

    def log_density(self, model: nn.Module) -> LogDensity:
        """Return the log-density of a trained model, in the space of the model."""
        ...


@runtime_checkable
class HasObjective(Protocol):
    """A recipe that minimizes a single objective of a log-density or score."""

    @property
    def objective(self) -> Objective:
        """The loss."""
        ...

    def objective_model(self, model: nn.Module) -> nn.Module:
        """Return the module that the objective is applied to."""
        ...


def require_parameters(recipe: Recipe, shape: torch.Size, most: int) -> None:
    """Check that the model of a recipe has at most a number of parameters.

    The model is built without memory, since the numbers in a config may be of any size.

    Args:
        recipe: The recipe.
        shape: Shape of an event in the space of the model.
        most: Largest number of parameters.

    Raises:
        ValueError: If there are more.
    """
    total = 0

    def count(module: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
        nonlocal total
        total += 0 if parameter is None else max(parameter.numel(), 1)
        if total > most:
            raise ValueError(f"the model of the recipe has more than {most:,} parameters")

    hook = register_module_parameter_registration_hook(count)
    try:
        with torch.device("meta"), torch.random.fork_rng(devices=[]):
            recipe.build(shape)
    finally:
        hook.remove()


def seeded(device: torch.device | str, seed: int) -> Generator:
    """Return a seeded generator on a device."""
    return Generator(device).manual_seed(seed)
