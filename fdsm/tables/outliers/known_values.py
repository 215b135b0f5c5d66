"""Values that never occurred in training, in columns whose values repeat."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

LIMIT = 0.5
"""A new value is no surprise in columns where it is at least this likely."""


@dataclass(frozen=True)
class KnownValues:
    r"""How surprising the new values of a row are, column by column.

    The values of many columns repeat: codes, prices, amounts in whole numbers. A value that never
    occurred in such a column is suspicious, even if it lies between known values. The probability
    that the next value of column $j$ is new is estimated from the number of training values that
    occur once (Good, 1953):

    $$p_j = \frac{\#\{\text{values that occur once}\} + 1/2}{n + 1}, \qquad
    v_j(x) = \max\left(\log \frac{1/2}{p_j}, 0\right) \text{ if } x_j \text{ is new, else } 0.$$

    In a column of measurements nearly every value is new, $p_j$ is close to 1, and the column does
    not count.

    Attributes:
        columns: Indices of the columns that count, shape `(C,)`.
        surprises: $\log(1 / (2 p_j))$ of these columns, shape `(C,)`.
        values: Different values of these columns, each column in increasing order, shape `(V,)`.
        ends: Where the values of each column end in `values`, shape `(C,)`.
        once: Whether a value occurs once, shape `(V,)`.

    Example:
        >>> price = torch.tensor([5.0, 5.0, 7.0, 7.0, 9.0])
        >>> values = KnownValues.fit(torch.stack([price, torch.linspace(0, 1, 5)], 1))
        >>> values.columns  # the values of the other column do not repeat
        tensor([0])
        >>> values.surprise(torch.tensor([[7.0, 0.3], [8.0, 0.3]])).exp()  # p = 1.5 / 6
        tensor([[1., 1.],
                [2., 1.]])
    """

    columns: Tensor
    surprises: Tensor
    values: Tensor
    ends: Tensor
    once: Tensor

    @classmethod
    def fit(cls, rows: Tensor) -> Self:
        """Learn which values occur in training rows, shape `(N, D)`. NaN in missing cells."""
        columns, surprises, values, ends, once = [], [], [rows[:0, 0]], [0], [rows[:0, 0] > 0]
        for j in range(rows.shape[1]):
            cells = rows[:, j][~rows[:, j].isnan()]
            different, counts = torch.unique(cells, return_counts=True)
            p_new = (int((counts == 1).sum()) + 0.5) / (len(cells) + 1)
            if p_new < LIMIT:
                columns.append(j)
                surprises.append(math.log(LIMIT / p_new))
                values.append(different)
                ends.append(ends[-1] + len(different))
                once.append(counts == 1)
        return cls(
            torch.tensor(columns, dtype=torch.long, device=rows.device),
            torch.tensor(surprises, dtype=rows.dtype, device=rows.device),
            torch.cat(values),
            torch.tensor(ends[1:], dtype=torch.long, device=rows.device),
            torch.cat(once),
        )

    def surprise(self, x: Tensor, copies: Tensor | None = None) -> Tensor:
        """Return the surprise $v_j(x)$ of the cells of rows, shape `(N, D) -> (N, D)`.

        Args:
            x: Rows. NaN in missing cells, which are no surprise.
            copies: Which rows are training rows, shape `(N,)`. A value that occurs once is new to
                its row.

        Returns:
            One number per cell, at least zero.
        """
        result, start = torch.zeros_like(x), 0
        for j, weight, end in zip(
            self.columns.tolist(), self.surprises.tolist(), self.ends.tolist(), strict=True
        ):
            values = self.values[start:end].to(x.dtype)
            cells = x[:, j].contiguous()
            index = torch.searchsorted(values, cells).clamp_max(len(values) - 1)
            is_new = values[index] != cells
            if copies is not None:
                is_new |= self.once[start:end][index] & copies
            is_new &= ~cells.isnan()
            result[:, j] = weight * is_new
            start = end
        return result


def new_category_surprise(cells: Tensor, num_levels: Sequence[int]) -> tuple[Tensor, Tensor]:
    r"""Return how surprising a category is that never occurred in training, for each column.

    Of $n$ training rows, $s_j$ have a category that occurs once, so the next row has a new one
    with probability about $(s_j + 1/2) / (n + 1)$ (Good, 1953).

    Args:
        cells: Codes of training rows, shape `(N, C)`. NaN in missing cells.
        num_levels: Number of categories of each column, 0 for other columns.

    Returns:
        Minus the decimal logarithm of the probability, shape `(C,)`, and which cells have a
        category that occurs once, shape `(N, C)`: it would be new to a model without the row.
    """
    surprise = torch.zeros(cells.shape[1], dtype=torch.float64, device=cells.device)
    once = torch.zeros(cells.shape, dtype=torch.bool, device=cells.device)
    for j, levels in enumerate(num_levels):
        if levels:
            codes = cells[:, j].nan_to_num(levels).long()
            counts = torch.bincount(codes, minlength=levels + 1)
            once[:, j] = (counts[codes] == 1) & (codes < levels)
            surprise[j] = -math.log10((int(once[:, j].sum()) + 0.5) / (len(cells) + 1))
    return surprise, once
