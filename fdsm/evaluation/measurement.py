"""A number with its standard error and its settings."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from torch import Tensor

from ..serialize import Json
from ..tensors import require_values


@dataclass(frozen=True)
class Measurement:
    """A measured value with its standard error and the settings it depends on.

    Attributes:
        value: The estimate.
        error: The standard error, if known.
        settings: Settings that affect the value: scale, space, counts, noise.

    Example:
        >>> print(Measurement(-105.21, 1.3))
        -105.2 ± 1.3
        >>> print(Measurement(-2.97e7, 1.2e5))
        (-2.970 ± 0.012)e+07
        >>> print(Measurement(0.25))
        0.25
    """

    value: float
    error: float | None = None
    settings: Mapping[str, Json] = field(default_factory=dict)

    def __str__(self) -> str:
        if self.error is None:
            return f"{self.value:.5g}"
        size = max(abs(self.value), self.error)
        if not (math.isfinite(size) and self.error > 0):
            return f"{self.value:.5g} ± {self.error:.2g}"
        power = math.floor(math.log10(size))
        if -4 <= power < 6:
            return _round_to_error(self.value, self.error)
        scale = 10.0**power
        return f"({_round_to_error(self.value / scale, self.error / scale)})e{power:+03d}"

    def with_settings(self, **settings: Json) -> "Measurement":
        """Return the same value with further settings, e.g. the noise added to the data."""
        return replace(self, settings={**self.settings, **settings})


def mean_of(values: Tensor, **settings: Json) -> Measurement:
    r"""Return the mean of independent values with its standard error $s / \sqrt{n}$.

    Args:
        values: One value per example, shape `(N,)`. The mean is computed in float64.
        settings: Settings that affect the values. The number of values is added as `"rows"`.

    Returns:
        The mean. The mean of a single value has no standard error.

    Raises:
        ValueError: If there are no values, or they do not have the shape `(N,)`.

    Example:
        >>> import torch
        >>> print(mean_of(torch.tensor([1.0, 2.0, 3.0])))
        2.00 ± 0.58
    """
    n = _require_values(values, "mean")
    values = values.detach().double()
    error = values.std().item() / math.sqrt(n) if n > 1 else None
    return Measurement(values.mean().item(), error, {**settings, "rows": n})


def median_of(values: Tensor, **settings: Json) -> Measurement:
    r"""Return the median of independent values, which is robust to outliers.

    Exact score-matching losses have heavy tails on some data. The number of values below the true
    median is about $n/2 ± \sqrt n/2$ for any distribution, so half the distance between the values
    of these ranks is a standard error.

    Args:
        values: One value per example, shape `(N,)`.
        settings: Settings that affect the values. The number of values is added as `"rows"`.

    Returns:
        The median. The median of a single value has no standard error.

    Raises:
        ValueError: If there are no values, or they do not have the shape `(N,)`.

    Example:
        >>> import torch
        >>> print(median_of(torch.tensor([3.0, 1.0, 2.0, 1000.0, 1.5])))
        2.00 ± 0.67
    """
    n = _require_values(values, "median")
    values = values.detach().double()
    spread = 1 / (2 * math.sqrt(n))
    ranks = values.new_tensor([0.5 - spread, 0.5, 0.5 + spread])
    low, middle, high = values.quantile(ranks).tolist()
    return Measurement(middle, (high - low) / 2 if n > 1 else None, {**settings, "rows": n})


def _require_values(values: Tensor, name: str) -> int:
    """Return the number of values; raise an error if there are none."""
    require_values(values)
    if values.ndim != 1 or len(values) == 0:
        raise ValueError(
            f"a {name} needs one value per example, shape (N,), but got {tuple(values.shape)}"
        )
    return len(values)


def _round_to_error(value: float, error: float) -> str:
    """Return both with the number of decimals that gives the error two significant digits."""
    decimals = max(0, 1 - math.floor(math.log10(error)))
    return f"{value:.{decimals}f} ± {error:.{decimals}f}"
