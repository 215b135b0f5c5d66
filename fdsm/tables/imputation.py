"""Filling of missing cells with values of similar rows."""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Generator, Tensor

DONORS = 5
"""Number of donors of each cell."""
MAX_DONORS = 2000
"""Largest number of training rows that values are taken from."""
CHUNK = 2**23
"""Number of elements of the largest intermediate tensor."""


@dataclass(frozen=True)
class Imputation:
    r"""Fill each missing cell with the value of a similar training row (hot-deck imputation).

    The donors of a cell are the nearest training rows in which the cell is present. The distance
    is the mean of $|x_j - r_j|$ over the inputs that both rows have. Values of real rows keep the
    relations between columns, which means of columns do not.

    Attributes:
        rows: Training rows, shape `(R, D)`, with NaN in missing cells.

    Example:
        >>> x = torch.tensor([[0.0, 10.0], [1.0, 20.0], [2.0, 30.0]])
        >>> Imputation.fit(x).nearest(torch.tensor([[1.2, torch.nan]]))
        tensor([[ 1.2000, 20.0000]])
    """

    rows: Tensor

    @classmethod
    def fit(cls, x: Tensor) -> Self:
        """Return the imputation from training rows, or from a random sample of many."""
        if len(x) > MAX_DONORS:
            order = torch.randperm(len(x), generator=Generator().manual_seed(0))
            x = x[order[:MAX_DONORS].to(x.device)]
        return cls(x.clone())

    def nearest(self, x: Tensor) -> Tensor:
        """Return the rows with each missing cell filled from its nearest donor, `(N, D)`."""
        missing = x.isnan().any(1)
        if not bool(missing.any()):
            return x
        result = x.clone()
        result[missing] = self.completions(x[missing], 1)[0]
        return result

    def completions(self, x: Tensor, donors: int = DONORS) -> Tensor:
        """Return the rows filled from each donor, from the nearest on, shape `(donors, N, D)`.

        All missing cells of a row that are present in the same training rows have the same donors.
        """
        rows = self.rows.to(x)
        chunk = max(1, CHUNK // max(rows.numel(), 1))
        parts = [_complete(part, rows, donors) for part in torch.split(x, chunk)]
        return torch.cat(parts, 1)


def _complete(x: Tensor, rows: Tensor, count: int) -> Tensor:
    distance = (x[:, None] - rows).abs().nanmean(2).nan_to_num(torch.inf)
    result = x.expand(count, *x.shape).clone()
    for j in x.isnan().any(0).nonzero().flatten().tolist():
        donors = (~rows[:, j].isnan()).nonzero().flatten()
        empty = x[:, j].isnan()
        if not len(donors):
            result[:, empty, j] = 0.0
            continue
        available = min(count, len(donors))
        nearest = distance[empty][:, donors].topk(available, largest=False).indices
        slots = torch.arange(count, device=x.device) % available
        result[:, empty, j] = rows[donors, j][nearest[:, slots]].T
    return result


def fill_within_folds(x: Tensor, folds: Tensor) -> Tensor:
    """Fill the missing cells of rows from rows of the same fold.

    Cross-fitting leaves out one fold at a time. Filled in this way, the rows that are left contain
    nothing of the fold that was left out.

    Args:
        x: Rows, shape `(N, D)`. NaN in missing cells.
        folds: Fold of each row, shape `(N,)`.

    Returns:
        The rows filled in C ways, shape `(C, N, D)`. One way if nothing is missing.

    Example:
        >>> x = torch.tensor([[0.0, 10.0], [0.1, torch.nan], [0.1, 20.0]])
        >>> fill_within_folds(x, torch.tensor([0, 0, 1]))[0]
        tensor([[ 0.0000, 10.0000],
                [ 0.1000, 10.0000],
                [ 0.1000, 20.0000]])
    """
    if not bool(x.isnan().any()):
        return x[None]
    result = x.expand(DONORS, *x.shape).clone()
    for k in torch.unique(folds):
        rows = x[folds == k]
        result[:, folds == k] = Imputation.fit(rows).completions(rows)
    return result
