"""Plots of training: losses and validation metrics, against iterations and against time."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from fdsm.extras import name_missing_extra

from .aggregate import Group
from .format import metric_info
from .plots import Plot, line_style, page_style
from .records import Curve, RunRecord

with name_missing_extra("a report"):
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ticker import EngFormatter, MaxNLocator

MAX_POINTS = 400
"""Largest number of points of a line."""

UNSMOOTHED_POINTS = 24
"""Curves with at most this many points are not smoothed."""

Array = NDArray[np.float64]
GetCurve = Callable[[RunRecord], Curve]


def plot_training(groups: Sequence[Group]) -> list[Plot]:
    """Plot losses and validation metrics.

    Args:
        groups: The groups of an experiment.

    Returns:
        The plots for which something was logged.
    """
    runs = [run for group in groups for run in group.runs]
    curves: dict[str, GetCurve] = {"training loss": lambda run: run.loss}
    for name in dict.fromkeys(name for run in runs for name in run.validation):
        curves[f"validation: {metric_info(name).heading}"] = _validation(name)
    with page_style():
        plots = [
            plot_curves(groups, title, curve, against_time=against_time)
            for title, curve in curves.items()
            for against_time in (False, True)
        ]
    return [plot for plot in plots if plot is not None]


def _validation(name: str) -> GetCurve:
    return lambda run: run.validation.get(name, Curve())


def plot_curves(
    groups: Sequence[Group], title: str, curve: GetCurve, *, against_time: bool
) -> Plot | None:
    """Plot one curve per run as a thin line, and the mean of each group as a thick line.

    If one of the curves would be flat on a common axis, each group gets its own axis.

    Args:
        groups: The groups.
        title: Name of the quantity.
        curve: Returns the curve of a run.
        against_time: Whether the horizontal axis is training time instead of iterations.

    Returns:
        The plot, or `None` if nothing was logged.
    """
    values = [_finite_values(group, curve, against_time=against_time) for group in groups]
    drawn = [index for index, points in enumerate(values) if len(points)]
    if not drawn:
        return None
    separate = _have_different_scales([values[index] for index in drawn])
    panels = [[index] for index in drawn] if separate else [drawn]
    figure = Figure(figsize=(5.2, 3.2 if len(panels) == 1 else 0.4 + 1.5 * len(panels)))
    figure.set_layout_engine("constrained")
    outside = 0
    axes = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    for panel, indices in zip(axes, panels, strict=True):
        for index in indices:
            _draw_group(panel, groups[index], index, curve, against_time=against_time)
        everything = np.concatenate([values[index] for index in indices])
        low, high = axis_limits(everything)
        outside += int(((everything < low) | (everything > high)).sum())
        panel.set_ylim(low, high)
        panel.yaxis.set_major_locator(MaxNLocator(5 if len(panels) == 1 else 3))
        panel.set_xlim(left=0)
    axes[-1].set_xlabel("seconds" if against_time else "iteration")
    if not against_time:
        axes[-1].xaxis.set_major_formatter(EngFormatter(sep=""))
    shown = [groups[index] for index in drawn]
    caption = _caption(shown, curve, separate=separate, outside=outside)
    against = "training time" if against_time else "iteration"
    return Plot(f"{title} against {against}", caption, figure)


def axis_limits(values: Array) -> tuple[float, float]:
    """Return axis limits that ignore a few outliers.

    They contain all values within three times the range of the central 90 % of the values.

    Args:
        values: Finite numbers, shape `(N,)`.

    Returns:
        The lower and the upper limit, which are never equal.

    Example:
        >>> low, high = axis_limits(np.array([*np.linspace(0, 1, 200), 1e6]))
        >>> -0.1 < low < 0 and 1 < high < 1.1
        True
    """
    low, high = np.percentile(values, [5, 95])
    reach = 3 * (high - low) or 3 * abs(high) or 1.0
    inside = values[(values >= low - reach) & (values <= high + reach)]
    low, high = inside.min(), inside.max()
    margin = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
    return float(low - margin), float(high + margin)


def running_median(curve: Curve, half: int = 0) -> Array:
    """Return a curve smoothed by running medians, which a single outlier does not move.

    Args:
        curve: The curve.
        half: Number of points on each side of a median. Near the start it is smaller.

    Returns:
        Iterations, seconds and values, shape `(3, W)` with `W <= MAX_POINTS`. Values that are not
        finite are left out.
    """
    points = _points(curve)
    points = points[:, np.isfinite(points[2])]
    count = points.shape[1]
    columns = np.unique(np.linspace(0, count - 1, min(count, MAX_POINTS)).round().astype(int))
    reach = np.minimum(half, columns)
    medians = [
        np.median(points[2, k - r : k + r + 1]) for k, r in zip(columns, reach, strict=True)
    ]
    return np.vstack([points[:2, columns], np.array(medians)[None]])


def mean_curve(curves: Sequence[Curve]) -> Array:
    """Return the mean of smoothed curves, at the iterations of the first.

    It covers the iterations that all curves have.

    Args:
        curves: The curves of the seeds.

    Returns:
        Iterations, seconds and values, shape `(3, W)`.
    """
    halves = [len(c.values) // 20 if len(c.values) > UNSMOOTHED_POINTS else 0 for c in curves]
    seeds = [running_median(curve, half) for curve, half in zip(curves, halves, strict=True)]
    seeds = [seed for seed in seeds if seed.size]
    if not seeds:
        return np.empty((3, 0))
    grid = seeds[0][0]
    start, end = max(seed[0, 0] for seed in seeds), min(seed[0, -1] for seed in seeds)
    grid = grid[(grid >= start) & (grid <= end)]
    rows = [[np.interp(grid, seed[0], row) for row in seed] for seed in seeds]
    return np.asarray(np.mean(rows, axis=0))


def _finite_values(group: Group, curve: GetCurve, *, against_time: bool) -> Array:
    """Return the values that can be drawn."""
    points = np.concatenate([_points(curve(run)) for run in group.runs], axis=1)
    x, values = points[1 if against_time else 0], points[2]
    return np.asarray(values[np.isfinite(values) & np.isfinite(x)])


def _points(curve: Curve) -> Array:
    """Return iterations, seconds and values, shape `(3, N)`. NaN where they cannot be drawn."""
    points = np.array([curve.iterations, curve.seconds, curve.values], dtype=float)
    return np.where(np.abs(points) < 1e100, points, np.nan)


def _have_different_scales(values: Sequence[Array]) -> bool:
    """Return whether one of the curves would be a flat line on a common axis."""
    ranges = [np.percentile(v, [5, 95]) for v in values]
    whole = max(high for _, high in ranges) - min(low for low, _ in ranges)
    return len(ranges) > 1 and any(high - low < 0.02 * whole for low, high in ranges)


def _draw_group(
    panel: Axes, group: Group, index: int, curve: GetCurve, *, against_time: bool
) -> None:
    dashes, color = line_style(index)
    style = (0, tuple(float(d) for d in dashes.split())) if dashes else "solid"
    axis = 1 if against_time else 0
    for run in group.runs:
        seed = running_median(curve(run), len(curve(run).values) // (2 * MAX_POINTS))
        panel.plot(seed[axis], seed[2], color=color, linewidth=0.7, alpha=0.4)
    mean = mean_curve([curve(run) for run in group.counted])
    panel.plot(
        mean[axis],
        mean[2],
        color=color,
        linewidth=1.9,
        linestyle=style,
        marker="o" if mean.shape[1] <= UNSMOOTHED_POINTS else "",
        markersize=3.5,
    )


def _caption(groups: Sequence[Group], curve: GetCurve, *, separate: bool, outside: int) -> str:
    parts = []
    several = any(len(group.runs) > 1 for group in groups)
    runs = [run for group in groups for run in group.runs]
    if any(len(curve(run).values) > UNSMOOTHED_POINTS for run in runs):
        thick = "mean over seeds of running medians" if several else "running medians"
        parts.append(f"Thin: logged values. Thick: {thick} over a tenth of the run.")
    elif several:
        parts.append("Thin: seeds. Thick: mean over seeds.")
    if separate:
        parts.append("The scales differ, so each method has its own axis.")
    if outside:
        parts.append(f"Values outside the axis: {outside}.")
    return " ".join(parts)
