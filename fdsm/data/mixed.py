"""Rows in an order without a meaning, so that the first of them stand for all."""

import torch
from torch import Tensor


def mixed(rows: Tensor) -> Tensor:
    """Return rows in another order, always the same for as many rows.

    Files are often sorted: the first half of MNIST's test images is cleaner than the second, so
    that the first hundred would not do for what is too expensive to evaluate on all.

    Args:
        rows: The rows, shape `(N, *E)`.

    Returns:
        The same rows, shape `(N, *E)`.

    Example:
        >>> mixed(torch.arange(6))
        tensor([2, 5, 3, 0, 1, 4])
    """
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))
    return rows[order.to(rows.device)]
