"""A number with its standard error and the settings that decide it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from torch import Tensor

from ..serialize import Json


@dataclass(frozen=True)
class Measurement:
    """What was measured, how well, and under which settings.

    Attributes:
        value: The estimate.
        error: Its standard error, where there is one.
        settings: What decides the number: scale, space, counts, noise.

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
            return _rounded(self.value, self.error)
        scale = 10.0**power
        return f"({_rounded(self.value / scale, self.error / scale)})e{power:+03d}"

    def with_settings(self, **settings: Json) -> "Measurement":
        """Return the same number with further settings, e.g. the noise added to the data."""
        return replace(self, settings={**self.settings, **settings})


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


def _rounded(value: float, error: float) -> str:
    """Return both with the decimals that leave the error two digits."""
    decimals = max(0, 1 - math.floor(math.log10(error)))
    return f"{value:.{decimals}f} ± {error:.{decimals}f}"
