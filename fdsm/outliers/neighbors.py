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
        tensor([1.2610])
        >>> neighbors.mean_log_distance(neighbors.rows, leave_one_out=True).exp()  # (2 · 3)^(1/2)
        tensor([2.4505, 1.4153, 1.7332])
    """

    rows: Tensor

    def mean_log_distance(self, x: Tensor, *, leave_one_out: bool = False) -> Tensor:
        """Return $a(x)$. Larger values are farther from the rows, shape `(N, D) -> (N,)`.

        Args:
            x: Rows.
            leave_one_out: Whether `x` are training rows, so that the distance of a row to itself
                does not count: of the rows at distance zero, one is left out.

        Returns:
            The mean log-distances.
        """
        rows, parts = self.rows.to(x.dtype), []
        for part in torch.split(x, CHUNK):
            distances = torch.cdist(part, rows, p=1.0)
            nearest = distances.topk(min(NUM_NEIGHBORS + 1, len(rows)), largest=False).values
            logs = (nearest + SMALLEST).log()
            values = logs[:, :NUM_NEIGHBORS].mean(1)
            if leave_one_out:
                values = torch.where(nearest[:, 0] == 0, logs[:, 1:].mean(1), values)
            parts.append(values)
        return torch.cat(parts)
