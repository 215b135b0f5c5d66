"""Settings of optimizers, as values that can be saved with a run."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import nn
from torch.optim import Optimizer

from .schedules import ConstantSchedule, Schedule


class OptimizerConfig(Protocol):
    """An optimizer with its learning rate schedule and gradient clipping."""

    @property
    def lr(self) -> float:
        """Initial learning rate."""
        ...

    @property
    def schedule(self) -> Schedule:
        """Factor of the learning rate during training."""
        ...

    @property
    def clip(self) -> float | None:
        """Maximum norm of the gradient; None for no limit."""
        ...

    def build(self, parameters: Iterable[nn.Parameter]) -> Optimizer:
        """Return the torch optimizer of the parameters."""
        ...


@dataclass(frozen=True)
class Adam:
    """Adam, or AdamW with a weight decay.

    Attributes:
        lr: Initial learning rate.
        betas: Decay rates of the averages of the gradient and of its square.
        weight_decay: Decoupled weight decay.
        clip: Maximum norm of the gradient; None for no limit.
        schedule: Factor of the learning rate during training.
    """

    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    weight_decay: float = 0.0
    clip: float | None = None
    schedule: Schedule = ConstantSchedule()

    def build(self, parameters: Iterable[nn.Parameter]) -> Optimizer:
        """Return the torch optimizer of the parameters."""
        return torch.optim.AdamW(
            parameters, lr=self.lr, betas=self.betas, weight_decay=self.weight_decay
        )


@dataclass(frozen=True)
class RMSprop:
    """RMSprop, which the paper uses to train autoencoders.

    Attributes:
        lr: Initial learning rate.
        clip: Maximum norm of the gradient; None for no limit.
        schedule: Factor of the learning rate during training.
    """

    lr: float = 1e-3
    clip: float | None = None
    schedule: Schedule = ConstantSchedule()

    def build(self, parameters: Iterable[nn.Parameter]) -> Optimizer:
        """Return the torch optimizer of the parameters."""
        return torch.optim.RMSprop(parameters, lr=self.lr)
