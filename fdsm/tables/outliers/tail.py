"""Probabilities of large values, from a sample."""

import math
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

TAIL = 0.1
"""Share of a sample to which the exponential tail is fitted."""
MIN_TAIL_ROWS = 5
"""Smallest number of values to which it is fitted. In a sample below 50 the share is larger."""
SMALLEST_EXCESS = 0.01
"""Smallest mean excess. It is that of samples whose largest values are equal."""
POINTS = 2000
"""Number of values that are kept of a sample: the largest ones, and fewer of the others."""


@dataclass(frozen=True)
class UpperTails:
    r"""Estimates of $P(Z ≥ z)$ for several variables, with exponential tails beyond the samples.

    At the $i$-th largest of $n$ values the probability is $i / (n + 1)$. In between, its logarithm
    is linear. Above the largest value $z_1$, it is $P(Z ≥ z_1) \exp(-(z - z_1) / a)$ for the mean
    excess $a$ of the largest tenth of the values over the smallest of them, at least 0.01.

    Attributes:
        values: Values of each sample in increasing order, shape `(V, Q)`.
        log_p: Logarithm of the probability of each value, shape `(V, Q)`.
        excess: The mean excess $a$, shape `(V,)`.

    Example:
        >>> tails = UpperTails.fit([torch.linspace(0, 1, 99)])
        >>> -tails.log10(torch.tensor([[1.0], [0.5]]))
        tensor([[2.0000],
                [0.3010]], dtype=torch.float64)
    """

    values: Tensor
    log_p: Tensor
    excess: Tensor

    @classmethod
    def fit(cls, samples: list[Tensor]) -> Self:
        """Learn the probabilities from a sample of each variable. It may not be empty."""
        parts = [_tail(sample.double().sort().values) for sample in samples]
        values, log_p, excess = zip(*parts, strict=True)
        return cls(torch.stack(values), torch.stack(log_p), torch.stack(excess))

    def __getitem__(self, variables: slice) -> Self:
        """Return the estimates for some of the variables."""
        return type(self)(self.values[variables], self.log_p[variables], self.excess[variables])

    def log10(self, z: Tensor) -> Tensor:
        """Return the decimal logarithm of $P(Z ≥ z)$, shape `(*N, V) -> (*N, V)`, float64."""
        columns = [self._log(v, z[..., v].double().contiguous()) for v in range(len(self.values))]
        return torch.stack(columns, -1) / math.log(10)

    def _log(self, variable: int, z: Tensor) -> Tensor:
        values, log_p = self.values[variable], self.log_p[variable]
        upper = torch.searchsorted(values, z).clamp_max(len(values) - 1)
        # Of equal values, the first one has the probability of all.
        lower = torch.searchsorted(values, values[(upper - 1).clamp_min(0)])
        gap = (values[upper] - values[lower]).clamp_min(1e-300)
        share = ((z - values[lower]) / gap).clamp(0, 1)
        beyond = log_p[-1] - (z - values[-1]) / self.excess[variable]
        return torch.where(z > values[-1], beyond, torch.lerp(log_p[lower], log_p[upper], share))


def _tail(ordered: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the values, probabilities and mean excess of a sample in increasing order."""
    n = len(ordered)
    ranks = torch.logspace(math.log10(n), 0, POINTS, dtype=torch.float64).round().long()
    ranks = ranks.clamp(1, n).to(ordered.device)
    values = ordered[n - ranks]
    first = torch.searchsorted(ordered, values)  # with the equal ones that were left out
    log_p = ((n - first).double() / (n + 1)).log()
    count = max(int(TAIL * n + 1e-9), min(MIN_TAIL_ROWS, n))
    limit = ordered[n - count]
    excess = (ordered[ordered >= limit] - limit).mean()
    return values, log_p, excess.clamp_min(SMALLEST_EXCESS)
