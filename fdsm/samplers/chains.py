"""Functions shared by all samplers: validation of arguments, progress and divergence."""

import math
import warnings
from collections.abc import Callable, Iterable

from torch import Tensor

from ..derivatives.checks.arguments import check_values

Progress = Callable[[Iterable[int]], Iterable[int]]
"""Shows the progress of a loop: takes its `range` and yields the same numbers.

`rich.progress.track` is an example, and so is
`functools.partial(rich.progress.track, description="sampling")`.
"""


class DivergenceWarning(UserWarning):
    """Chains have diverged to infinite or NaN values."""


def track(n: int, progress: Progress | None) -> Iterable[int]:
    """Return `range(n)`, shown by `progress` if given."""
    return range(n) if progress is None else progress(range(n))


def validate_start(x: Tensor) -> Tensor:
    """Return the starting points of chains, detached.

    Args:
        x: One starting point per chain, shape `(B, *E)`.

    Returns:
        The same values.

    Raises:
        TypeError: If they are not a tensor of real floating-point numbers.
        ValueError: If there are none, or some are not finite.
    """
    check_values(x)
    if x.ndim == 0 or x.numel() == 0:
        raise ValueError(
            f"there must be at least one chain, one per row of `x`, but the shape of `x` is "
            f"{tuple(x.shape)}"
        )
    return x.detach()


def require_counts(least: int = 1, **counts: int) -> None:
    """Raise `ValueError` unless the named numbers are integers and at least `least`."""
    for name, n in counts.items():
        if n != int(n) or n < least:
            raise ValueError(f"{name} must be an integer of at least {least}, but is {n}")


def require_positive(**values: float) -> None:
    """Raise `ValueError` unless the named numbers are positive and finite."""
    for name, value in values.items():
        if not 0 < value < math.inf:
            raise ValueError(f"{name} must be a positive number, but is {value}")


def require_fraction(**fractions: float) -> None:
    """Raise `ValueError` unless the named numbers are in [0, 1)."""
    for name, fraction in fractions.items():
        if not 0 <= fraction < 1:
            raise ValueError(f"{name} must be at least 0 and less than 1, but is {fraction}")


def warn_if_diverged(x: Tensor) -> Tensor:
    """Return `x`, with a `DivergenceWarning` if some of its rows are not finite."""
    bad = (~x.isfinite()).unsqueeze(-1).flatten(1).any(1)
    if bad.any():
        warnings.warn(
            f"{int(bad.sum())} of {len(x)} chains diverged to values that are not finite. Use a "
            "smaller step: the factor of the score must be less than 2 / L, where L is the "
            "largest curvature of the log-density",
            DivergenceWarning,
            stacklevel=3,
        )
    return x
