"""Curves of measurements."""

from collections.abc import Sequence

from ...evaluation import Measurement
from ...report.figure import Line


def line_of(name: str, x: Sequence[float], found: Sequence[Measurement]) -> Line:
    """Return the curve of some measurements with their errors.

    Args:
        name: What it shows.
        x: Where they were made.
        found: The measurements; one without an error counts as exact.

    Returns:
        The curve.

    Example:
        >>> line_of("loss", [1, 2], [Measurement(3.0, 0.1), Measurement(2.0)])
        Line(name='loss', x=(1.0, 2.0), y=(3.0, 2.0), error=(0.1, 0.0), reference=False)
    """
    values, errors = [m.value for m in found], [m.error or 0.0 for m in found]
    return Line(name, tuple(map(float, x)), tuple(values), tuple(errors))
