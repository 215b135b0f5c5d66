"""Labels in plots: numbers, and names of columns and levels."""

import re
from collections import Counter
from collections.abc import Sequence

from ...untrusted import printable

SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
"""Translates digits to superscripts."""

NAME_LENGTH = 16
"""Longest name of a column or level in a plot, in characters."""


def typeset(number: str) -> str:
    """Return a formatted number with typographic minus signs and powers of ten.

    Args:
        number: A number as the terminal shows it.

    Returns:
        The number as a page shows it.

    Example:
        >>> typeset("(-3.360 ± 0.021)e7")
        '(−3.360 ± 0.021) × 10⁷'
    """

    def power_of_ten(match: re.Match[str]) -> str:
        return f" × 10{match[1].translate(SUPERSCRIPT)}"

    return re.sub(r"(?<=[\d)])e(-?\d+)", power_of_ten, number).replace("-", "−")


def shorten(name: str, length: int = NAME_LENGTH) -> str:
    """Return a name of limited length: its start and its end, where names often differ.

    Characters that cannot be drawn are replaced.

    Example:
        >>> shorten("volatile acidity in vinegar")
        'volatile…vinegar'
    """
    name = printable(name)
    return name if len(name) <= length else f"{name[: length // 2]}…{name[1 - length // 2 :]}"


def distinct_labels(names: Sequence[str], length: int = NAME_LENGTH) -> list[str]:
    """Return names of limited length. Those that would look the same get their number in front.

    Args:
        names: Different names.
        length: Largest number of characters.

    Returns:
        A label for each name.

    Example:
        >>> distinct_labels(["a" * 9 + "b" * 9 + "c" * 9, "a" * 9 + "d" * 9 + "c" * 9])
        ['1: aaaaaa…ccccc', '2: aaaaaa…ccccc']
    """
    labels = [shorten(name, length) for name in names]
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
