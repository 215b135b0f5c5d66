"""Outlier scores and p-values from values of held-out rows."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import torch
from torch import Tensor

from .tail import UpperTails


@dataclass(frozen=True)
class Calibration:
    r"""Combine several measures of how unusual a row is, and calibrate them on held-out rows.

    Each measure is centered and scaled by the median and the range from the 10 % to the 90 %
    quantile over held-out rows. A test $t$ is a weighted sum $z_t$ that is large for unusual rows.
    The p-values of several tests are combined by a weighted Bonferroni correction, with the share
    $w_t$ of the significance level for each test:

    $$\text{score}(x) = -\log_{10} \min_t \frac{P(Z_t ≥ z_t)}{w_t}$$

    The distributions of $Z_t$ are those of held-out rows, with exponential tails beyond all of
    them. A score $s$ of 3 means: as unusual as one row in 1,000. A larger one than
    $e = \log_{10}(n + 1)$ cannot be learned from $n$ rows. It becomes $e + \log_{10}(1 + s - e)$,
    so a row whose score is larger by 1 is about ten times as far beyond the data.

    With $K$ folds, fold $k$ has its own measures from a model that has not seen the rows of the
    fold. The score is the mean over folds, and the p-value is the cross-conformal one (Vovk, 2015,
    https://arxiv.org/abs/1208.0806):

    $$p(x) = \frac{1 + \sum_k \#\{i ∈ \text{fold } k : s_i ≥ s_k(x)\}}{n + 1}$$

    Attributes:
        weights: Weights of the measures in each test, shape `(T, M)`.
        shares: Shares of the significance level, shape `(T,)`.
        center: Medians of the measures over held-out rows, shape `(M,)`.
        scale: Ranges of the measures over held-out rows, shape `(M,)`.
        held_out: Values $z_t$ of the held-out rows, shape `(T, n)`.
        folds: Fold of each held-out row, shape `(n,)`.
        kept: Whether a held-out row counts in the distributions, shape `(n,)`. Errors do not.

    Example:
        >>> z = torch.linspace(-1, 1, 999)[None]
        >>> tests = torch.tensor([[1.0], [-1.0]])  # large values, and small values
        >>> folds = torch.zeros(999, dtype=torch.long)
        >>> calibration = Calibration.fit(z, folds, tests, torch.tensor([0.9, 0.1]))
        >>> calibration.p_value(torch.tensor([[[0.0, 1.5, -1.5]]]))
        tensor([0.5550, 0.0010, 0.0010], dtype=torch.float64)
    """

    weights: Tensor
    shares: Tensor
    center: Tensor
    scale: Tensor
    held_out: Tensor
    folds: Tensor
    kept: Tensor

    @classmethod
    def fit(
        cls,
        values: Tensor,
        folds: Tensor,
        weights: Tensor,
        shares: Tensor,
        smallest_scale: Tensor | float = 0.0,
        kept: Tensor | None = None,
    ) -> Self:
        """Calibrate measures on held-out rows.

        Args:
            values: Measures of held-out rows, shape `(M, n)`, each by the model of the row's fold.
            folds: Fold of each row, shape `(n,)`.
            weights: Weights of the measures in each test, shape `(T, M)`.
            shares: Shares of the significance level, shape `(T,)`. Their sum is 1.
            smallest_scale: Smallest scale of each measure, shape `(M,)`. Measures with a smaller
                range are not stretched.
            kept: Which held-out rows count, shape `(n,)`. Default: all.

        Returns:
            The calibration.
        """
        values, weights = values.double(), weights.double()
        center = values.median(1).values
        low, high = (values.quantile(q, 1) for q in (0.1, 0.9))
        scale = torch.maximum(high - low, torch.as_tensor(smallest_scale).to(values))
        scale = torch.where(scale > 0, scale, 1.0)
        z = weights @ ((values - center[:, None]) / scale[:, None])
        kept = torch.ones_like(folds, dtype=torch.bool) if kept is None else kept
        return cls(weights, shares.to(z), center, scale, z, folds, kept)

    @property
    def num_folds(self) -> int:
        """Number of folds, K."""
        return int(self.folds.max()) + 1

    def fold_scores(self, values: Tensor) -> Tensor:
        """Return the score by each fold, shape `(M, K, N) -> (K, N)`."""
        center, scale = self.center[:, None, None], self.scale[:, None, None]
        standardized = (values.double() - center) / scale
        return self._score(torch.einsum("tm,mkn->tkn", self.weights, standardized))

    def score(self, values: Tensor) -> Tensor:
        """Return the mean score over the folds, shape `(M, K, N) -> (N,)`."""
        return self.fold_scores(values).mean(0)

    def p_value(self, values: Tensor) -> Tensor:
        """Return the cross-conformal p-value, shape `(M, K, N) -> (N,)`."""
        new = self.fold_scores(values)
        count = torch.ones_like(new[0])
        for fold, own in zip(self._sorted_scores, new, strict=True):
            count += len(fold) - torch.searchsorted(fold, own.contiguous())
        return count / (int(self.kept.sum()) + 1)

    def held_out_p_values(self) -> Tensor:
        """Return the p-value of each held-out row by the rows of the other folds, shape `(n,)`.

        With a single fold, by all other rows. They are uniform if the calibration is right.
        """
        scores = self.held_out_scores()
        result = torch.empty_like(scores)
        for k in range(self.num_folds):
            own = self.folds == k
            others = scores[self.kept & (~own if self.num_folds > 1 else own)].sort().values
            count = len(others) - torch.searchsorted(others, scores[own])
            # With a single fold, a row that is kept is among `others` already.
            itself = (~self.kept[own] if self.num_folds == 1 else torch.ones_like(count)).long()
            result[own] = (count + itself).double() / (len(others) + itself)
        return result

    def held_out_scores(self) -> Tensor:
        """Return the scores of the held-out rows, shape `(n,)`."""
        return self._score(self.held_out)

    @cached_property
    def _sorted_scores(self) -> list[Tensor]:
        """Scores of the held-out rows of each fold, in increasing order."""
        scores = self.held_out_scores()
        own = [self.kept & (self.folds == k) for k in range(self.num_folds)]
        return [scores[chosen].sort().values for chosen in own]

    @cached_property
    def _tails(self) -> UpperTails:
        return UpperTails.fit(list(self.held_out[:, self.kept]))

    def _score(self, z: Tensor) -> Tensor:
        """Return the score of the values of the tests, shape `(T, *N) -> (*N)`."""
        log_p = self._tails.log10(z.movedim(0, -1)) - self.shares.log10()
        score = -log_p.amin(-1)
        end = math.log10(int(self.kept.sum()) + 1)
        beyond = (score - end).clamp_min(0.0).log1p() / math.log(10)
        return torch.where(score > end, end + beyond, score)
