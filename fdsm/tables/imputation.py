"""Filling of missing cells with values of similar rows."""

from dataclasses import dataclass, field, replace
from typing import Self

import torch
from torch import Generator, Tensor

from paper.data.transforms.transform import require_state

MAX_DONORS = 2000
"""Largest number of training rows that values are taken from."""
CHUNK = 2**23
"""Number of elements of the largest intermediate tensor."""


@dataclass(frozen=True)
class FillMissing:
    r"""Fill each missing cell with the value of a similar training row (hot-deck imputation).

    The donors of a cell are the nearest training rows in which the cell is known. The distance is
    the mean of $|x_j - r_j|$ over the inputs that both rows have. Values of real rows keep the
    relations between columns, which means of columns do not.

    Attributes:
        donors: Number of donors of each cell.
        rows: Training rows, shape `(R, D)`, with NaN in missing cells. Learned.

    Example:
        >>> x = torch.tensor([[0.0, 10.0], [1.0, 20.0], [2.0, 30.0]])
        >>> FillMissing().fit(x).deterministic(torch.tensor([[1.2, torch.nan]]))
        tensor([[ 1.2000, 20.0000]])
    """

    donors: int = 5
    rows: Tensor | None = field(default=None, repr=False, compare=False)

    def fit(self, x: Tensor) -> Self:
        """Return the transform with the rows that values are taken from."""
        if len(x) > MAX_DONORS:
            order = torch.randperm(len(x), generator=Generator().manual_seed(0))
            x = x[order[:MAX_DONORS].to(x.device)]
        return replace(self, rows=x.clone())

    def sample(self, x: Tensor, generator: Generator | None = None) -> Tensor:
        """Return the rows with each missing cell filled from one of its donors at random."""
        missing = x.isnan().any(1)
        if not bool(missing.any()):
            return x
        filled = self.completions(x[missing])
        n = filled.shape[1]
        choice = torch.randint(len(filled), (n,), generator=generator, device=x.device)
        result = x.clone()
        result[missing] = filled[choice, torch.arange(n, device=x.device)]
        return result

    def deterministic(self, x: Tensor) -> Tensor:
        """Return the rows with each missing cell filled from its nearest donor."""
        missing = x.isnan().any(1)
        if not bool(missing.any()):
            return x
        result = x.clone()
        result[missing] = replace(self, donors=1).completions(x[missing])[0]
        return result

    def completions(self, x: Tensor) -> Tensor:
        """Return the rows filled from each donor, from the nearest on, shape `(donors, N, D)`.

        All missing cells of a row that are known in the same training rows have the same donors.
        """
        (rows,) = self._learned(x)
        chunk = max(1, CHUNK // max(rows.numel(), 1))
        return torch.cat([self._complete(part, rows) for part in torch.split(x, chunk)], 1)

    def inverse(self, y: Tensor) -> Tensor:
        """Return `y`. Cells that were missing are not known any more."""
        return y

    def log_det(self, x: Tensor) -> Tensor:
        """Return zeros, shape `(N,)`."""
        return x.new_zeros(len(x))

    def state(self) -> dict[str, Tensor]:
        """Return the rows that values are taken from."""
        return {} if self.rows is None else {"rows": self.rows}

    def restore(self, state: dict[str, Tensor]) -> Self:
        """Return the transform with the rows of `state()`."""
        return replace(self, rows=require_state("FillMissing", state, "rows")[0])

    def _learned(self, x: Tensor) -> tuple[Tensor]:
        if self.rows is None:
            raise ValueError("FillMissing is not fitted: call fit(rows) first")
        return (self.rows.to(x),)

    def _complete(self, x: Tensor, rows: Tensor) -> Tensor:
        difference = (x[:, None] - rows).abs()
        distance = difference.nanmean(2).nan_to_num(torch.inf)
        result = x.expand(self.donors, *x.shape).clone()
        for j in x.isnan().any(0).nonzero().flatten().tolist():
            donors = (~rows[:, j].isnan()).nonzero().flatten()
            empty = x[:, j].isnan()
            if not len(donors):
                result[:, empty, j] = 0.0
                continue
            count = min(self.donors, len(donors))
            nearest = distance[empty][:, donors].topk(count, largest=False).indices
            slots = torch.arange(self.donors, device=x.device) % count
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
    result = x.expand(FillMissing().donors, *x.shape).clone()
    for k in torch.unique(folds):
        rows = x[folds == k]
        result[:, folds == k] = FillMissing().fit(rows).completions(rows)
    return result
