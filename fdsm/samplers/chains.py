"""What all chains share: where they start, how long they run, and whether they arrive."""

import math
import warnings
from collections.abc import Callable, Iterable

from torch import Tensor

from ..derivatives.validation import check_data

Progress = Callable[[Iterable[int]], Iterable[int]]
"""Shows how far a loop has come: takes its `range` and hands the same numbers on, one by one.

`rich.progress.track` is one, and so is
`functools.partial(rich.progress.track, description="sampling")`.
"""


class DivergenceWarning(UserWarning):
    """Chains have left the real numbers, so their step was too long."""


def counted(n: int, progress: Progress | None) -> Iterable[int]:
    """Return the numbers from zero to `n - 1`, watched by `progress` if there is one."""
    return range(n) if progress is None else progress(range(n))


def start(x: Tensor) -> Tensor:
    """Return `x` without its history, after a look at whether chains can start there.

    Args:
        x: One starting point per chain, shape `(B, *E)`.

    Returns:
        The same numbers, detached.

    Raises:
        TypeError: If they are not real floating-point numbers.
        ValueError: If there are none, or some are not finite.
    """
    if x.ndim == 0 or x.numel() == 0:
        raise ValueError(
            f"there must be at least one chain, a row of `x` each, but its shape is "
            f"{tuple(x.shape)}"
        )
    check_data(x)
    return x.detach()


def require_counts(least: int = 1, **counts: int) -> None:
    """Raise `ValueError` unless the named numbers are whole and at least `least`."""
    for name, n in counts.items():
        if n != int(n) or n < least:
            raise ValueError(f"{name} must be a whole number from {least} up, but is {n}")


def require_positive(**values: float) -> None:
    """Raise `ValueError` unless the named numbers are positive and finite."""
    for name, value in values.items():
        if not 0 < value < math.inf:
            raise ValueError(f"{name} must be a positive number, but is {value}")


def require_share(**shares: float) -> None:
    """Raise `ValueError` unless the named numbers are from zero up to, but not, one."""
    for name, share in shares.items():
        if not 0 <= share < 1:
            raise ValueError(f"{name} must be at least 0 and less than 1, but is {share}")


def arrived(x: Tensor) -> Tensor:
    """Return `x`, with a `DivergenceWarning` if some of its rows are not finite."""
    bad = (~x.isfinite()).unsqueeze(-1).flatten(1).any(1)
    if bad.any():
        warnings.warn(
            f"{int(bad.sum())} of {len(x)} chains diverged and are not finite: take a smaller "
            "step: the factor of the score must stay below two over the largest curvature",
            DivergenceWarning,
            stacklevel=3,
        )
    return x
