"""Which optimizer to use, as a value that can be put on record."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import nn
from torch.optim import Optimizer

from .schedules import ConstantSchedule, Schedule


class OptimizerConfig(Protocol):
    """An optimizer to be made, how its learning rate goes, and where gradients are clipped."""

    @property
    def lr(self) -> float:
        """The learning rate at the start."""
        ...

    @property
    def schedule(self) -> Schedule:
        """What the learning rate is multiplied by as training goes on."""
        ...

    @property
    def clip(self) -> float | None:
        """The largest norm of the gradient, if there is a limit."""
        ...

    def build(self, parameters: Iterable[nn.Parameter]) -> Optimizer:
        """Return torch's optimizer of the parameters."""
        ...


@dataclass(frozen=True)
class Adam:
    """Adam, or AdamW with a weight decay.

    Attributes:
        lr: The learning rate at the start.
        betas: The memory of the two averages.
        weight_decay: Decoupled weight decay.
        clip: The largest norm of the gradient, if there is a limit.
        schedule: What the learning rate is multiplied by.
    """

    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    weight_decay: float = 0.0
    clip: float | None = None
    schedule: Schedule = ConstantSchedule()

    def build(self, parameters: Iterable[nn.Parameter]) -> Optimizer:
        """Return torch's optimizer of the parameters."""
        return torch.optim.AdamW(
            parameters, lr=self.lr, betas=self.betas, weight_decay=self.weight_decay
        )


@dataclass(frozen=True)
class RMSprop:
    """RMSprop, with which the paper trains its autoencoders.

    Attributes:
        lr: The learning rate at the start.
        clip: The largest norm of the gradient, if there is a limit.
        schedule: What the learning rate is multiplied by.
    """

    lr: float = 1e-3
    clip: float | None = None
    schedule: Schedule = ConstantSchedule()

    def build(self, parameters: Iterable[nn.Parameter]) -> Optimizer:
        """Return torch's optimizer of the parameters."""
        return torch.optim.RMSprop(parameters, lr=self.lr)
