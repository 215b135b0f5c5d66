"""From the codes of a table to the inputs of a network, and back."""

from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple, Self

import torch
from torch import Tensor

from .heavy_tails import NormalizeTails

LARGEST = 1e6
"""Inputs are clipped here, so that densities of rows that are extremely far away are finite."""
CHUNK = 2**20
"""Number of cells that are sorted at once."""
ROWS = 2**14
"""Number of rows that are encoded at once."""


class _Layout(NamedTuple):
    """For each of the D model inputs: its column, and what it is.

    Attributes:
        blocks: Model inputs of each column.
        column: Index of the column, shape `(D,)`.
        level: Level of a one-hot input, shape `(D,)`. -1 for other inputs.
        binary: Whether the column has two categories, shape `(D,)`.
        numeric: Whether the column is numeric, shape `(D,)`.
    """

    blocks: tuple[slice, ...]
    column: Tensor
    level: Tensor
    binary: Tensor
    numeric: Tensor


@lru_cache(maxsize=32)
def _layout(num_levels: tuple[int, ...]) -> _Layout:
    widths = [1 if count <= 2 else count for count in num_levels]
    ends = list(accumulate(widths))
    blocks = tuple(slice(end - width, end) for end, width in zip(ends, widths, strict=True))
    column = torch.repeat_interleave(torch.tensor(widths, dtype=torch.long))
    levels = torch.tensor(num_levels, dtype=torch.long)[column]
    first = torch.tensor([block.start for block in blocks], dtype=torch.long)[column]
    level = torch.where(levels > 2, torch.arange(len(column)) - first, -1)
    return _Layout(blocks, column, level, levels == 2, levels == 0)


@dataclass(frozen=True)
class EncodeColumns:
    r"""Map the codes of a table, shape `(N, C)`, to model inputs, shape `(N, D)`.

    - A numeric column becomes $(x - m) / s$ with the mean and standard deviation of the training
      cells that are not missing. The scale $s$ is at least half the smallest difference of two
      values, so that the rare values of a column that is nearly constant stay close.
    - A column of two categories becomes one input: $t = -1$ or $1$, minus its mean.
    - A column of $K > 2$ categories becomes $K$ inputs $e_k - p$, where $e_k$ is the one-hot
      vector and $p$ has the frequencies of the categories. The sum of the absolute differences of
      two categories is always 2. The inverse is the largest element of $y + p$.
    - A missing cell, NaN, becomes NaN in all inputs of the column.

    A scale that would be zero is 1. Inputs are float32, so that the same cell always has the same
    input; learned numbers and intermediate results are float64. `log_det` is that of the numeric
    cells that are not missing. Categories contribute nothing: their density is that of the encoded
    values.

    Attributes:
        num_levels: Number of categories of each column, 0 for a numeric one.
        mean: Shift of each model input, shape `(D,)`.
        scale: Scale of each model input, shape `(D,)`.

    Example:
        >>> codes = torch.tensor([[1.0, 0.0], [3.0, 1.0], [torch.nan, 2.0]])
        >>> fitted = EncodeColumns.fit(codes, (0, 3))
        >>> fitted.blocks
        (slice(0, 1, None), slice(1, 4, None))
        >>> fitted(codes)
        tensor([[-1.0000,  0.6667, -0.3333, -0.3333],
                [ 1.0000, -0.3333,  0.6667, -0.3333],
                [    nan, -0.3333, -0.3333,  0.6667]])
        >>> fitted.inverse(fitted(codes)).tolist()
        [[1.0, 0.0], [3.0, 1.0], [nan, 2.0]]
    """

    num_levels: tuple[int, ...]
    mean: Tensor
    scale: Tensor

    @classmethod
    def fit(cls, x: Tensor, num_levels: tuple[int, ...]) -> Self:
        """Return the transform with the means and scales of the codes that are not missing.

        Args:
            x: Codes of the training rows, shape `(N, C)`. NaN in missing cells.
            num_levels: Number of categories of each column, 0 for a numeric one.

        Returns:
            The transform.

        Raises:
            ValueError: If a column has one category.
        """
        if any(k < 0 or k == 1 for k in num_levels):
            raise ValueError(
                f"num_levels must be 0 for numbers or at least 2, but are {num_levels}"
            )
        levels, layout = num_levels, _layout(num_levels)
        mean = torch.zeros(len(layout.column), dtype=torch.float64, device=x.device)
        scale = torch.ones_like(mean)
        for column, count, block in zip(x.T, levels, layout.blocks, strict=True):
            if count:
                mean[block] = _category_means(column, count)
        is_numeric = layout.numeric.to(x.device)
        numbers = x.double()[:, torch.tensor(levels, device=x.device) == 0]
        mean[is_numeric] = numbers.nanmean(0).nan_to_num(0.0)
        variance = (numbers - mean[is_numeric]).square().nanmean(0).nan_to_num(0.0)
        together = max(CHUNK // max(len(x), 1), 1)
        parts = [_smallest_differences(part) for part in torch.split(numbers, together, 1)]
        scale[is_numeric] = torch.maximum(variance.sqrt(), torch.cat(parts) / 2)
        return cls(levels, mean, torch.where(scale > 0, scale, 1.0))

    @property
    def blocks(self) -> tuple[slice, ...]:
        """The model inputs of each column."""
        return _layout(self.num_levels).blocks

    def __call__(self, x: Tensor) -> Tensor:
        """Return model inputs, shape `(N, D)`."""
        mean, scale = self.mean.to(x.device), self.scale.to(x.device)
        result = torch.empty(len(x), len(mean), dtype=torch.float32, device=x.device)
        for start in range(0, len(x), ROWS):  # intermediate results are float64
            part = slice(start, start + ROWS)
            result[part] = ((self._expand(x[part]) - mean) / scale).clamp(-LARGEST, LARGEST)
        return result

    def inverse(self, y: Tensor) -> Tensor:
        """Return codes, shape `(N, C)`, float64. Categories are integers."""
        mean, scale = self.mean.to(y.device), self.scale.to(y.device)
        values = y.double() * scale + mean
        codes = values[:, [block.start for block in self.blocks]]
        for i, (count, block) in enumerate(zip(self.num_levels, self.blocks, strict=True)):
            if count:
                inputs = values[:, block]
                code = inputs[:, 0] > 0 if count == 2 else inputs.argmax(1)
                codes[:, i] = torch.where(inputs.isnan().any(1), torch.nan, code.double())
        return codes

    def log_det(self, x: Tensor) -> Tensor:
        """Return minus the sum of the logarithms of the scales of numeric cells, shape `(N,)`."""
        layout = _layout(self.num_levels)
        numeric = layout.numeric.to(x.device)
        present = ~x.double()[:, layout.column.to(x.device)][:, numeric].isnan()
        log_scale = self.scale.to(x.device)[numeric].log()
        return -(present * log_scale).sum(1)

    def _expand(self, x: Tensor) -> Tensor:
        """Return numbers, -1 or 1, and one-hot vectors, shape `(N, D)`, float64."""
        layout = _layout(self.num_levels)
        level = layout.level.to(x.device)
        codes = x.double()[:, layout.column.to(x.device)]
        one_hot = torch.where(codes.isnan(), codes, codes.eq(level).double())
        values = torch.where(level >= 0, one_hot, codes)
        return torch.where(layout.binary.to(x.device), 2 * codes - 1, values)


def _category_means(column: Tensor, count: int) -> Tensor:
    """Return the mean of the inputs of a column of categories, before it is subtracted.

    These are the frequencies of the categories, or of two categories the difference of theirs.
    Counting them needs no inputs, which take `count` times the memory of the column.
    """
    present = column[~column.isnan()].long()
    cells = torch.bincount(present, minlength=count).double()
    cells = cells[1:] - cells[:1] if count == 2 else cells
    return cells / max(len(present), 1)


def _smallest_differences(columns: Tensor) -> Tensor:
    """Return the smallest difference of two values of each column, or zero if there is none."""
    differences = columns.sort(0).values.diff(dim=0)  # NaN is last
    last = columns.new_full((1, columns.shape[1]), torch.inf)
    smallest = torch.cat([differences.where(differences > 0, torch.inf), last]).amin(0)
    return smallest.where(smallest.isfinite(), 0.0)


@dataclass(frozen=True)
class Encoder:
    """Codes of a table as inputs of a network: `EncodeColumns`, then `NormalizeTails`.

    Attributes:
        columns: Numbers, categories and missing cells.
        tails: The map of columns with heavy tails.
    """

    columns: EncodeColumns
    tails: NormalizeTails

    @classmethod
    def fit(cls, codes: Tensor, num_levels: tuple[int, ...]) -> Self:
        """Learn both steps from the codes of training rows, shape `(N, C)`."""
        columns = EncodeColumns.fit(codes, num_levels)
        return cls(columns, NormalizeTails.fit(columns(codes)))

    @property
    def blocks(self) -> tuple[slice, ...]:
        """The model inputs of each column."""
        return self.columns.blocks

    @property
    def dimension(self) -> int:
        """Number of model inputs, D."""
        return len(self.columns.mean)

    def __call__(self, codes: Tensor) -> Tensor:
        """Return model inputs, `(N, C) -> (N, D)`. NaN in all inputs of a missing cell."""
        return self.tails(self.columns(codes))

    def inverse(self, inputs: Tensor) -> Tensor:
        """Return codes, `(N, D) -> (N, C)`, float64."""
        return self.columns.inverse(self.tails.inverse(inputs))

    def log_det(self, codes: Tensor) -> Tensor:
        r"""Return $\log|\det T'(x)|$ over numeric cells that are not missing, shape `(N,)`."""
        return self.columns.log_det(codes) + self.tails.log_det(self.columns(codes))
