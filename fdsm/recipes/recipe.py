"""What a recipe is: everything that decides a run but its seed, as a frozen dataclass."""

from dataclasses import dataclass
from typing import Protocol, Self, runtime_checkable

import torch
from torch import Generator, Tensor, nn

from ..data import Dataset, Source
from ..evaluation import Measurement
from ..samplers import Progress
from ..typing import LogDensity, Objective, Step


@dataclass(frozen=True)
class TrainingPlan:
    """How long to train, and how often to look.

    Attributes:
        iterations: How many batches to train on.
        batch: How many rows a batch has.
        log_every: After how many iterations to log.
        validate_every: After how many to validate; never if zero.
        checkpoint_every: After how many to write a checkpoint.
        keep_checkpoints: How many checkpoints to keep.
        ema_decay: The memory of the moving average of the weights that is evaluated, if any.
        patience: After how many iterations without a better validation to stop, if at all; the
            best weights are then the result.
        num_samples: How many samples to draw at the end; none if zero.
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
        least = {"iterations": 1, "batch": 1, "log_every": 1, "validate_every": 0}
        least |= {"checkpoint_every": 1, "keep_checkpoints": 1, "num_samples": 0}
        for name, smallest in least.items():
            if getattr(self, name) < smallest:
                raise ValueError(
                    f"plan.{name} must be at least {smallest}, but is {getattr(self, name)}"
                )
        if self.patience is not None and not 0 < self.validate_every <= self.patience:
            raise ValueError(
                f"plan.patience is {self.patience} iterations, so plan.validate_every must be "
                f"between 1 and that, but is {self.validate_every}"
            )


class Recipe(Protocol):
    """A model, data to train it on, and how; one of its rows is one line of a table.

    Attributes:
        name: The name of the row.
        data: Where the data comes from.
        plan: How long to train.
        provenance: Where its settings come from, and which was taken where the paper, its appendix
            and its code disagree. It is no setting: other words make no other run.
    """

    name: str
    data: Source
    plan: TrainingPlan
    provenance: str = ""

    def with_data(self, source: Source) -> Self:
        """Return the same recipe for other data, transformed as the model needs it."""
        ...

    def build(self, shape: torch.Size) -> nn.Module:
        """Return an untrained model of events of a shape, its weights from torch's generator."""
        ...

    def before_training(self, model: nn.Module, data: Dataset, generator: Generator) -> None:
        """Do what needs the data before the first iteration; nothing by default."""
        return None

    def step(self, model: nn.Module, data: Dataset) -> Step:
        """Return how to train it."""
        ...

    def timed_part(self, step: Step) -> Step:
        """Return what of a step the published times are of; all of it by default."""
        return step

    def validate(self, model: nn.Module, data: Dataset, generator: Generator) -> dict[str, float]:
        """Return a few numbers on the validation rows, quickly; the smaller the better."""
        ...

    def after_training(self, model: nn.Module, data: Dataset, generator: Generator) -> None:
        """Do what is left to do when training is over; nothing by default."""
        return None

    def evaluate(
        self, model: nn.Module, data: Dataset, generator: Generator
    ) -> dict[str, Measurement]:
        """Return what the model is judged by, on the test rows."""
        ...

    def sample(
        self, model: nn.Module, shape: torch.Size, n: int, generator: Generator, progress: Progress
    ) -> Tensor:
        """Return `n` samples in the space of the model, shape `(n, *E)` for the given `*E`."""
        ...


@runtime_checkable
class Density(Protocol):
    """A recipe whose model has a log-density that can be computed."""

    def log_density(self, model: nn.Module) -> LogDensity:
        """Return the log-density of a trained model in the space of the model."""
        ...


@runtime_checkable
class HasObjective(Protocol):
    """A recipe that trains a model by an objective with a derivative, which can be checked."""

    @property
    def objective(self) -> Objective:
        """What is minimised."""
        ...

    def objective_model(self, model: nn.Module) -> nn.Module:
        """Return what the objective is applied to."""
        ...


def seeded(device: torch.device | str, seed: int) -> Generator:
    """Return a generator for a device."""
    return Generator(device).manual_seed(seed)
