"""Updates by several processes, or from several parts of a batch."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Generator, Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

from ...sharding import Shard, ShardedDraws
from ..update import Update
from .checks import require_same_gradients
from .world import World


class ShardLoss(nn.Module):
    r"""The part of a batch's mean loss that comes from some of its rows, as a module.

    $$\frac{N}{B} \sum_{i \in \mathrm{shard}} J(x_i)$$

    Its average over $N$ processes is the mean over all $B$ rows, also if their shards have
    different sizes. The loss is inside the module that is wrapped, so `DistributedDataParallel`
    sees which parameters the loss uses, whether or not it takes gradients itself.

    Attributes:
        module: The module that is trained.
        loss: `batch, generator, progress -> (b,)`.
        processes: The number of processes, $N$.
        dim: The dimension of a batch that counts rows.
    """

    def __init__(
        self, module: nn.Module, loss: Callable[..., Tensor], processes: int = 1, dim: int = 0
    ) -> None:
        super().__init__()
        self.module, self.loss, self.processes, self.dim = module, loss, processes, dim

    def forward(
        self,
        shard: Shard,
        batch: tuple[Tensor, ...],
        generator: Generator | None,
        progress: float,
    ) -> Tensor:
        """Return the part of the mean loss, with the random numbers of the whole batch."""
        with ShardedDraws(shard, self.dim):
            losses = self.loss(*batch, generator, progress)
        return losses.mean() * (self.processes * shard.size / shard.total)


class ShardedUpdate(Update):
    """An `Update` on the rows of one process, equal to that of one process with all rows.

    Gradients are averaged by `DistributedDataParallel`. The parts of an accumulated batch use the
    random numbers of the whole batch too. After the first backward pass the processes compare
    their gradients.

    Attributes:
        shard: The rows of this process in a batch.
        accumulate: Number of parts whose gradients are added.
    """

    def __init__(
        self, update: Update, world: World, shard: Shard, *, accumulate: int = 1, dim: int = 0
    ) -> None:
        """Divide an update among processes.

        Args:
            update: The update of the whole batch.
            world: The processes.
            shard: The rows of this process in a batch.
            accumulate: Number of parts whose gradients are added.
            dim: The dimension of a batch that counts rows.
        """
        super().__init__(update.loss, update.module, update.optimizer, update.clip, update.average)
        self.world, self.shard, self.accumulate, self.dim = world, shard, accumulate, dim
        self._checked = world.size == 1
        self.part: nn.Module = self._wrap(ShardLoss(self.module, self.loss, world.size, dim))

    def _wrap(self, part: ShardLoss) -> nn.Module:
        """Return the module whose backward pass averages gradients over processes."""
        if self.world.size == 1:
            return part
        # A parameter without a gradient, such as the last bias of a log-density, is waited for
        # unless unused parameters are searched.
        return DistributedDataParallel(part, find_unused_parameters=True)

    def _unsynchronized(self) -> AbstractContextManager[None]:
        """Return a context in which backward passes do not communicate."""
        if isinstance(self.part, DistributedDataParallel):
            return self.part.no_sync()
        return nullcontext()

    def __call__(
        self, batch: tuple[Tensor, ...], generator: Generator | None, progress: float
    ) -> dict[str, Tensor]:
        """Train on the rows of this process. Return loss and gradient norm of the whole batch."""
        self.optimizer.zero_grad(set_to_none=True)
        loss = self._backward(batch, generator, progress)
        if self.world.size > 1:
            distributed.all_reduce(loss)
        if not self._checked:
            require_same_gradients(self.parameters)
            self._checked = True
        norm = self._clip()
        if bool((loss + norm).isfinite()):
            self.optimizer.step()
            self._update_average()
        return {"loss": loss, "grad_norm": norm}

    def _backward(
        self, batch: tuple[Tensor, ...], generator: Generator | None, progress: float
    ) -> Tensor:
        """Add the gradients of all parts. Return this process's part of the loss."""
        shards = self.shard.split(self.accumulate)
        parts = [torch.split(x, [s.size for s in shards], self.dim) for x in batch]
        state = None if generator is None or self.accumulate == 1 else generator.get_state()
        total = batch[0].new_zeros(())
        for i, (shard, *rows) in enumerate(zip(shards, *parts, strict=True)):
            if generator is not None and state is not None:
                generator.set_state(state)  # all parts use the random numbers of one batch
            last = i == len(shards) - 1
            with nullcontext() if last else self._unsynchronized():
                loss = self.part(shard, tuple(rows), generator, progress)
                loss.backward()
            total += loss.detach().to(total.dtype) / self.world.size
        return total

    def _clip(self) -> Tensor:
        return nn.utils.clip_grad_norm_(self.parameters, self.clip or torch.inf)

    def _update_average(self) -> None:
        if self.average is not None:
            self.average.update()
