"""Which rows are for training, for validation and for the test."""

import numpy as np
import torch
from torch import Tensor

from .errors import DataError


def shuffled(n: int, seed: int) -> Tensor:
    """Return the row numbers `0 … n - 1` in the order numpy's legacy generator puts them."""
    return torch.from_numpy(np.random.RandomState(seed).permutation(n))


def held_out(n: int, fraction: float, seed: int) -> tuple[Tensor, Tensor]:
    """Cut a share of the rows off, at random.

    Args:
        n: How many rows there are.
        fraction: The share to cut off, from 0 to below 1.
        seed: Decides which.

    Returns:
        The numbers of the rows that stay and of those cut off.

    Raises:
        ValueError: If the share is not a fraction.

    Example:
        >>> [len(rows) for rows in held_out(60_000, 0.1, seed=2020)]
        [54000, 6000]
    """
    if not 0 <= fraction < 1:
        raise ValueError(f"a share to hold out lies in [0, 1), but got {fraction}")
    order, count = shuffled(n, seed), _count(n, fraction)
    _require_rest(n, count)
    return order[: n - count], order[n - count :]


def train_val_test_split(
    n: int, *, validation: float, test: float, seed: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Cut rows into training, validation and test, at random.

    Args:
        n: How many rows there are.
        validation: The share for validation.
        test: The share for the test.
        seed: Decides which rows go where.

    Returns:
        The numbers of the rows of each.

    Raises:
        ValueError: If the shares leave nothing to train on.

    Example:
        >>> [len(rows) for rows in train_val_test_split(1797, validation=0.1, test=0.1, seed=0)]
        [1439, 179, 179]
    """
    if min(validation, test) < 0 or validation + test >= 1:
        raise ValueError(
            "validation and test are shares that leave some rows to train on, "
            f"but got {validation} and {test}"
        )
    order, v, t = shuffled(n, seed), _count(n, validation), _count(n, test)
    _require_rest(n, v + t)
    return order[: n - v - t], order[n - v - t : n - t], order[n - t :]


def _require_rest(n: int, held: int) -> None:
    if n <= held:
        raise DataError(f"{n} rows are too few to hold out {held} of them")


def _count(n: int, fraction: float) -> int:
    # 1e-9: 0.1 * 70 is 7.000000000000001, and 0.29 * 100 is 28.999999999999996
    return max(int(n * fraction + 1e-9), int(fraction > 0))


def fixed_shuffle(rows: Tensor) -> Tensor:
    """Return rows in another order, always the same for as many rows.

    Files are often sorted: the first half of MNIST's test images is cleaner than the second, so
    that the first hundred would not do for what is too expensive to evaluate on all.

    Args:
        rows: The rows, shape `(N, *E)`.

    Returns:
        The same rows, shape `(N, *E)`.

    Example:
        >>> fixed_shuffle(torch.arange(6))
        tensor([2, 5, 3, 0, 1, 4])
    """
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))
    return rows[order.to(rows.device)]
