"""Numbers, times and sizes as text."""

import math
import re

from .json_values import Measured

NOTHING = "–"

_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def number(value: float, error: float | None = None) -> str:
    """Return a number with as many digits as its error leaves meaning, two of the error.

    Args:
        value: The number.
        error: Its standard error, if there is one.

    Returns:
        The number as text, in powers of ten if it is very large or very small.

    Example:
        >>> number(-105.234, 1.31), number(-94712.0, 1234.0), number(0.5)
        ('-105.2 ± 1.3', '-94,700 ± 1,200', '0.5')
        >>> number(-3.36e7, 2.1e5), number(1234.5678), number(float("nan"))
        ('(-3.360 ± 0.021)e7', '1,235', 'nan')
    """
    if not math.isfinite(value):
        return str(value)
    known = error is not None and math.isfinite(error) and error > 1e-300
    size = max(abs(value), error or 0.0) if known else abs(value)
    power = math.floor(math.log10(size)) if size > 1e-300 else 0
    if not -4 < power < 6:
        scaled = error / 10.0**power if known and error is not None else None
        plain = number(value / 10.0**power, scaled)
        return f"({plain})e{power}" if known else f"{plain}e{power}"
    if not known or error is None:
        return _rounded(value, 3 - power, trim=True)
    digits = 1 - math.floor(math.log10(float(f"{error:.1e}")))
    return f"{_rounded(value, digits)} ± {_rounded(error, digits)}"


def duration(seconds: float) -> str:
    """Return a time in the unit that suits it.

    Args:
        seconds: The time in seconds.

    Returns:
        The time as text.

    Example:
        >>> duration(36.94), duration(754.0), duration(100_000.0)
        ('36.9 s', '12.6 min', '27.8 h')
    """
    if not math.isfinite(seconds):
        return NOTHING
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:,.1f} h"


def _rounded(value: float, digits: int, *, trim: bool = False) -> str:
    plain = f"{round(value, digits) + 0.0:,.{max(digits, 0)}f}"
    return plain.rstrip("0").rstrip(".") if trim and "." in plain else plain


def size(count: float) -> str:
    """Return a number of bytes in the unit that suits it.

    Args:
        count: The bytes.

    Returns:
        The size as text.

    Example:
        >>> size(2_450_000), size(3.2e9), size(1_234e9)
        ('2.45 MB', '3.2 GB', '1,230 GB')
    """
    if not math.isfinite(count):
        return NOTHING
    unit, name = (1e9, "GB") if abs(count) >= 1e9 else (1e6, "MB")
    return f"{float(f'{count / unit:.3g}'):,.10g} {name}"


def quoted(published: Measured) -> str:
    """Return a published number with all digits that it has.

    Args:
        published: The number.

    Returns:
        The number as text.

    Example:
        >>> quoted(Measured(-193.97)), quoted(Measured(-2182, 269)), quoted(Measured(-2.97e7))
        ('-193.97', '-2,182 ± 269', '-2.97e7')
    """
    error = "" if published.error is None else f" ± {published.error:,.10g}"
    value = f"{published.value:,.10g}"
    if abs(published.value) >= 1e6:
        mantissa, _, power = f"{published.value:.9e}".partition("e")
        value = f"{float(mantissa):.10g}e{int(power)}"
    return value + error


def typeset(cell: str) -> str:
    """Return a number with the signs of print: a true minus, and powers of ten.

    Args:
        cell: A number as the terminal shows it.

    Returns:
        The number as a page shows it.

    Example:
        >>> typeset("(-3.360 ± 0.021)e7")
        '(−3.360 ± 0.021) × 10⁷'
    """
    raised = lambda power: f" × 10{power[1].translate(_SUPERSCRIPT)}"
    return re.sub(r"(?<=[\d)])e(-?\d+)", raised, cell).replace("-", "−")
