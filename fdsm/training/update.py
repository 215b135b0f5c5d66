"""One update of the weights of a model, and of their average."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.optim import Optimizer
from torch.optim.swa_utils import AveragedModel

Tensors = tuple[Tensor, ...] | list[Tensor]


class EMA:
    r"""Exponential moving average of the weights, $\barθ ← a\barθ + (1 - a)θ$.

    During warm-up the decay is smaller, $\min(a, (1 + t)/(10 + t))$ after $t$ updates, so that the
    average soon forgets the initial weights. Buffers are copied, not averaged.

    Attributes:
        source: The model that is trained.
        model: A copy of the model with the average weights.

    Example:
        >>> model = nn.Linear(1, 1, bias=False)
        >>> average = EMA(model, 0.9)
        >>> with torch.no_grad():
        ...     _ = average.model.weight.fill_(0), model.weight.fill_(1)
        >>> average.update()
        >>> round(average.model.weight.item(), 3)  # the first decay is 1/10
        0.9
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        """Start the average at the current weights.

        Args:
            model: The model that is trained.
            decay: The decay $a$.

        Raises:
            ValueError: If the decay is not between 0 and 1.
        """
        if not 0 < decay < 1:
            raise ValueError(f"the decay of an average must be in (0, 1), but is {decay}")
        self.source, self._decay, self._updates = model, decay, 0
        self._averaged = AveragedModel(model, multi_avg_fn=self._average).requires_grad_(False)
        self._averaged.n_averaged.fill_(1)  # zero would replace the average at the first update
        self.model: nn.Module = self._averaged.module

    def __call__(self, event: object, /) -> None:
        """Update the average, as a callback of `fit`."""
        self.update()

    @property
    def next_weight(self) -> float:
        """The weight of the current weights in the next update, one minus the decay."""
        t = self._updates
        return 1 - min(self._decay, (1 + t) / (10 + t))

    def update(self) -> None:
        """Update the average with the current weights."""
        self._averaged.update_parameters(self.source)
        self.count_update()

    def count_update(self) -> None:
        """Count an update that was computed elsewhere, as a compiled step does."""
        self._updates += 1

    def state_dict(self) -> dict[str, Any]:
        """Return the average and the number of updates."""
        return {"model": self.model.state_dict(), "updates": self._updates}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state of `state_dict`."""
        self.model.load_state_dict(state["model"])
        self._updates = int(state["updates"])

    def _average(self, means: Tensors, new: Tensors, updates: Tensor | int) -> None:
        torch._foreach_lerp_(means, new, self.next_weight)


class Update:
    """Loss, gradient, clipping, optimizer step and average of the weights, in eager torch.

    If the loss or its gradient is not finite, weights, optimizer and average stay as they are.

    Attributes:
        loss: The loss. Its arguments are the tensors of a batch, the generator and the progress.
        module: The module that is trained.
        optimizer: An optimizer of its parameters.
        clip: Maximum norm of the gradient, positive; None for no limit.
        average: Average of the weights to update.
    """

    def __init__(
        self,
        loss: Callable[..., Tensor],
        module: nn.Module,
        optimizer: Optimizer,
        clip: float | None = None,
        average: EMA | None = None,
    ) -> None:
        if clip is not None and not clip > 0:
            raise ValueError(f"clip must be positive, or None for no limit, but is {clip}")
        self.loss, self.module, self.optimizer = loss, module, optimizer
        self.clip, self.average = clip, average
        self.parameters = [p for group in optimizer.param_groups for p in group["params"]]

    def __call__(
        self, batch: tuple[Tensor, ...], generator: Generator | None, progress: float
    ) -> dict[str, Tensor]:
        """Train on a batch. Return the loss and the norm of the gradient."""
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss(*batch, generator, progress).mean()
        loss.backward()  # type: ignore[no-untyped-call]
        limit = torch.inf if self.clip is None else self.clip
        norm = nn.utils.clip_grad_norm_(self.parameters, limit)
        if bool((loss + norm).isfinite()):
            self.optimizer.step()
            if self.average is not None:
                self.average.update()
        return {"loss": loss.detach(), "grad_norm": norm}

    def optimizer_state(self) -> dict[str, Any]:
        """Return the state of the optimizer."""
        return self.optimizer.state_dict()
