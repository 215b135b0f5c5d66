"""Outlier scores and p-values from values of held-out rows."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import torch
from torch import Tensor

TAIL = 0.1
"""Share of the held-out rows to which the exponential tail is fitted, on each side."""
MIN_TAIL_ROWS = 5
"""Smallest number of rows to which it is fitted. With fewer than 50 rows the share is larger."""
LN_10 = math.log(10)
HIGH_DENSITY = 0.02
"""Share of the significance level that is spent on rows of suspiciously high density."""


@dataclass(frozen=True)
class Calibration:
    r"""Combine several measures of how unusual a row is, and calibrate them on held-out rows.

    Each measure is centered and scaled by the median and the range from the 10 % to the 90 %
    quantile over held-out rows. A weighted sum $z$ is large where the density is low. A row may
    also be suspicious because its density is too high, for example if a sensor is stuck at the
    mean. This is another test, with another sum $h$. Their p-values are combined by a weighted
    Bonferroni correction:

    $$\text{score}(x) = -\log_{10} \min\left(\frac{P(Z ≥ z)}{0.98}, \frac{P(H ≤ h)}{0.02}\right)$$

    The distributions of $Z$ and $H$ are those of held-out rows, with exponential tails beyond all
    of them. A score $s$ of 3 means: as unusual as one row in 1,000. A larger one than
    $e = \log_{10}(n + 1)$ cannot be learned from $n$ rows. It becomes $e + \log_{10}(1 + s - e)$,
    so a row whose score is larger by 1 is about ten times as far beyond the data.

    With $K$ folds, fold $k$ has its own measures from a model that has not seen the rows of the
    fold. The score is the mean over folds, and the p-value is the cross-conformal one (Vovk, 2015,
    https://arxiv.org/abs/1208.0806):

    $$p(x) = \frac{1 + \sum_k \#\{i ∈ \text{fold } k : s_i ≥ s_k(x)\}}{n + 1}$$

    Attributes:
        weights: Weights of the measures in $z$ and in $h$, shape `(2, M)`.
        center: Medians of the measures over held-out rows, shape `(M,)`.
        scale: Ranges of the measures over held-out rows, shape `(M,)`.
        held_out: Values $z$ and $h$ of the held-out rows, shape `(2, n)`.
        folds: Fold of each held-out row, shape `(n,)`.

    Example:
        >>> z = torch.linspace(-1, 1, 999)[None]
        >>> calibration = Calibration.fit(z, torch.zeros(999, dtype=torch.long), torch.ones(2, 1))
        >>> rows = torch.tensor([[[0.0, 1.5, -1.5]]])  # typical, low density, high density
        >>> calibration.p_value(rows)
        tensor([0.5100, 0.0010, 0.0010], dtype=torch.float64)
    """

    weights: Tensor
    center: Tensor
    scale: Tensor
    held_out: Tensor
    folds: Tensor

    @classmethod
    def fit(
        cls, values: Tensor, folds: Tensor, weights: Tensor, smallest_scale: Tensor | float = 0.0
    ) -> Self:
        """Calibrate measures on held-out rows.

        Args:
            values: Measures of held-out rows, shape `(M, n)`, each by the model of the row's fold.
            folds: Fold of each row, shape `(n,)`.
            weights: Weights of the measures in $z$ and in $h$, shape `(2, M)`.
            smallest_scale: Smallest scale of each measure, shape `(M,)`. Measures with a smaller
                range are not stretched.

        Returns:
            The calibration.
        """
        values, weights = values.double(), weights.double()
        center = values.median(1).values
        low, high = (values.quantile(q, 1) for q in (0.1, 0.9))
        scale = torch.maximum(high - low, torch.as_tensor(smallest_scale).to(values))
        scale = torch.where(scale > 0, scale, 1.0)
        z = weights @ ((values - center[:, None]) / scale[:, None])
        return cls(weights, center, scale, z, folds)

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
        return count / (len(self.folds) + 1)

    def held_out_p_values(self) -> Tensor:
        """Return the p-value of each held-out row by the rows of the other folds, shape `(n,)`.

        With a single fold, by all other rows. They are uniform if the calibration is right.
        """
        scores = self.held_out_scores()
        result = torch.empty_like(scores)
        for k in range(self.num_folds):
            own = self.folds == k
            others = (scores if self.num_folds == 1 else scores[~own]).sort().values
            count = len(others) - torch.searchsorted(others, scores[own])
            itself = int(self.num_folds > 1)  # with a single fold it is among `others` already
            result[own] = (count + itself).double() / (len(others) + itself)
        return result

    def held_out_scores(self) -> Tensor:
        """Return the scores of the held-out rows, shape `(n,)`."""
        return self._score(self.held_out)

    @cached_property
    def _sorted_scores(self) -> list[Tensor]:
        """Scores of the held-out rows of each fold, in increasing order."""
        scores = self.held_out_scores()
        return [scores[self.folds == k].sort().values for k in range(self.num_folds)]

    def _score(self, z_and_h: Tensor) -> Tensor:
        """Return the score of $z$ and $h$, shape `(2, *N) -> (*N)`."""
        z, h = z_and_h
        low_density = _log_tail(-self.held_out[0], -z) - math.log(1 - HIGH_DENSITY)
        high_density = _log_tail(self.held_out[1], h) - math.log(HIGH_DENSITY)
        score = -torch.minimum(low_density, high_density) / LN_10
        end = math.log10(len(self.folds) + 1)
        return torch.where(score > end, end + (score - end).clamp_min(0.0).log1p() / LN_10, score)


def _log_tail(held_out: Tensor, z: Tensor) -> Tensor:
    r"""Return $\log P(Z ≤ z)$ from held-out values, with an exponential tail below all of them.

    At the $i$-th smallest of $n$ values it is $\log(i / (n + 1))$, and linear in between. Below
    the smallest one, $z_1$, it is $-\log(n + 1) - (z_1 - z) / a$ for the mean distance $a$ of the
    smallest tenth of the values to the largest of them.
    """
    ordered = held_out.sort().values
    n = len(ordered)
    values, counts = torch.unique_consecutive(ordered, return_counts=True)
    log_p = (counts.cumsum(0).to(z) / (n + 1)).log()
    upper = torch.searchsorted(values, z.contiguous()).clamp_max(len(values) - 1)
    lower = (upper - 1).clamp_min(0)
    gap = (values[upper] - values[lower]).clamp_min(1e-300)
    share = ((z - values[lower]) / gap).clamp(0, 1)
    inside = torch.lerp(log_p[lower], log_p[upper], share)
    limit = ordered[max(int(TAIL * n + 1e-9), min(MIN_TAIL_ROWS, n)) - 1]
    excess = (limit - ordered[ordered <= limit]).mean()
    excess = excess.clamp_min(1e-6 * (ordered[-1] - ordered[0]) + 1e-12)
    return torch.where(z < values[0], -math.log(n + 1) - (values[0] - z) / excess, inside)
