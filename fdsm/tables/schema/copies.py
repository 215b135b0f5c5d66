"""Rows of a table that are copies of other rows, and not equal to them by chance."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

RATIO = 3.0
"""Equal rows are reported if there are this many times more pairs of them than by chance."""


class Copies(NamedTuple):
    """A table without its copies.

    Attributes:
        rows: The rows that are left, in their order, shape `(N, C)`.
        left_out: Number of copies that were left out.
        equal: Number of rows that are left and equal an earlier row, if that may be a mistake.
    """

    rows: Floats
    left_out: int
    equal: int


def without_copies(codes: Floats) -> Copies:
    r"""Leave out copies of rows, and count equal rows that may be copies.

    P-values assume that training rows are independent, and a row and its copy are not. Equal rows
    matter only if some column has measurements, whose values hardly repeat among the different
    rows.

    They are copies if the numbers of times that rows occur are too regular for independent rows,
    for example if every row occurs three times. Let $f_m$ rows occur $m$ times. For independent
    rows $f_m$ is a mixture of Poisson probabilities, so $m! \, f_m$ is log-convex:
    $\frac{m + 1}{m} f_{m-1} f_{m+1} ≥ f_m^2$.

    Otherwise they may occur several times by nature, and new rows do so too: in that case p-values
    need all of them. They are counted if there are more pairs of equal rows than in a table with
    the same columns that are independent, $\binom{N}{2} \prod_j c_j$, where $c_j$ is the
    probability that two cells of column $j$ are equal.

    Args:
        codes: Codes of a table, shape `(N, C)`. NaN in missing cells.

    Returns:
        The rows, and the numbers of copies and of equal rows.

    Example:
        >>> rows = np.random.default_rng(0).normal(size=(100, 2))
        >>> without_copies(np.tile(rows, (3, 1)))[1:], without_copies(rows.round())[1:]
        ((200, 0), (0, 0))
        >>> without_copies(np.concatenate([rows, rows[:7]]))[1:]
        (0, 7)
    """
    first, times = _different(codes)
    equal = len(codes) - len(first)
    if not equal or not _has_measurements(codes[first]):
        return Copies(codes, 0, 0)
    if _is_too_regular(times):
        return Copies(codes[np.sort(first)], equal, 0)
    return Copies(codes, 0, equal if _exceeds_chance(codes, times) else 0)


def copies_sentence(copies: int, equal_rows: int) -> str:
    """Return what was done about copies of rows as one sentence, or an empty text.

    Args:
        copies: Number of copies that were left out.
        equal_rows: Number of rows that are left and equal an earlier row.

    Returns:
        The sentence, without a period at its end.

    Example:
        >>> copies_sentence(20, 0)
        '20 rows are copies of other rows and were left out'
        >>> print(copies_sentence(0, 7))
        7 rows equal another row. Leave them out if they are copies: they make p-values small
    """
    if copies == 1:
        return "1 row is a copy of another row and was left out"
    if copies:
        return f"{copies:,} rows are copies of other rows and were left out"
    if not equal_rows:
        return ""
    count = "1 row equals" if equal_rows == 1 else f"{equal_rows:,} rows equal"
    return f"{count} another row. Leave them out if they are copies: they make p-values small"


def _different(rows: Floats) -> tuple[Integers, Integers]:
    """Return the index of the first row of each kind, and how often it occurs."""
    rows = np.ascontiguousarray(rows + 0.0)  # -0.0 is 0.0
    as_bytes = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).ravel()
    _, first, times = np.unique(as_bytes, return_index=True, return_counts=True)
    return first, times


def _has_measurements(rows: Floats) -> bool:
    """Return whether at least half of the values of some column occur once."""
    for column in rows.T:
        cells = column[~np.isnan(column)]
        _, times = np.unique(cells, return_counts=True)
        if (times == 1).sum() + 0.5 >= 0.5 * (len(cells) + 1):
            return True
    return False


def _exceeds_chance(rows: Floats, times: Integers) -> bool:
    expected = _pairs(np.array([len(rows)]))
    for column in rows.T:
        _, times_of_value = _different(column[:, None])
        expected *= _pairs(times_of_value) / _pairs(np.array([len(rows)]))
    return _pairs(times) > RATIO * expected


def _pairs(times: Integers) -> float:
    """Return the number of pairs of equal items that occur so many times each."""
    return float((times * (times - 1.0)).sum() / 2)


def _is_too_regular(times: Integers) -> bool:
    """Return whether $m! f_m$ is not log-convex, beyond 2.5 standard deviations of each $f_m$."""
    f = np.bincount(times, minlength=3).astype(np.float64)
    f = np.append(f, 0.0)
    upper, lower = f + 2.5 * np.sqrt(f) + 3, np.maximum(f - 2.5 * np.sqrt(f), 0.0)
    m = np.arange(2, len(f) - 1)
    return bool(np.any((m + 1) / m * upper[m - 1] * upper[m + 1] < lower[m] ** 2))
