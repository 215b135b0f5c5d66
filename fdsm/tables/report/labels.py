"""Labels in plots of tables: names of columns and levels, and ticks."""

import itertools
import math
import re
from collections import Counter
from collections.abc import Sequence

from matplotlib.ticker import MaxNLocator

from paper.report.format import SUPERSCRIPT, typeset

NAME_LENGTH = 16
"""Longest name of a column or level in a plot, in characters."""

AXIS_LENGTH = 22
"""Number of characters that fit below the plot of a column."""

LAST_WORD = re.compile(r"[^\s_./-]*\Z")
"""The incomplete word at the end of a text."""


def shorten(name: str, length: int = NAME_LENGTH) -> str:
    """Return a name of limited length: its start and its end, where names often differ.

    Example:
        >>> shorten("volatile acidity in vinegar")
        'volatile…vinegar'
    """
    return name if len(name) <= length else f"{name[: length // 2]}…{name[1 - length // 2 :]}"


def distinct_labels(names: Sequence[str], length: int = NAME_LENGTH) -> list[str]:
    """Return names of limited length that stay different.

    Names that would look the same lose the words that they start or end with in common. If they
    still look the same, their number is put in front.

    Args:
        names: Different names.
        length: Largest number of characters.

    Returns:
        A label for each name.

    Example:
        >>> distinct_labels(["mean of the radius of the nuclei", "mean of the area of the nuclei"])
        ['radius', 'area']
        >>> distinct_labels(["a" * 9 + "b" * 9 + "c" * 9, "a" * 9 + "d" * 9 + "c" * 9])
        ['1: aaaaaa…ccccc', '2: aaaaaa…ccccc']
    """
    labels = [shorten(name, length) for name in names]
    counts = Counter(labels)
    for label in (label for label, count in counts.items() if count > 1):
        indices = [index for index, other in enumerate(labels) if other == label]
        for index, part in zip(
            indices, _differing_parts([names[p] for p in indices]), strict=True
        ):
            labels[index] = shorten(part, length)
    counts = Counter(labels)
    for index, label in enumerate(labels):
        if counts[label] > 1 or not label:
            number = f"{index + 1}: "
            labels[index] = number + shorten(names[index], length - len(number))
    return labels


def number_legend(names: Sequence[str], labels: Sequence[str]) -> str:
    """Return the full names of the labels that start with a number. Empty if there are none."""
    pairs = zip(names, labels, strict=True)
    shown = [
        f"{number}: {name}"
        for number, (name, label) in enumerate(pairs, 1)
        if label.startswith(f"{number}: ") and label != name
    ]
    return "; ".join(shown)


def _differing_parts(names: Sequence[str]) -> list[str]:
    """Return names without the words that all of them start or end with."""
    start = _common_words(names)
    reversed_names = [name[start:][::-1] for name in names]
    end = _common_words(reversed_names)
    return [name[end:][::-1].strip(" _./-") for name in reversed_names]


def _common_words(names: Sequence[str]) -> int:
    """Return the number of characters in the complete words that all names start with."""
    pairs = zip(min(names), max(names), strict=False)
    equal = "".join(a for a, _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
    return len(LAST_WORD.sub("", equal))


def ticks_that_fit(low: float, high: float) -> tuple[list[float], list[str], str]:
    """Return ticks of a small plot whose labels do not overlap.

    Args:
        low: Lower end of the axis.
        high: Upper end of the axis.

    Returns:
        The ticks, their labels, and the power of ten by which to multiply them, as
        text. The power is empty for numbers of ordinary size.

    Example:
        >>> ticks_that_fit(2997000.0, 3003000.0)[1:]
        (['2.998', '3.000', '3.002'], '× 10⁶')
    """
    ticks: list[float] = []
    labels: list[str] = []
    power = ""
    for count in (3, 2, 1):
        candidates = MaxNLocator(count).tick_values(low, high)
        ticks = [float(tick) for tick in candidates if low <= tick <= high]
        labels, power = tick_labels(ticks)
        widths = [(len(a) + len(b)) / 2 + 1 for a, b in itertools.pairwise(labels)]
        steps = [b - a for a, b in itertools.pairwise(ticks)]
        room = (AXIS_LENGTH * step / (high - low) for step in steps)
        if ticks and all(width <= most for width, most in zip(widths, room, strict=True)):
            return ticks, labels, power
    return ticks[:1], labels[:1], power


def tick_labels(ticks: Sequence[float]) -> tuple[list[str], str]:
    """Return the labels of ticks with as many decimals as they need, and their power of ten.

    Args:
        ticks: The ticks, increasing.

    Returns:
        The labels, and the power as text, which is empty for numbers of ordinary size.

    Example:
        >>> tick_labels([-10_000.0, 0.0, 10_000.0]), tick_labels([10_001.0, 10_001.5])
        ((['−10,000', '0', '10,000'], ''), (['10,001.0', '10,001.5'], ''))
        >>> tick_labels([0.0, 2e-5])
        (['0', '2'], '× 10⁻⁵')
    """
    largest = max(map(abs, ticks), default=0.0)
    exponent = math.floor(math.log10(largest)) if largest > 1e-300 else 0
    exponent = 0 if -4 < exponent < 6 else exponent
    scaled = [tick / 10.0**exponent for tick in ticks]
    step = min((b - a for a, b in itertools.pairwise(scaled)), default=largest / 10.0**exponent)
    decimals = next(
        (d for d in range(12) if all(abs(round(x, d) - x) <= 1e-6 * step for x in scaled)), 12
    )
    labels = [typeset(f"{round(x, decimals) + 0.0:,.{decimals}f}") for x in scaled]
    return labels, f"× 10{str(exponent).translate(SUPERSCRIPT)}" if exponent else ""
