"""The loss of an objective in a distributed training loop of your own."""

from contextlib import AbstractContextManager

import torch
from torch import Generator, Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from ...sharding import Shard
from ...typing import Objective
from .checks import require_same_gradients
from .update import ShardLoss


class DistributedLoss:
    r"""The mean loss over the batches of all processes, for `DistributedDataParallel`.

    `DistributedDataParallel(model)` is wrong for objectives that take gradients themselves, such
    as DSM, or SSM with `Autodiff`: the gradients of the processes are not averaged, and if the
    last layer has a bias nothing tells. Here the objective is inside the module that is wrapped.
    At the first step of the optimizer the gradients of all processes are compared.

    All processes pass batches of the same size, such as those of a `DistributedSampler`. If their
    generators are in the same state, they draw what a single process would draw for all rows.

    Example:
        Started by `torchrun`, after `torch.distributed.init_process_group()`:

        ```python
        loss = DistributedLoss(DSM(0.1), model, optimizer)
        for x in loader:
            optimizer.zero_grad()
            loss(x, generator=generator).backward()
            optimizer.step()
        ```
    """

    def __init__(self, objective: Objective, model: nn.Module, optimizer: Optimizer) -> None:
        """Wrap a model and its objective.

        Args:
            objective: The objective to minimize.
            model: A log-density or a score, the same in all processes. Do not wrap it before.
            optimizer: The optimizer of its parameters.

        Raises:
            ValueError: If there is no process group, or the model is wrapped already.
        """
        if not (distributed.is_available() and distributed.is_initialized()):
            raise ValueError("call torch.distributed.init_process_group() first")
        if isinstance(model, DistributedDataParallel):
            raise ValueError(
                "give the model itself, not DistributedDataParallel(model): the objective must be "
                "inside the wrapped module"
            )

        def losses(x: Tensor, *rest: object) -> Tensor:
            *cond, generator, _ = rest
            return objective(model, x, *cond, generator=generator)  # type: ignore[arg-type]

        self._rank, self._size = distributed.get_rank(), distributed.get_world_size()
        part = ShardLoss(model, losses, self._size)
        self.wrapped = DistributedDataParallel(part, find_unused_parameters=True)
        self._model, self._rows = model, 0
        self._hook = optimizer.register_step_pre_hook(self._check_first_step)

    def __call__(self, x: Tensor, /, *cond: Tensor, generator: Generator | None = None) -> Tensor:
        """Return the loss, whose gradient is averaged over processes by `backward`.

        Args:
            x: The batch of this process, shape `(b, *E)`.
            cond: Further arguments of the model, one row per example.
            generator: Random number generator. Default: the global generator of torch.

        Returns:
            The mean loss of this batch, a scalar.

        Raises:
            ValueError: If the first batches of the processes have different sizes.
        """
        if not self._rows:
            self._rows = _require_same_size(len(x), x)
        shard = Shard.of(self._size * len(x), self._rank, self._size)
        loss: Tensor = self.wrapped(shard, (x, *cond), generator, 0.0)
        return loss

    def no_sync(self) -> AbstractContextManager[None]:
        """Return a context in which gradients are added without averaging them."""
        return self.wrapped.no_sync()

    def _check_first_step(self, *_: object) -> None:
        self._hook.remove()
        require_same_gradients(self._model.parameters())


def _require_same_size(size: int, x: Tensor) -> int:
    """Return the size of a batch if it is that of all processes."""
    sizes = torch.tensor([size, -size], device=x.device)
    distributed.all_reduce(sizes, distributed.ReduceOp.MIN)
    smallest, largest = (int(n) for n in (sizes[0], -sizes[1]))
    if smallest != largest:
        raise ValueError(
            f"the processes have batches of {smallest} to {largest} rows: give each the same "
            "number (drop_last=True), so that the mean over processes is that over all rows"
        )
    return size
