"""A monotone map of heavy-tailed columns towards the normal distribution."""

from dataclasses import dataclass, field, replace
from typing import Self

import torch
from torch import Generator, Tensor

from .transform import require_state

KURTOSIS = 1.0
"""Columns with a larger excess kurtosis are mapped."""
LEVELS = 10
"""Columns with at most this many different values are not mapped."""
KNOTS = 128
WEIGHT = 0.85
"""Weight of the normal scores. The rest is the identity, which keeps the map invertible and lets
outliers stay far away."""


@dataclass(frozen=True)
class NormalizeTails:
    r"""Map each heavy-tailed column towards the normal distribution, and leave all others.

    $$T(x) = (a \, q(x) + (1 - a) \, x - m) / s, \qquad a = 0.85$$

    Here $q$ is the piecewise linear function through the normal scores of the training values,
    $q(v) = Φ^{-1}(\text{rank}(v) / (n + 1))$. It has slope 1 outside the range of the training
    values. $m$ is the mean of the result, and $s$ its standard deviation, or 1 if that is smaller:
    where most values are equal, the others are not moved away. The map is strictly increasing.
    Inputs should be standardized. NaN stays NaN.

    Attributes:
        mapped: Indices of the mapped columns, shape `(M,)`. Learned.
        knots: Values of the knots, shape `(M, 128)`, increasing. Learned.
        images: $T$ at the knots, shape `(M, 128)`. Learned.
        slopes: Slopes of $T$ below and above the knots, shape `(M,)`. Learned.

    Example:
        >>> x = torch.randn(1000, 2, generator=torch.Generator().manual_seed(0)).double()
        >>> x[:, 1] = torch.special.ndtri(x[:, 1].sigmoid()).exp()
        >>> fitted = NormalizeTails().fit(x)
        >>> fitted.mapped
        tensor([1])
        >>> y = fitted.deterministic(x)
        >>> bool((fitted.inverse(y) - x).abs().max() < 1e-6)
        True
    """

    mapped: Tensor | None = field(default=None, repr=False, compare=False)
    knots: Tensor | None = field(default=None, repr=False, compare=False)
    images: Tensor | None = field(default=None, repr=False, compare=False)
    slopes: Tensor | None = field(default=None, repr=False, compare=False)

    def fit(self, x: Tensor) -> Self:
        """Return the transform with the maps of the heavy-tailed columns of `x`."""
        mapped, knots, images, slopes = [], [], [], []
        for j in range(x.shape[1]):
            values = x[:, j].double()
            values = values[~values.isnan()]
            distinct, counts = torch.unique(values, return_counts=True)
            if len(distinct) <= LEVELS or _excess_kurtosis(values) <= KURTOSIS:
                continue
            # The rank of a value that occurs several times is the mean of its ranks.
            rank = counts.cumsum(0) - (counts - 1) / 2
            blended = WEIGHT * torch.special.ndtri(rank / (len(values) + 1))
            blended += (1 - WEIGHT) * distinct
            mean = (blended * counts).sum() / len(values)
            variance = ((blended - mean).square() * counts).sum() / len(values)
            std = variance.sqrt().clamp_min(1.0)
            places = torch.linspace(0, len(distinct) - 1, KNOTS).round().long()
            chosen = torch.unique(places)
            knot, image = distinct[chosen], (blended[chosen] - mean) / std
            more = torch.arange(1, KNOTS - len(knot) + 1, dtype=torch.float64)
            mapped.append(j)
            knots.append(torch.cat([knot, knot[-1] + more]))
            images.append(torch.cat([image, image[-1] + more / std]))
            slopes.append(1 / std)
        empty = torch.zeros(0, KNOTS, dtype=torch.float64)
        return replace(
            self,
            mapped=torch.tensor(mapped, dtype=torch.long),
            knots=torch.stack(knots) if knots else empty,
            images=torch.stack(images) if images else empty,
            slopes=torch.stack(slopes) if slopes else torch.zeros(0, dtype=torch.float64),
        )

    def sample(self, x: Tensor, generator: Generator | None = None) -> Tensor:
        """Return `deterministic(x)`. The transform is not random."""
        return self.deterministic(x)

    def deterministic(self, x: Tensor) -> Tensor:
        """Return the mapped rows, shape `(N, D)`."""
        mapped, knots, images, slopes = self._learned(x)
        return _replace_columns(x, mapped, _interpolate(x[:, mapped], knots, images, slopes)[0])

    def inverse(self, y: Tensor) -> Tensor:
        """Return the rows before the map, shape `(N, D)`."""
        mapped, knots, images, slopes = self._learned(y)
        values, _ = _interpolate(y[:, mapped], images, knots, 1 / slopes)
        return _replace_columns(y, mapped, values)

    def log_det(self, x: Tensor) -> Tensor:
        r"""Return $\sum_j \log T_j'(x_j)$ over the cells that are not missing, shape `(N,)`."""
        mapped, knots, images, slopes = self._learned(x)
        _, slope = _interpolate(x[:, mapped], knots, images, slopes)
        return slope.log().nansum(1).to(x.dtype)

    def state(self) -> dict[str, Tensor]:
        """Return the learned tensors."""
        names = ("mapped", "knots", "images", "slopes")
        values = {name: getattr(self, name) for name in names}
        return {name: value for name, value in values.items() if value is not None}

    def restore(self, state: dict[str, Tensor]) -> Self:
        """Return the transform with the tensors of `state()`."""
        names = ("mapped", "knots", "images", "slopes")
        found = require_state("NormalizeTails", state, *names)
        return replace(self, **dict(zip(names, found, strict=True)))

    def _learned(self, x: Tensor) -> list[Tensor]:
        state = self.state()
        if not state:
            raise ValueError("NormalizeTails is not fitted: call fit(rows) first")
        return [value.to(x.device) for value in state.values()]


def _excess_kurtosis(values: Tensor) -> float:
    centred = values - values.mean()
    variance = centred.square().mean()
    return float(centred.pow(4).mean() / variance.square() - 3)


def _replace_columns(x: Tensor, columns: Tensor, values: Tensor) -> Tensor:
    result = x.clone()
    result[:, columns] = values.to(x.dtype)
    return result


def _interpolate(x: Tensor, knots: Tensor, images: Tensor, ends: Tensor) -> tuple[Tensor, Tensor]:
    """Return the piecewise linear function and its slope at each cell, shape `(N, M)` each.

    Args:
        x: The cells, shape `(N, M)`.
        knots: Increasing knots of each column, shape `(M, L)`.
        images: Values at the knots, shape `(M, L)`.
        ends: Slopes outside the knots, shape `(M,)`.

    Returns:
        Values and slopes.
    """
    cells = x.double().T.contiguous()
    right = torch.searchsorted(knots, cells).clamp(0, knots.shape[1])
    inside = right.clamp(1, max(knots.shape[1] - 1, 1))
    low, high = knots.gather(1, inside - 1), knots.gather(1, inside)
    start, end = images.gather(1, inside - 1), images.gather(1, inside)
    slope = (end - start) / (high - low)
    below, above = right == 0, right == knots.shape[1]
    slope = torch.where(below | above, ends[:, None], slope)
    anchor, value = torch.where(above, high, low), torch.where(above, end, start)
    slope = torch.where(cells.isnan(), torch.nan, slope)
    return (value + slope * (cells - anchor)).T, slope.T
