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
    for label in [label for label, count in Counter(labels).items() if count > 1]:
        indices = [index for index, other in enumerate(labels) if other == label]
        parts = _without_common_words([names[index] for index in indices])
        for index, part in zip(indices, parts, strict=True):
            labels[index] = shorten(part, length)
    counts = Counter(labels)
    for index, label in enumerate(labels):
        if counts[label] > 1 or not label:
            number = f"{index + 1}: "
            labels[index] = number + shorten(names[index], length - len(number))
    return labels


def _without_common_words(names: Sequence[str]) -> list[str]:
    """Return names without the words that all of them start or end with."""
    for _ in ("start", "end"):
        first, last = min(names), max(names)
        count = next(
            (i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first)
        )
        start = len(re.sub(r"[^\s_./-]*\Z", "", first[:count]))
        names = [name[start:][::-1] for name in names]
    return [name.strip(" _./-") for name in names]


def number_legend(names: Sequence[str], labels: Sequence[str]) -> str:
    """Return the full names of the labels that start with a number. Empty if there are none."""
    pairs = zip(names, labels, strict=True)
    shown = [
        f"{number}: {name}"
        for number, (name, label) in enumerate(pairs, 1)
        if label.startswith(f"{number}: ") and label != name
    ]
    return "; ".join(shown)
