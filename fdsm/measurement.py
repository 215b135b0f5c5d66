"""A number with its standard error. This module does not need torch."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from .serialize import Json

__all__ = ["Measurement", "format_number"]


@dataclass(frozen=True)
class Measurement:
    """A number, its standard error and the settings that it depends on.

    Attributes:
        value: The estimate.
        error: Its standard error, or `None` if it is not known.
        settings: Settings of the measurement: scale, space, counts, noise.

    Example:
        >>> print(Measurement(-105.21, 1.3))
        -105.2 ± 1.3
        >>> print(Measurement(-2.97e7, 1.2e5))
        (-2.970 ± 0.012)e7
        >>> print(Measurement(0.25))
        0.25
    """

    value: float
    error: float | None = None
    settings: Mapping[str, Json] = field(default_factory=dict)

    def __str__(self) -> str:
        return format_number(self.value, self.error)

    def with_settings(self, **settings: Json) -> "Measurement":
        """Return the same number with further settings, e.g. the noise added to the data."""
        return replace(self, settings={**self.settings, **settings})


def format_number(value: float, error: float | None = None) -> str:
    """Format a number with two digits of its error, or with four digits if there is no error.

    Args:
        value: The number.
        error: Its standard error. An error that is zero or not finite is left out.

    Returns:
        The number as text, in powers of ten if it is very large or very small.

    Example:
        >>> format_number(-105.234, 1.31), format_number(-94712.0, 1234.0), format_number(0.5)
        ('-105.2 ± 1.3', '-94,700 ± 1,200', '0.5')
        >>> format_number(-3.36e7, 2.1e5), format_number(1234.5678), format_number(float("nan"))
        ('(-3.360 ± 0.021)e7', '1,235', 'nan')
    """
    if not math.isfinite(value):
        return str(value)
    if error is not None and not 1e-300 < error < math.inf:
        error = None
    size = max(abs(value), error or 0.0)
    power = math.floor(math.log10(size)) if size > 1e-300 else 0
    if not -4 < power < 6:
        scaled = None if error is None else error / 10.0**power
        mantissa = format_number(value / 10.0**power, scaled)
        return f"{mantissa}e{power}" if error is None else f"({mantissa})e{power}"
    if error is None:
        plain = _round(value, 3 - power)
        return plain.rstrip("0").rstrip(".") if "." in plain else plain
    digits = 1 - math.floor(math.log10(float(f"{error:.1e}")))
    return f"{_round(value, digits)} ± {_round(error, digits)}"


def _round(value: float, digits: int) -> str:
    return f"{round(value, digits) + 0.0:,.{max(digits, 0)}f}"
