"""Why a row is unusual: the columns whose values do not fit the rest of the row."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

NEIGHBORS = 5
"""Number of similar rows whose values are expected."""


class Reason(NamedTuple):
    """A column that makes a row unusual.

    Attributes:
        column: Name of the column.
        value: Value of the cell, as text.
        expected: Value of similar rows, as text. Empty if it is not known.
        share: Part of the score that is due to the column, between 0 and 1.
        is_new: Whether the value never occurred in training, although most values do.
    """

    column: str
    value: str
    expected: str
    share: float
    is_new: bool = False


def expected_inputs(x: Tensor, rows: Tensor, blocks: Sequence[slice]) -> Tensor:
    """Return the value that similar rows have in each column.

    The rows similar to `x` with respect to a column are the nearest ones in all other columns. The
    expected value is their median. For a category it is the most frequent one.

    Args:
        x: Rows, shape `(N, D)`.
        rows: Training rows, shape `(R, D)`.
        blocks: The inputs of each of the C columns.

    Returns:
        For each column the rows of `x` with the expected value in it, shape `(C, N, D)`.
    """
    result = x.expand(len(blocks), *x.shape).clone()
    total = torch.cdist(x, rows, p=1.0)
    for j, block in enumerate(blocks):
        others = total - torch.cdist(x[:, block], rows[:, block], p=1.0)
        nearest = others.topk(min(NEIGHBORS, len(rows)), largest=False).indices
        values = rows[nearest][..., block]  # (N, 5, inputs of the block)
        if values.shape[2] == 1:
            result[j, :, block] = values.median(1).values
        else:
            best = values.argmax(2).mode(1).values
            donor = (values.argmax(2) == best[:, None]).to(torch.uint8).argmax(1)
            result[j, :, block] = values[torch.arange(len(x), device=x.device), donor]
    return result


def score_gains(
    score: Callable[[Tensor], Tensor], scores: Tensor, expected: Tensor, present: Tensor
) -> Tensor:
    """Return how much the score falls if a column has its expected value.

    Args:
        score: The outlier score of rows, `(N, D) -> (N,)`.
        scores: The scores of the rows, shape `(N,)`.
        expected: Rows with the expected value of each column, shape `(C, N, D)`.
        present: Whether the cell of a row is present, shape `(N, C)`. Other cells are no reasons.

    Returns:
        The gain of each column, at least zero, shape `(N, C)`.
    """
    changed = score(expected.flatten(0, 1)).view(len(expected), len(scores))
    gains = (scores - changed).T.clamp_min(0.0)
    return torch.where(present, gains, 0.0)


def distance_shares(x: Tensor, rows: Tensor, blocks: Sequence[slice]) -> tuple[Tensor, Tensor]:
    """Return how much each column contributes to the distance from the nearest rows.

    This explains rows with several unusual columns, which stay unusual if one column changes.

    Args:
        x: Rows, shape `(N, D)`.
        rows: Training rows, shape `(R, D)`.
        blocks: The inputs of each of the C columns.

    Returns:
        The contributions, shape `(N, C)`, and the nearest row, shape `(N, D)`.
    """
    nearest = torch.cdist(x, rows, p=1.0).topk(min(NEIGHBORS, len(rows)), largest=False).indices
    difference = (x[:, None] - rows[nearest]).abs().mean(1)
    parts = [difference[:, block].sum(1) for block in blocks]
    return torch.stack(parts, 1), rows[nearest[:, 0]]
