"""The loss of an objective in a distributed training loop of your own."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial

import torch
from torch import Generator, Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from ...typing import Objective
from .checks import require_same_gradients


class LossModule(nn.Module):
    """A mean loss as a module, for `DistributedDataParallel` and `fully_sharded`.

    They find out in the call of a module which parameters its result depends on. If the model
    alone is wrapped, gradients that a loss takes itself escape them.

    Attributes:
        model: The model that is trained.
        losses: The losses, one per row.

    Example:
        >>> from fdsm.objectives import DSM
        >>> model = nn.Sequential(nn.Linear(2, 1), nn.Flatten(0))
        >>> loss = LossModule(partial(DSM(0.1), model), model)
        >>> loss(torch.zeros(3, 2), generator=Generator()).shape
        torch.Size([])
    """

    def __init__(self, losses: Callable[..., Tensor], model: nn.Module) -> None:
        """Combine a loss and its model.

        Args:
            losses: Returns the losses of a batch, shape `(b,)`; for an objective
                `partial(objective, model)`.
            model: The model that is trained.
        """
        super().__init__()
        self.losses, self.model = losses, model

    def forward(self, *args: object, **kwargs: object) -> Tensor:
        """Return the mean loss of a batch, a scalar."""
        return self.losses(*args, **kwargs).mean()


class DistributedLoss:
    r"""The mean loss over the batches of all processes, for `DistributedDataParallel`.

    `DistributedDataParallel(model)` is wrong for objectives that take gradients themselves, such
    as DSM, or SSM with `Autodiff`: the gradients of the processes are not averaged, and if the
    last layer has a bias nothing tells. Here the objective is inside the module that is wrapped.
    At the first step of the optimizer the gradients of all processes are compared.

    All processes pass batches of the same size, such as those of a `DistributedSampler`. Give
    each a generator of its own, with a seed that depends on the rank: with the same seed, the rows
    of two processes would have the same directions and noise.

    Example:
        Started by `torchrun`, after `torch.distributed.init_process_group()`:

        ```python
        generator = torch.Generator().manual_seed(torch.distributed.get_rank())
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
        # A parameter without a gradient, such as the last bias of a log-density, is waited for
        # unless unused parameters are searched.
        self.wrapped = DistributedDataParallel(
            LossModule(partial(objective, model), model), find_unused_parameters=True
        )
        self._model, self._is_first = model, True
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
        if self._is_first:
            _require_same_size(x)
            self._is_first = False
        loss: Tensor = self.wrapped(x, *cond, generator=generator)
        return loss

    def no_sync(self) -> AbstractContextManager[None]:
        """Return a context in which gradients are added without averaging them."""
        return self.wrapped.no_sync()

    def _check_first_step(self, *_: object) -> None:
        self._hook.remove()
        require_same_gradients(self._model.parameters())


def _require_same_size(x: Tensor) -> None:
    """Raise `ValueError` unless the batches of all processes have equally many rows."""
    sizes = torch.tensor([len(x), -len(x)], device=x.device)
    distributed.all_reduce(sizes, distributed.ReduceOp.MIN)
    smallest, largest = (int(n) for n in (sizes[0], -sizes[1]))
    if smallest != largest:
        raise ValueError(
            f"the processes have batches of {smallest} to {largest} rows: give each the same "
            "number (drop_last=True), so that the mean over processes is that over all rows"
        )
