"""An average of the weights a model has had."""

import copy
from typing import Any

import torch
from torch import nn

from .events import IterationEvent


class EMA:
    r"""The exponential moving average $\barθ ← a\barθ + (1 - a)θ$ after every iteration.

    While few iterations have been made, the memory is shorter, $\min(a, (1 + t)/(10 + t))$, so
    that the average forgets the first weights.

    Attributes:
        model: A copy of the model with the average weights, to sample from and to evaluate.
    """

    def __init__(self, model: nn.Module, memory: float) -> None:
        """Begin with the weights that the model has.

        Args:
            model: Whose weights to average.
            memory: The factor $a$.

        Raises:
            ValueError: If the factor is none.
        """
        if not 0 < memory < 1:
            raise ValueError(f"the memory of an average must be in (0, 1), but is {memory}")
        self.live, self.memory, self.updates = model, memory, 0
        self.model = copy.deepcopy(model).requires_grad_(False)

    @torch.no_grad()
    def __call__(self, moment: IterationEvent) -> None:
        """Take the weights of now into the average; buffers are copied."""
        memory = min(self.memory, (1 + self.updates) / (10 + self.updates))
        self.updates += 1
        for mean, now in zip(self.model.parameters(), self.live.parameters(), strict=True):
            mean.lerp_(now, 1 - memory)
        for copied, buffer in zip(self.model.buffers(), self.live.buffers(), strict=True):
            copied.copy_(buffer)

    def state_dict(self) -> dict[str, Any]:
        """Return the average and how many weights went into it."""
        return {"model": self.model.state_dict(), "updates": self.updates}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a state."""
        self.model.load_state_dict(state["model"])
        self.updates = int(state["updates"])
