r"""Means over seeds, and the two errors that they have.

The error of a mean over seeds is its standard error, $s / \sqrt n$ with $s$ the standard deviation
over the $n$ seeds. Besides, every measurement has an error of its own, that of a mean over some
test data. Seeds share those data, so it does not become smaller with their number; of a single run
it is all that is known.
"""

import math
from collections.abc import Callable, Sequence
from statistics import fmean, stdev

from .json_values import Measured
from .labels import BYTES, PACE, VALIDATED
from .model import Group, Run

OF_RUN: dict[str, Callable[[Run], float]] = {
    PACE: lambda run: run.milliseconds,
    VALIDATED: lambda run: run.milliseconds_with_validation,
    BYTES: lambda run: run.bytes,
}
"""Numbers that a result has beside its metrics."""


def over_seeds(group: Group, metric: str) -> tuple[Measured, int]:
    """Return the mean of a metric, its standard error over seeds, and how many those are.

    Args:
        group: The runs.
        metric: The name of the metric.

    Returns:
        The mean, NaN if there is none, and the number of runs in it. With one run, the error is
        that of its own measurement.
    """
    measured = list(by_seed(group, metric).values())
    if len(measured) < 2:
        return (measured or [Measured(math.nan)])[0], len(measured)
    return mean([one.value for one in measured]), len(measured)


def by_seed(group: Group, metric: str) -> dict[str, Measured]:
    """Return what was measured with each seed.

    Args:
        group: The runs.
        metric: The name of the metric.

    Returns:
        The measurements by seed; none of runs without it.
    """
    if metric not in OF_RUN:
        return {run.seed: run.metrics[metric] for run in group.runs if metric in run.metrics}
    values = {run.seed: OF_RUN[metric](run) for run in group.counted}
    return {seed: Measured(value) for seed, value in values.items() if not math.isnan(value)}


def mean(values: Sequence[float]) -> Measured:
    """Return a mean and its standard error.

    Args:
        values: Numbers, at least one.

    Returns:
        The mean; without an error if it is of one number, or of some that are not finite.

    Example:
        >>> mean([1.0, 3.0])
        Measured(value=2.0, error=1.0, settings={})
    """
    known = len(values) > 1 and all(map(math.isfinite, values))
    error = stdev(values) / math.sqrt(len(values)) if known else None
    return Measured(fmean(values), error)


def own_error(group: Group, metric: str) -> float:
    """Return the error that measurements have of their own, whatever the number of seeds.

    Args:
        group: The runs.
        metric: The name of the metric.

    Returns:
        The mean of the standard errors of the runs' measurements; NaN if none has one.
    """
    errors = [one.error for one in by_seed(group, metric).values() if one.error is not None]
    return fmean(errors) if errors else math.nan
