"""A local estimate of the log-density from the distances to the nearest rows."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

NUM_NEIGHBORS = 5
SMALLEST = 1e-3
"""Added to distances, so that copies of training rows have a finite value."""
DIFFERENT = 0.99
CHUNK = 1024


@dataclass(frozen=True)
class Neighbors:
    r"""The mean logarithm of the distances to the nearest rows.

    $$a(x) = \frac{1}{5} \sum_{i=1}^{5} \log(‖x - r_{(i)}‖_1 + 10^{-3})$$

    Here $r_{(1)}, r_{(2)}, …$ are the nearest rows. Up to a factor and a constant, $-a$ is the
    nearest-neighbour estimate of the log-density (Loftsgaarden and Quesenberry, 1965). The sum of
    absolute differences is less dominated by single inputs than the Euclidean distance.

    Attributes:
        rows: Rows, shape `(R, D)`.

    Example:
        >>> neighbors = Neighbors(torch.tensor([[0.0], [2.0], [3.0]]))
        >>> mean_log_distance(neighbors.nearest(torch.tensor([[1.0]]))).exp()  # (1 · 1 · 2)^(1/3)
        tensor([1.2610])
        >>> own = neighbors.nearest(neighbors.rows)
        >>> mean_log_distance(own, own[:, 0] == 0).exp()  # (2 · 3)^(1/2), (2 · 1)^(1/2), ...
        tensor([2.4505, 1.4153, 1.7332])
    """

    rows: Tensor

    @cached_property
    def are_different(self) -> bool:
        """Whether at least 99 % of the rows are different. Then a copy of a row is that row."""
        return len(torch.unique(self.rows, dim=0)) >= DIFFERENT * len(self.rows)

    def nearest(self, x: Tensor) -> Tensor:
        """Return the six smallest distances to the rows in increasing order, `(N, D) -> (N, 6)`.

        There are fewer if there are fewer rows.
        """
        rows = self.rows.to(x.dtype)
        count = min(NUM_NEIGHBORS + 1, len(rows))
        return torch.cat([
            torch.cdist(part, rows, p=1.0).topk(count, largest=False).values
            for part in torch.split(x, CHUNK)
        ])


def mean_log_distance(nearest: Tensor, copies: Tensor | None = None) -> Tensor:
    """Return $a(x)$ from the distances of `Neighbors.nearest`, shape `(N, 6) -> (N,)`.

    Args:
        nearest: The smallest distances.
        copies: Which rows are training rows, shape `(N,)`. Their distance to themselves, the
            smallest one, does not count.

    Returns:
        The mean log-distances. Larger values are farther from the rows.
    """
    logs = (nearest + SMALLEST).log()
    values = logs[:, :NUM_NEIGHBORS].mean(1)
    return values if copies is None else torch.where(copies, logs[:, 1:].mean(1), values)
