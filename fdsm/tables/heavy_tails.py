"""A monotone map of heavy-tailed columns toward the normal distribution."""

from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from torch import Tensor

TAIL_WEIGHT = 1.1
"""Columns whose tails are heavier, relative to those of the normal distribution, are mapped."""
LEVELS = 10
"""Columns with at most this many different values are not mapped."""
OUTER_SHARE, OUTER_ROWS = 0.01, 10
"""Smallest share and number of training values beyond the outer knots, on each side."""
KNOTS = 128
WEIGHT = 0.85
"""Weight of the normal scores. The rest is the identity."""
END = 0.25
"""Difference of images over which the slopes beyond the outer knots are measured."""


@dataclass(frozen=True)
class NormalizeTails:
    r"""Map each heavy-tailed column toward the normal distribution, and leave all others.

    $$T(x) = (a \, q(x) + (1 - a) \, u - m) / s, \qquad a = 0.85$$

    Here $q$ is the piecewise linear function through the normal scores of the training values,
    $q(v) = Φ^{-1}(\text{rank}(v) / (n + 1))$, and $u$ is the standardized $x$. Knots are between
    the quantiles $p$ and $1 - p$, where $p$ is 1 % or the share of 10 rows, whichever is larger.
    Beyond them $T$ is linear with the slope that it has near the last knots. $m$ is the mean of
    the result between the outer knots, and $s$ its standard deviation, or 1 if that is smaller:
    where most values are equal, the others are not moved away. The map is strictly increasing.
    NaN stays NaN.

    No part of $T$ depends on how far the outermost training values are. A map through these values
    would bring them closer to the rest than new values of the same distribution, and outlier
    scores that are calibrated on training rows would call too many new rows unusual.

    A column is heavy-tailed if the range of its quantiles from $p$ to $1 - p$, divided by that
    from 25 % to 75 %, is more than 1.1 times as large as for the normal distribution.

    Attributes:
        mapped: Indices of the mapped columns, shape `(M,)`.
        knots: Values of the knots, shape `(M, 128)`, increasing.
        images: $T$ at the knots, shape `(M, 128)`.
        slopes: Slopes of $T$ below and above the knots, shape `(M, 2)`.

    Example:
        >>> x = torch.randn(1000, 2, generator=torch.Generator().manual_seed(0)).double()
        >>> x[:, 1] = torch.special.ndtri(x[:, 1].sigmoid()).exp()
        >>> fitted = NormalizeTails.fit(x)
        >>> fitted.mapped
        tensor([1])
        >>> y = fitted(x)
        >>> bool((fitted.inverse(y) - x).abs().max() < 1e-6)
        True
    """

    mapped: Tensor
    knots: Tensor
    images: Tensor
    slopes: Tensor

    @classmethod
    def fit(cls, x: Tensor) -> Self:
        """Return the transform with the maps of the heavy-tailed columns of `x`."""
        maps = {
            j: fitted
            for j in range(x.shape[1])
            if (fitted := _fit_column(x[:, j][~x[:, j].isnan()].double())) is not None
        }
        none = torch.zeros(0, KNOTS, dtype=torch.float64)
        columns = zip(*maps.values(), strict=True) if maps else [(), (), ()]
        knots, images, slopes = (torch.stack(c) if c else none for c in columns)
        return cls(torch.tensor(list(maps), dtype=torch.long), knots, images, slopes[:, :2])

    def __call__(self, x: Tensor) -> Tensor:
        """Return the mapped rows, shape `(N, D)`."""
        mapped, knots, images, slopes = self._on(x.device)
        return _replace_columns(x, mapped, _interpolate(x[:, mapped], knots, images, slopes)[0])

    def inverse(self, y: Tensor) -> Tensor:
        """Return the rows before the map, shape `(N, D)`."""
        mapped, knots, images, slopes = self._on(y.device)
        values, _ = _interpolate(y[:, mapped], images, knots, 1 / slopes)
        return _replace_columns(y, mapped, values)

    def log_det(self, x: Tensor) -> Tensor:
        r"""Return $\sum_j \log T_j'(x_j)$ over the cells that are not missing, shape `(N,)`."""
        mapped, knots, images, slopes = self._on(x.device)
        _, slope = _interpolate(x[:, mapped], knots, images, slopes)
        return slope.log().nansum(1).to(x.dtype)

    def _on(self, device: torch.device) -> list[Tensor]:
        tensors = (self.mapped, self.knots, self.images, self.slopes)
        return [tensor.to(device) for tensor in tensors]


def _fit_column(values: Tensor) -> tuple[Tensor, Tensor, Tensor] | None:
    """Return knots, images and slopes of a column, or `None` if its tails are not heavy."""
    n = len(values)
    distinct, counts = torch.unique(values, return_counts=True)
    if len(distinct) <= LEVELS:
        return None
    p = min(max(OUTER_SHARE, OUTER_ROWS / n), 0.25)
    low, lower, upper, high = np.quantile(values.cpu().numpy(), [p, 0.25, 0.75, 1 - p]).tolist()
    normal = torch.special.ndtri(torch.tensor([1 - p, 0.75], dtype=torch.float64))
    if high - low <= TAIL_WEIGHT * (upper - lower) * float(normal[0] / normal[1]):
        return None
    limited = values.clamp(low, high) if high > low else values
    # The rank of a value that occurs several times is the mean of its ranks.
    rank = (counts.cumsum(0) - (counts - 1) / 2) / (n + 1)
    inner = (rank >= p) & (rank <= 1 - p)
    if int(inner.sum()) < 3:
        inner = torch.ones_like(inner)
    knots = distinct[inner]
    images = WEIGHT * torch.special.ndtri(rank[inner])
    images += (1 - WEIGHT) * (knots - limited.mean()) / limited.std(correction=0)
    index = torch.linspace(0, len(knots) - 1, KNOTS).round().long()
    knots, images = knots[torch.unique(index)], images[torch.unique(index)]
    mapped, _ = _interpolate(values[:, None], knots[None], images[None], torch.zeros(1, 2))
    images = (images - mapped.mean()) / mapped.std(correction=0).clamp_min(1.0)
    slopes = torch.stack([_end_slope(knots, images), _end_slope(knots.flip(0), images.flip(0))])
    more = torch.arange(1, KNOTS - len(knots) + 1, dtype=torch.float64)
    knots = torch.cat([knots, knots[-1] + more])
    return knots, torch.cat([images, images[-1] + slopes[1] * more]), slopes


def _end_slope(knots: Tensor, images: Tensor) -> Tensor:
    """Return the mean slope from the first knot to the one whose image is 0.25 away."""
    index = int(((images - images[0]).abs() < END).sum().clamp_max(len(knots) - 1))
    return (images[index] - images[0]) / (knots[index] - knots[0])


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
        ends: Slopes below and above the knots, shape `(M, 2)`.

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
    slope = torch.where(below, ends[:, :1], torch.where(above, ends[:, 1:], slope))
    anchor, value = torch.where(above, high, low), torch.where(above, end, start)
    slope = torch.where(cells.isnan(), torch.nan, slope)
    return (value + slope * (cells - anchor)).T, slope.T
