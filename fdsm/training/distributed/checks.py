"""A check that several processes have averaged their gradients."""

from collections.abc import Iterable

import torch
from torch import Tensor, distributed, nn


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
