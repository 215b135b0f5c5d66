"""Means and medians with their standard errors."""

import math

from torch import Tensor

from ..measurement import Measurement
from ..serialize import Json
from ..tensors import require_values

__all__ = ["Measurement", "mean_of", "median_of"]


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
