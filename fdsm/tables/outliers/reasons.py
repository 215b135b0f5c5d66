"""Why a row is unusual: the columns whose values do not fit the rest of the row."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

NEIGHBORS = 5
"""Number of similar rows whose values are expected."""


class Reason(NamedTuple):
    """A column that makes a row unusual.

    Attributes:
        column: Name of the column.
        value: The cell as it was written.
        expected: Value of similar rows, as text. Empty if it is not known.
        share: Part of the score that is due to the column, between 0 and 1.
        is_new: Whether the value never occurred in training, although most values do.
        certainty: How sure the expected value is: the range of four fifths of the similar rows, or
            the share of similar rows that have it. Empty if it is not known.
        relation: The relation between columns that the cell breaks, or empty.
    """

    column: str
    value: str
    expected: str
    share: float
    is_new: bool = False
    certainty: str = ""
    relation: str = ""


def distance_shares(x: Tensor, rows: Tensor, blocks: Sequence[slice]) -> tuple[Tensor, Tensor]:
    """Return how much each column contributes to the distance from the nearest rows.

    This explains rows with several unusual columns, which stay unusual if one column changes.

    Args:
        x: Rows, shape `(N, D)`.
        rows: Training rows, shape `(R, D)`.
        blocks: The inputs of each of the C columns.

    Returns:
        The contributions, shape `(N, C)`, and the nearest row that differs, shape `(N, D)`.
    """
    distances = torch.cdist(x, rows, p=1.0)
    distances = distances.masked_fill(distances == 0, torch.inf)  # of a training row to itself
    nearest = distances.topk(min(NEIGHBORS, len(rows)), largest=False).indices
    difference = (x[:, None] - rows[nearest]).abs().mean(1)
    parts = [difference[:, block].sum(1) for block in blocks]
    return torch.stack(parts, 1), rows[nearest[:, 0]]
