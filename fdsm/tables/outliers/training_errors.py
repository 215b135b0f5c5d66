"""Errors among the training rows."""

import math

import torch
from torch import Tensor

from .false_discovery import benjamini_hochberg

MIN_ROWS, SHARE, MAX_ROWS = 3000, 1 / 300, 100
"""Smallest number of rows among which errors are looked for, and the share and largest number of
rows beyond which a tail is extrapolated."""
SMALLEST_SCALE = 0.1
"""Smallest scale of a tail. Nearly all cells of a column may be predicted exactly."""
LEVEL = 0.1
"""Expected share of normal rows among the errors."""


def find_errors(surprises: Tensor) -> Tensor:
    r"""Return which held-out rows have a cell that is too surprising to be of the same kind.

    Errors among the training rows would make similar errors in new rows look normal. The surprise
    of a number is about the logarithm of its distance from what is expected, so its tail is
    exponential for power laws, and lighter for most other distributions. With $m = n / 300$, or
    100 if that is less, and the $m$-th largest surprise $u_{(m)}$ of a column,

    $$P(U ≥ u) = \frac{m}{n} \exp\left(-\frac{u - u_{(m)}}{a}\right), \qquad
      a = \frac{u_{(m)} - u_{(10 m)}}{\log 10}, \qquad u > u_{(m)}.$$

    The cells of the column whose p-values the procedure of Benjamini and Hochberg rejects at level
    0.1 are errors.

    Args:
        surprises: Surprises of the cells of numeric columns, shape `(n, C)`. NaN in missing cells.

    Returns:
        Booleans, shape `(n,)`. All false if there are fewer than 3,000 rows.

    Example:
        >>> u = -torch.arange(1, 6001).double().div(6001).log()  # exponential
        >>> int(find_errors(u[:, None]).sum())
        0
        >>> u[0] += 10  # 22,000 times as far away
        >>> find_errors(u[:, None]).nonzero().tolist()
        [[0]]
    """
    result = torch.zeros(len(surprises), dtype=torch.bool, device=surprises.device)
    for column in surprises.T:
        present = ~column.isnan()
        u, n = column[present], int(present.sum())
        if n < MIN_ROWS:
            continue
        m = min(int(SHARE * n), MAX_ROWS)
        ordered = u.sort(descending=True).values
        limit = ordered[m - 1]
        scale = ((limit - ordered[10 * m - 1]) / math.log(10)).clamp_min(SMALLEST_SCALE)
        p = torch.where(u > limit, m / n * (-(u - limit) / scale).exp(), 1.0)
        result[present] |= benjamini_hochberg(p, LEVEL)
    return result
