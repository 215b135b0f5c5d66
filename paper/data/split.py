"""Split rows at random into training, validation and test."""

import numpy as np
import torch
from torch import Tensor

from .errors import DataError

MIN_ROWS = 10
"""Smallest number of rows that can be split into training, validation and test."""


def permutation(n: int, seed: int) -> Tensor:
    """Return a random permutation of `0, …, n - 1`, drawn with numpy's `RandomState`."""
    return torch.from_numpy(np.random.RandomState(seed).permutation(n))


def holdout_split(n: int, fraction: float, seed: int) -> tuple[Tensor, Tensor]:
    """Split row indices at random into two parts.

    Args:
        n: Number of rows.
        fraction: Fraction of the rows to hold out, in [0, 1).
        seed: Random seed.

    Returns:
        Indices of the remaining rows, and of the rows held out.

    Raises:
        ValueError: If `fraction` is not in [0, 1).

    Example:
        >>> [len(rows) for rows in holdout_split(60_000, 0.1, seed=2020)]
        [54000, 6000]
    """
    if not 0 <= fraction < 1:
        raise ValueError(f"the fraction to hold out must be in [0, 1), but is {fraction}")
    order, count = permutation(n, seed), _count(n, fraction)
    _require_rest(n, count)
    return order[: n - count], order[n - count :]


def train_val_test_split(
    n: int, *, validation: float, test: float, seed: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Split row indices at random into training, validation and test.

    Args:
        n: Number of rows.
        validation: Fraction of the rows for validation.
        test: Fraction of the rows for the test.
        seed: Random seed.

    Returns:
        Row indices of the three parts.

    Raises:
        ValueError: If the fractions leave no rows for training.

    Example:
        >>> [len(rows) for rows in train_val_test_split(1797, validation=0.1, test=0.1, seed=0)]
        [1439, 179, 179]
    """
    if min(validation, test) < 0 or validation + test >= 1:
        raise ValueError(
            "the fractions for validation and test must not be negative and must add up to less "
            f"than 1, but are {validation} and {test}"
        )
    order, v, t = permutation(n, seed), _count(n, validation), _count(n, test)
    _require_rest(n, v + t)
    return order[: n - v - t], order[n - v - t : n - t], order[n - t :]


def index_splits(
    x: Tensor, splits: tuple[Tensor, Tensor, Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the rows of `x` at the indices of each split."""
    train, validation, test = splits
    return x[train], x[validation], x[test]


def fixed_shuffle(rows: Tensor) -> Tensor:
    """Shuffle rows in an order that depends only on their number.

    Files are often sorted: the first half of MNIST's test images is cleaner than the second. A
    subset for an expensive evaluation is therefore taken from shuffled rows.

    Args:
        rows: Rows, shape `(N, *E)`.

    Returns:
        The same rows in another order, shape `(N, *E)`.

    Example:
        >>> fixed_shuffle(torch.arange(6))
        tensor([2, 5, 3, 0, 1, 4])
    """
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))
    return rows[order.to(rows.device)]


def _require_rest(n: int, held: int) -> None:
    if n <= held:
        raise DataError(f"{n} rows are too few to hold out {held} for validation and test")


def _count(n: int, fraction: float) -> int:
    # 1e-9: 0.1 * 70 is 7.000000000000001, and 0.29 * 100 is 28.999999999999996
    return max(int(n * fraction + 1e-9), int(fraction > 0))
