"""A local estimate of the log-density from the distances to the nearest rows."""

from dataclasses import dataclass

import torch
from torch import Tensor

NUM_NEIGHBORS = 5
SMALLEST = 1e-3
"""Added to distances, so that copies of training rows have a finite value."""
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
        >>> neighbors.mean_log_distance(torch.tensor([[1.0]])).exp()  # (1 · 1 · 2)^(1/3)
        tensor([1.2611])
        >>> neighbors.leave_one_out().exp()  # (2 · 3)^(1/2), (2 · 1)^(1/2), (3 · 1)^(1/2)
        tensor([2.4505, 1.4153, 1.7332])
    """

    rows: Tensor

    def mean_log_distance(self, x: Tensor) -> Tensor:
        """Return $a(x)$. Larger values are farther from the rows, shape `(N, D) -> (N,)`.

        If `x` is equal to one of the rows, the distance to this row does not count. So the rows
        themselves have the same values as in `leave_one_out`.
        """
        rows, parts = self.rows.to(x.dtype), []
        count = min(NUM_NEIGHBORS + 1, len(rows))
        for part in torch.split(x, CHUNK):
            nearest = torch.cdist(part, rows, p=1.0).topk(count, largest=False).values
            values = (nearest + SMALLEST).log()
            others, all_rows = values[:, 1:].mean(1), values[:, :NUM_NEIGHBORS].mean(1)
            parts.append(torch.where(nearest[:, 0] == 0, others, all_rows))
        return torch.cat(parts)

    def leave_one_out(self) -> Tensor:
        """Return $a$ at each of the rows, without the distance to itself, shape `(R,)`."""
        return self.mean_log_distance(self.rows)
