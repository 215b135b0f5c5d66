"""Small tools of the studies: curves, power laws, and objectives with another step size."""

import math
import statistics
from collections.abc import Sequence
from typing import TypeVar

from fdsm.evaluation import Measurement
from fdsm.serialize import replace_fields

from ..report import Line

T = TypeVar("T")


def measured_line(name: str, x: Sequence[float], measurements: Sequence[Measurement]) -> Line:
    """Return a curve of measurements with their errors.

    Args:
        name: Name of the curve.
        x: Horizontal positions.
        measurements: A measurement at each position. One without an error counts as exact.

    Returns:
        The curve.

    Example:
        >>> measured_line("loss", [1, 2], [Measurement(3.0, 0.1), Measurement(2.0)])
        Line(name='loss', x=(1.0, 2.0), y=(3.0, 2.0), error=(0.1, 0.0), reference=False)
    """
    values, errors = [m.value for m in measurements], [m.error or 0.0 for m in measurements]
    return Line(name, tuple(map(float, x)), tuple(values), tuple(errors))


def loglog_slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Return the exponent of a power law, by least squares on logarithms.

    Args:
        x: Positive numbers.
        y: Positive numbers, about proportional to a power of `x`.

    Returns:
        The exponent.

    Example:
        >>> round(loglog_slope([1, 2, 4], [3, 12, 48]), 6)
        2.0
    """
    return statistics.linear_regression(list(map(math.log, x)), list(map(math.log, y))).slope


def with_step_size(objective: T, step: float) -> T:
    """Return an objective with another step size.

    Args:
        objective: The objective, a frozen dataclass.
        step: The new radius of all its projections.

    Returns:
        The new objective.

    Example:
        >>> from fdsm.objectives import SSM
        >>> with_step_size(SSM(), 0.3).projection
        Sphere(radius=0.3)
    """
    return replace_fields(objective, "radius", lambda _: step)
