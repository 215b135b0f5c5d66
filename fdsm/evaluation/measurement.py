"""Means with their standard errors."""

import math

from torch import Tensor

from ..measurement import Measurement
from ..serialize import Json

__all__ = ["Measurement", "mean_of"]


def mean_of(values: Tensor, **settings: Json) -> Measurement:
    r"""Return the mean of independent values with its standard error $s / \sqrt{n}$.

    Args:
        values: One value per example, shape `(N,)`; averaged in float64.
        settings: What else decides the number. The count is added as `"rows"`.

    Returns:
        The mean; a single value has no standard error.

    Raises:
        ValueError: If there are no values, or they are not one per example.

    Example:
        >>> import torch
        >>> print(mean_of(torch.tensor([1.0, 2.0, 3.0])))
        2.00 ± 0.58
    """
    if values.ndim != 1 or len(values) == 0:
        raise ValueError(
            f"a mean needs one value per example, shape (N,), but got {tuple(values.shape)}"
        )
    values, n = values.detach().double(), len(values)
    error = values.std().item() / math.sqrt(n) if n > 1 else None
    return Measurement(values.mean().item(), error, {**settings, "rows": n})
