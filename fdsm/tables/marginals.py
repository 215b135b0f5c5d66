"""Correction of the columns of samples to the distributions of the training columns."""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

QUANTILES = 1000
MAX_DIFFERENT = 0.9
"""Columns with a larger share of different values are interpolated between training values."""


@dataclass(frozen=True)
class Marginals:
    r"""Map the numeric columns of samples to the distributions of the training columns.

    $$x_j ↦ F_j^{-1}(G_j(x_j))$$

    Here $G_j$ is the distribution of column $j$ in samples of the model, and $F_j$ that in the
    training rows. The relations between columns come from the model. Values that occur often in
    the data, such as zero or whole numbers, occur as often in the samples.

    Attributes:
        drawn: Sorted values of samples, shape `(Q, C)`.
        known: Sorted values of training rows, shape `(Q, C)`.
        repeated: Whether many training values of a column are equal, shape `(C,)`. Samples then
            have training values. Otherwise they lie between them.
        numeric: Whether a column is numeric, shape `(C,)`. Others stay as they are.

    Example:
        >>> levels = torch.arange(100) % 4  # 0, 1, 2 and 3
        >>> samples = torch.linspace(-1, 1, 100)
        >>> numeric = torch.tensor([True])
        >>> fitted = Marginals.fit(samples[:, None], levels[:, None].double(), numeric)
        >>> fitted.apply(torch.tensor([[-0.9], [-0.1], [0.1], [5.0]])).T
        tensor([[0., 1., 2., 3.]], dtype=torch.float64)
    """

    drawn: Tensor
    known: Tensor
    repeated: Tensor
    numeric: Tensor

    @classmethod
    def fit(cls, samples: Tensor, rows: Tensor, numeric: Tensor) -> Self:
        """Learn the maps.

        Args:
            samples: Codes of samples, shape `(S, C)`.
            rows: Codes of training rows, shape `(N, C)`. NaN in missing cells.
            numeric: Whether a column is numeric, shape `(C,)`.

        Returns:
            The maps.
        """
        columns = [_known_values(rows[:, j]) for j in range(rows.shape[1])]
        different = [len(torch.unique(column)) / len(column) for column in columns]
        return cls(
            torch.stack([_quantiles(samples[:, j].double()) for j in range(len(columns))], 1),
            torch.stack([_known_quantiles(column) for column in columns], 1),
            torch.tensor([share <= MAX_DIFFERENT for share in different]),
            numeric,
        )

    def apply(self, samples: Tensor) -> Tensor:
        """Return the mapped samples, shape `(n, C)`, float64."""
        result = samples.double().clone()
        last = len(self.drawn) - 1
        for j in self.numeric.nonzero().flatten().tolist():
            drawn, train = self.drawn[:, j].contiguous(), self.known[:, j]
            values = result[:, j].contiguous()
            right = torch.searchsorted(drawn, values).clamp(1, last)
            low, high = drawn[right - 1], drawn[right]
            share = ((values - low) / (high - low).clamp_min(1e-300)).clamp(0, 1)
            if bool(self.repeated[j]):
                share = share.round()
            result[:, j] = torch.lerp(train[right - 1], train[right], share)
        return result

    def nearest_known(self, codes: Tensor) -> Tensor:
        """Return codes with each number replaced by the nearest one of the training rows."""
        result = codes.double().clone()
        for j in self.numeric.nonzero().flatten().tolist():
            train = self.known[:, j].contiguous()
            right = torch.searchsorted(train, result[:, j].contiguous()).clamp(1, len(train) - 1)
            low, high = train[right - 1], train[right]
            result[:, j] = torch.where(result[:, j] - low < high - result[:, j], low, high)
        return result


def _known_values(column: Tensor) -> Tensor:
    present = column[~column.isnan()].double()
    return present if len(present) else present.new_zeros(1)


def _known_quantiles(values: Tensor) -> Tensor:
    """Return some of the values, at equally spaced ranks from the smallest to the largest."""
    return values.sort().values[_ranks(len(values)).round().long()]


def _quantiles(values: Tensor) -> Tensor:
    """Return quantiles at equally spaced ranks, interpolated if there are fewer values."""
    ordered, ranks = values.sort().values, _ranks(len(values))
    low = ranks.long()
    return torch.lerp(ordered[low], ordered[(low + 1).clamp_max(len(values) - 1)], ranks - low)


def _ranks(count: int) -> Tensor:
    return torch.linspace(0, count - 1, QUANTILES, dtype=torch.float64)
