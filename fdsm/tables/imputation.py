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
        chunk = max(1, CHUNK // max(len(rows), 1))
        parts = [_complete(part, rows, donors) for part in torch.split(x, chunk)]
        return torch.cat(parts, 1)


def _complete(x: Tensor, rows: Tensor, count: int) -> Tensor:
    distance = _mean_difference(x, rows)
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


def _mean_difference(x: Tensor, rows: Tensor) -> Tensor:
    """Return the mean of $|x_j - r_j|$ over the inputs that both rows have, `(N, D) -> (N, R)`."""
    own, others = x.nan_to_num(0.0), rows.nan_to_num(0.0)
    missing, missing_others = x.isnan().to(x), rows.isnan().to(x)
    count = (1 - missing) @ (1 - missing_others).T
    # Where one of the two is missing, the difference from zero does not count.
    total = torch.cdist(own, others, p=1.0) - missing @ others.abs().T
    total -= own.abs() @ missing_others.T
    return (total.clamp_min(0.0) / count).nan_to_num(torch.inf, posinf=torch.inf)


@dataclass(frozen=True)
class CompletedRows:
    """Rows whose missing cells are filled in several ways. Complete rows are stored once.

    Attributes:
        rows: The rows, filled in the first way, shape `(N, D)`.
        completions: The incomplete rows filled in C ways, shape `(C, M, D)`.
        index: Index of each row among the incomplete ones, or -1, shape `(N,)`.
    """

    rows: Tensor
    completions: Tensor
    index: Tensor

    def draw(self, chosen: Tensor, generator: Generator) -> Tensor:
        """Return rows filled in ways chosen at random, `(*B,) -> (*B, D)`."""
        result = self.rows[chosen]
        index = self.index[chosen]
        way = torch.randint(len(self.completions), index.shape, generator=generator)
        incomplete = index >= 0
        result[incomplete] = self.completions[way.to(index)[incomplete], index[incomplete]]
        return result


def fill_within_folds(x: Tensor, folds: Tensor) -> CompletedRows:
    """Fill the missing cells of rows from rows of the same fold.

    Cross-fitting leaves out one fold at a time. Filled in this way, the rows that are left contain
    nothing of the fold that was left out.

    Args:
        x: Rows, shape `(N, D)`. NaN in missing cells.
        folds: Fold of each row, shape `(N,)`.

    Returns:
        The filled rows.

    Example:
        >>> x = torch.tensor([[0.0, 10.0], [0.1, torch.nan], [0.1, 20.0]])
        >>> fill_within_folds(x, torch.tensor([0, 0, 1])).rows
        tensor([[ 0.0000, 10.0000],
                [ 0.1000, 10.0000],
                [ 0.1000, 20.0000]])
    """
    incomplete = x.isnan().any(1)
    index = torch.where(incomplete, incomplete.cumsum(0) - 1, -1)
    completions = x[incomplete].expand(DONORS, -1, -1).clone()
    for k in torch.unique(folds[incomplete]):
        chosen = folds[incomplete] == k
        completions[:, chosen] = Imputation.fit(x[folds == k]).completions(x[incomplete][chosen])
    rows = x.clone()
    rows[incomplete] = completions[0]
    return CompletedRows(rows, completions, index)
