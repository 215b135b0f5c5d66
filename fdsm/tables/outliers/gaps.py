"""Combinations of missing cells that never occurred in training."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import torch
from torch import Tensor


@dataclass(frozen=True)
class GapPatterns:
    r"""Which cells are missing together in training rows.

    Of $n$ training rows, $s$ have a combination of gaps that occurs once, so the next row has a
    new one with probability about $(s + 1/2) / (n + 1)$ (Good, 1953). A gap in a column that
    never has one is such a combination. Where cells are missing at random, new ones are common.

    Attributes:
        patterns: The different combinations, shape `(P, C)`, true where a cell is missing.
        counts: How many training rows have each of them, shape `(P,)`.

    Example:
        >>> is_missing = torch.tensor([[False, False], [False, True]]).repeat(100, 1)
        >>> gaps = GapPatterns.fit(is_missing)
        >>> gaps.surprise(torch.tensor([[False, True], [True, False]]))
        tensor([0.0000, 2.6042], dtype=torch.float64)
    """

    patterns: Tensor
    counts: Tensor

    @classmethod
    def fit(cls, is_missing: Tensor) -> Self:
        """Count the combinations of the missing cells of training rows, shape `(n, C)`."""
        return cls(*torch.unique(is_missing.cpu(), dim=0, return_counts=True))

    def surprise(self, is_missing: Tensor, *, leave_one_out: bool = False) -> Tensor:
        """Return how surprising the gaps of rows are, as a decimal logarithm, `(N, C) -> (N,)`.

        Args:
            is_missing: Which cells are missing.
            leave_one_out: Whether these are training rows, which do not count themselves.

        Returns:
            Minus the logarithm of the probability of a new combination, or zero for others.
        """
        once = int((self.counts == 1).sum())
        surprise = -math.log10((once + 0.5) / (int(self.counts.sum()) + 1))
        known = self._repeated if leave_one_out else self._all
        rows = is_missing.cpu().numpy()
        is_new = torch.tensor([row.tobytes() not in known for row in rows], dtype=torch.bool)
        return surprise * is_new.to(is_missing.device, torch.float64)

    @cached_property
    def _all(self) -> set[bytes]:
        return {row.tobytes() for row in self.patterns.numpy()}

    @cached_property
    def _repeated(self) -> set[bytes]:
        return {row.tobytes() for row in self.patterns[self.counts > 1].numpy()}

    def reason(self, is_missing: Tensor) -> tuple[int, str]:
        """Return the column that is missing in the fewest training rows, and a text about its gap.

        Args:
            is_missing: The missing cells of a row with a new combination, shape `(C,)`.
        """
        gaps = (self.patterns * self.counts[:, None]).sum(0)
        j = int(gaps.where(is_missing.cpu(), self.counts.sum() + 1).argmin())
        if not int(gaps[j]):
            return j, "missing, but present in all training rows"
        return j, "missing; no training row has gaps in the same cells"
