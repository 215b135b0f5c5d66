"""Checks that several processes compute the gradient of the whole batch."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.overrides import TorchFunctionMode

from ...sharding import Shard, ShardedDraws
from ..compiled.graph import random_state_kept
from ..update import Update

ROWS = 11
"""Number of rows on which a loss is tried before training."""
TOLERANCE = 1e-3
"""Largest accepted difference of losses, relative to the largest one."""


class NotShardable(ValueError):
    """A loss that several processes cannot compute together, and why."""


class UnsynchronizedGradients(RuntimeError):
    """The gradients of processes that train together differ."""


def require_same_gradients(parameters: Iterable[nn.Parameter]) -> None:
    """Compare the gradients of all processes of the default group.

    Call it after the backward pass of the first step. Gradients that were averaged are the same
    numbers in all processes.

    Args:
        parameters: The parameters, in the same order in all processes.

    Raises:
        UnsynchronizedGradients: If they differ, in all processes.
    """
    marks = torch.stack([_mark(p.grad) for p in parameters])
    lowest, highest = marks.clone(), marks.clone()
    distributed.all_reduce(lowest, distributed.ReduceOp.MIN)
    distributed.all_reduce(highest, distributed.ReduceOp.MAX)
    different = int((lowest != highest).any(1).sum())
    if different:
        raise UnsynchronizedGradients(
            f"{different} of {len(marks)} gradients differ between the processes. The loss must "
            "be inside the module that is wrapped, and unused parameters must be searched: use "
            "fdsm.training.distributed.DistributedLoss"
        )


def _mark(gradient: Tensor | None) -> Tensor:
    """Return numbers that are different for different gradients, shape `(2,)`, in float64."""
    if gradient is None:
        return torch.zeros(2, dtype=torch.float64)
    g = gradient.detach().double().flatten()
    weights = torch.linspace(1, 2, len(g), dtype=torch.float64, device=g.device)
    marks = torch.stack([g @ weights, 1 + g.abs().sum()]).cpu()
    return marks.nan_to_num(nan=-1.0)


class InnerGradients(TorchFunctionMode):
    """Context manager that notices gradients which are taken inside a loss.

    Attributes:
        taken: Whether one was taken.
    """

    taken = False

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Iterable[type],
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Note a gradient."""
        self.taken |= function is torch.autograd.grad
        return function(*args, **(kwargs or {}))


def require_shardable(
    update: Update, batch: Tensor, generator: torch.Generator, dim: int = 0
) -> None:
    """Compute a loss on a few rows, all at once and in two parts.

    Args:
        update: The update.
        batch: A batch, or a part of one.
        generator: Random number generator of the loss. Its state is restored.
        dim: The dimension of the batch that counts rows.

    Raises:
        NotShardable: If the parts have other losses than the whole.
    """
    rows = batch.narrow(dim, 0, min(ROWS, batch.shape[dim]))
    n = rows.shape[dim]
    with random_state_kept(generator, batch.device) as states:
        whole = update.loss(rows, generator, 0.0).detach()
        after = states()
    if whole.ndim <= dim or whole.shape[dim] != n:
        raise NotShardable(
            f"its loss of {n} rows has shape {tuple(whole.shape)} and not one value per row"
        )
    parts: list[Tensor] = []
    same_states: list[bool] = []
    for shard in Shard(0, n, n).split(2 if n > 1 else 1):
        with random_state_kept(generator, batch.device) as states, ShardedDraws(shard, dim):
            parts.append(update.loss(shard.take(rows, dim), generator, 0.0).detach())
            same_states += map(torch.equal, states(), after)
    difference = (torch.cat(parts, dim) - whole).abs().max()
    if not all(same_states) or not difference <= TOLERANCE * whole.abs().max():
        raise NotShardable(
            "the loss of a row depends on the other rows of its batch, or on random numbers that "
            "are not drawn by torch.randn, rand, randint or normal (dropout? batch norm?)"
        )
