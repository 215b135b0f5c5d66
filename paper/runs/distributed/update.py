"""Updates by several processes, or from several parts of a batch."""

from contextlib import AbstractContextManager, nullcontext
from typing import cast

import torch
from torch import Generator, Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

from fdsm.training import Update
from fdsm.training.distributed import LossModule, require_same_gradients

from .world import World


class DistributedUpdate(Update):
    """An `Update` on the rows of one process, whose gradients are averaged over processes.

    All processes have equally many rows. After the first backward pass they compare their
    gradients.

    Attributes:
        world: The processes.
        accumulate: Number of parts of the rows whose gradients are added.
        wrapped: The loss as a module whose backward pass averages gradients.
        plain: The module with all weights after `gather`, for evaluation and checkpoints.
    """

    def __init__(self, update: Update, world: World, accumulate: int = 1) -> None:
        super().__init__(update.loss, update.module, update.optimizer, update.clip, update.average)
        self.world, self.accumulate = world, accumulate
        self._checked = world.size == 1
        self.plain = update.module
        self.wrapped: nn.Module = self._wrap(LossModule(self.loss, self.module))

    def _wrap(self, loss: LossModule) -> nn.Module:
        if self.world.size == 1:
            return loss
        # A parameter without a gradient, such as the last bias of a log-density, is waited for
        # unless unused parameters are searched.
        return DistributedDataParallel(loss, find_unused_parameters=True)

    def _unsynchronized(self) -> AbstractContextManager[None]:
        """Return a context in which backward passes do not communicate."""
        if isinstance(self.wrapped, DistributedDataParallel):
            return self.wrapped.no_sync()
        return nullcontext()

    def __call__(
        self, batch: tuple[Tensor, ...], generator: Generator | None, progress: float
    ) -> dict[str, Tensor]:
        """Train on the rows of this process. Return loss and gradient norm of all processes."""
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.backward(batch, generator, progress)
        if self.world.size > 1:
            distributed.all_reduce(loss)
            loss /= self.world.size
        if not self._checked:
            require_same_gradients(self.parameters)
            self._checked = True
        norm = self._clip()
        if bool((loss + norm).isfinite()):
            self.optimizer.step()
            self._update_average()
        return {"loss": loss, "grad_norm": norm}

    def backward(
        self, batch: tuple[Tensor, ...], generator: Generator | None, progress: float
    ) -> Tensor:
        """Add the gradients of all parts. Return the mean loss of this process."""
        *first, last = zip(*(torch.tensor_split(x, self.accumulate) for x in batch), strict=True)
        with self._unsynchronized():
            losses = [self._backward(rows, batch, generator, progress) for rows in first]
        return torch.stack([*losses, self._backward(last, batch, generator, progress)]).sum()

    def _backward(
        self,
        rows: tuple[Tensor, ...],
        batch: tuple[Tensor, ...],
        generator: Generator | None,
        progress: float,
    ) -> Tensor:
        loss = self.wrapped(*rows, generator, progress) * (len(rows[0]) / len(batch[0]))
        loss.backward()
        return cast(Tensor, loss.detach())

    def gather(self) -> None:
        """Copy all weights to `plain`, if they are divided among the processes."""

    def _clip(self) -> Tensor:
        return nn.utils.clip_grad_norm_(self.parameters, self.clip or torch.inf)

    def _update_average(self) -> None:
        if self.average is not None:
            self.average.update()
