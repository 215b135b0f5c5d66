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
        >>> neighbors.leave_one_out().exp()  # (2 · 3)^(1/2), (2 · 1)^(1/2), ...
        tensor([2.4505, 1.4153, 1.7332])
    """

    rows: Tensor

    def mean_log_distance(self, x: Tensor) -> Tensor:
        """Return $a(x)$. Larger values are farther from the rows, shape `(N, D) -> (N,)`."""
        return self._mean_log(x, skip=0)

    def leave_one_out(self) -> Tensor:
        """Return $a$ at each of the rows, without the distance to itself, shape `(R,)`."""
        return self._mean_log(self.rows, skip=1)

    def _mean_log(self, x: Tensor, skip: int) -> Tensor:
        rows, parts = self.rows.to(x.dtype), []
        count = min(NUM_NEIGHBORS + skip, len(rows))
        for part in torch.split(x, CHUNK):
            nearest = torch.cdist(part, rows, p=1.0).topk(count, largest=False).values
            parts.append((nearest[:, skip:] + SMALLEST).log().mean(1))
        return torch.cat(parts)
