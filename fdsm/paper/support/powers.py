"""Powers that measurements follow."""

import math
import statistics
from collections.abc import Sequence


def exponent(x: Sequence[float], y: Sequence[float]) -> float:
    """Return the power of `x` that `y` is, by least squares of their logarithms.

    Args:
        x: Where it was measured.
        y: What was measured there, positive numbers.

    Returns:
        The slope.

    Example:
        >>> round(exponent([1, 2, 4], [3, 12, 48]), 6)
        2.0
    """
    return statistics.linear_regression(list(map(math.log, x)), list(map(math.log, y))).slope
