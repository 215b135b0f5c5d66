"""A local estimate of the log-density from the distances to the nearest rows."""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Generator, Tensor

MAX_ROWS = 4000
"""Largest number of rows that distances are computed to."""
NUM_NEIGHBORS = 5
SMALLEST = 1e-3
"""Added to distances, so that copies of training rows have a finite value."""
CHUNK = 1024


@dataclass(frozen=True)
class Neighbors:
    r"""The mean logarithm of the distances to the nearest rows outside a fold.

    $$a_k(x) = \frac{1}{5} \sum_{i=1}^{5} \log(‖x - r_{(i)}‖_1 + 10^{-3})$$

    Here $r_{(1)}, r_{(2)}, …$ are the nearest rows that are not in fold $k$. Up to a factor and a
    constant, $-a_k$ is the nearest-neighbour estimate of the log-density (Loftsgaarden and
    Quesenberry, 1965). The sum of absolute differences is less dominated by single inputs than
    the Euclidean distance.

    Attributes:
        rows: Rows, shape `(R, D)`.
        folds: Fold of each row, from 0 to `K - 1`, shape `(R,)`.

    Example:
        >>> rows = torch.tensor([[0.0], [1.0], [2.0], [3.0]])
        >>> neighbors = Neighbors(rows, torch.tensor([0, 0, 1, 1]))
        >>> value = neighbors.mean_log_distance(torch.tensor([[0.0]]), 2)
        >>> value.exp().round(decimals=2)  # from 0 to 2 and 3, and from 0 to 0 and 1
        tensor([[2.4500],
                [0.0300]])
    """

    rows: Tensor
    folds: Tensor

    @classmethod
    def fit(cls, rows: Tensor, folds: Tensor, generator: Generator | None = None) -> Self:
        """Return the estimate for rows, at most `MAX_ROWS` of them at random."""
        if len(rows) > MAX_ROWS:
            order = torch.randperm(len(rows), generator=generator, device=rows.device)[:MAX_ROWS]
            rows, folds = rows[order], folds[order]
        return cls(rows, folds)

    def mean_log_distance(self, x: Tensor, num_folds: int) -> Tensor:
        """Return $a_k(x)$ for each fold. Larger values are farther from the rows.

        Args:
            x: Rows, shape `(N, D)`.
            num_folds: Number of folds, K.

        Returns:
            Values of shape `(K, N)`.
        """
        outside = [self.folds != k for k in range(num_folds)]
        if num_folds == 1:
            outside = [torch.ones_like(self.folds, dtype=torch.bool)]
        parts = []
        for part in torch.split(x, CHUNK):
            distances = torch.cdist(part, self.rows.to(part.dtype), p=1.0)
            nearest = [
                distances[:, rows].topk(min(NUM_NEIGHBORS, int(rows.sum())), largest=False).values
                for rows in outside
            ]
            parts.append(torch.stack([(d + SMALLEST).log().mean(1) for d in nearest]))
        return torch.cat(parts, 1) if parts else x.new_empty(num_folds, 0)
