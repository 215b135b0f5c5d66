"""Plots of a model of a table: scores, p-values, columns, correlations and training.

The data are drawn in the first color, and samples or new rows in the second. Each is also drawn
with another shape, so that the plots can be read without colors.
"""

import itertools
import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import EngFormatter, FuncFormatter, LogLocator, MaxNLocator, NullFormatter
from numpy.typing import NDArray

from ...measurement import format_number
from ..summary import (
    LARGEST,
    ColumnHistogram,
    Correlations,
    Histogram,
    PValueCounts,
    ScoredFile,
    Summary,
    Training,
    robust_range,
)
from .labels import distinct_labels, number_legend, shorten, typeset
from .svg import DATA, INK, NEW, Plot, page_style

LEVEL_LENGTH = 12
"""Longest name of a level in a plot, in characters."""

MAX_NUMBERS = 8
"""Correlation matrices with more columns have no numbers in their cells."""

MIN_SIDE = 0.45
"""Side of the smallest square around a number, relative to a cell: a correlation of 0.24."""

PERCENT = FuncFormatter(lambda share, _: f"{100 * share:.4g} %")
"""Formats shares on an axis."""


def plot_scores(summary: Summary, scored: ScoredFile | None = None) -> list[Plot]:
    """Plot the scores of training and held-out rows, and of a scored file if there is one.

    Args:
        summary: The summary of the model.
        scored: The scores of a file.

    Returns:
        The distribution of the scores, and the share of rows at or above each score.
    """
    curves: list[tuple[str, Histogram, dict[str, Any]]] = [
        ("training rows", summary.train_scores, {"color": INK, "lw": 1, "ls": (0, (4, 2))}),
        ("held-out rows", summary.held_out_scores, {"color": DATA, "lw": 1.5}),
    ]
    higher, shares = "Higher is more unusual.", "Share of rows with at least this score."
    if scored is None:
        shares += " New rows should follow the curve of held-out rows."
    else:
        curves.append((shorten(scored.name, 32), scored.histogram, {"color": NEW, "lw": 2}))
        higher += f" Rows of {scored.name} to the right of both curves are unusual."
        counts = scored.histogram.counts
        if beyond := counts.below + counts.above:
            higher += f" Rows of {scored.name} beyond the ends of the axis: {beyond:,}."
        if scored.threshold is None:
            shares += f" No row of {scored.name} is flagged, so there is no threshold."
        else:
            shares += " Dotted: the threshold. Rows at or above it are flagged."
    higher += (
        " Held-out rows show what to expect of new rows. Training rows are scored by members that "
        "have seen them, so their scores are always somewhat lower."
    )
    with page_style():
        (density_figure, density), (share_figure, share) = _figure(), _figure()
        for name, histogram, style in curves:
            edges = np.array(histogram.edges)
            density.stairs(histogram.counts.shares / np.diff(edges), edges, label=name, **style)
            at_or_above = np.array(histogram.counts.shares_at_or_above)
            shown = at_or_above > 0
            share.plot(edges[shown], at_or_above[shown], label=name, **style)
        density.set_ylabel("density")
        density.yaxis.set_major_locator(MaxNLocator(4))
        density.set_ylim(bottom=0)
        share.set_ylabel("share of rows")
        share.set_yscale("log")
        share.yaxis.set_major_locator(LogLocator(10, numticks=8))
        share.yaxis.set_minor_formatter(NullFormatter())
        share.yaxis.set_major_formatter(PERCENT)
        rows = max(histogram.counts.total for _, histogram, _ in curves)
        share.set_ylim(0.5 / max(rows, 1), 1.5)
        _set_score_axes([density, share], [histogram for _, histogram, _ in curves], scored)
        for figure in (density_figure, share_figure):
            figure.legend(loc="outside lower left", ncols=2, frameon=False, handlelength=2.6)
    return [
        Plot("Distribution of scores", higher, density_figure),
        Plot("Share of rows at or above a score", shares, share_figure),
    ]


def _set_score_axes(
    both: Sequence[Axes], histograms: Sequence[Histogram], scored: ScoredFile | None
) -> None:
    """Let the axes contain the bins that are not empty, and the threshold."""
    edges = np.array(histograms[0].edges)
    filled = np.flatnonzero(sum(np.array(histogram.counts.inside) for histogram in histograms))
    low, high = (edges[filled[0]], edges[filled[-1] + 1]) if len(filled) else edges[[0, -1]]
    threshold = None if scored is None else scored.threshold
    if threshold is not None and abs(threshold) < LARGEST:
        margin = 0.1 * (high - low)
        low, high = min(low, threshold - margin), max(high, threshold + margin)
    for axes in both:
        if threshold is not None:
            axes.axvline(threshold, color=INK, linewidth=1.2, linestyle=":", label="threshold")
        axes.set(xlabel="score", xlim=(low, high))


def _figure() -> tuple[Figure, Axes]:
    figure = Figure(figsize=(5.2, 3.4), layout="constrained")
    return figure, figure.subplots()


def plot_p_values(p_values: PValueCounts) -> Plot:
    """Plot the p-values of held-out rows in bins, with the expected count and its range.

    Args:
        p_values: Counts in bins of equal width.

    Returns:
        The plot.
    """
    bins = len(p_values.counts)
    with page_style():
        figure, axes = _figure()
        edges = np.linspace(0, 1, bins + 1)
        low, high, expected = p_values.low, p_values.high, p_values.expected
        axes.axhspan(low, high, color=INK, alpha=0.12, linewidth=0, label="95 % range")
        axes.axhline(expected, color=INK, linewidth=1.1, linestyle="--", label="expected")
        counts = np.array(p_values.counts)
        axes.stairs(counts, edges, color=DATA, linewidth=1.7, label="held-out rows")
        axes.set(xlabel="p-value", ylabel="number of rows", xlim=(0, 1))
        axes.set_ylim(0, 1.12 * max(high, 1.0, *p_values.counts))
        axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
        figure.legend(loc="outside lower left", ncols=3, frameon=False, handlelength=2.2)
    caption = (
        f"The counts should scatter around {format_number(expected)}. For uniform "
        "p-values, a count lies in the gray range with a probability of about 95 %, so about one "
        f"of the {bins} bins lies outside. High counts on the left: too many normal rows get "
        "small p-values."
    )
    return Plot("p-values of held-out rows", caption, figure)


def plot_column(histogram: ColumnHistogram) -> Plot:
    """Plot the values of a column in the training rows and in samples.

    Args:
        histogram: The counts in common bins or levels.

    Returns:
        A small plot. Its caption has the distance, and the counts that are not in the plot.
    """
    with page_style():
        plot = _plot_levels if histogram.levels else _plot_bins
        figure = plot(histogram)
    return Plot(histogram.column, _column_caption(histogram), figure)


def _plot_bins(histogram: ColumnHistogram) -> Figure:
    figure = Figure(figsize=(2.2, 1.5), layout="constrained")
    axes = figure.subplots()
    edges = np.array(histogram.edges)
    axes.stairs(np.array(histogram.data.shares), edges, fill=True, color=DATA, alpha=0.35)
    if histogram.samples.total:
        axes.stairs(np.array(histogram.samples.shares), edges, color=NEW, linewidth=1.5)
    axes.set_xlim(edges[0], edges[-1])
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_locator(MaxNLocator(3))
    axes.yaxis.set_major_formatter(PERCENT)
    if histogram.is_date:
        axes.set_xticks(*date_ticks(edges[0], edges[-1]))
    else:
        axes.xaxis.set_major_locator(MaxNLocator(2))
        axes.ticklabel_format(axis="x", useOffset=False, scilimits=(-3, 5))
    return figure


def _plot_levels(histogram: ColumnHistogram) -> Figure:
    count = len(histogram.levels)
    figure = Figure(figsize=(2.2, max(1.5, 0.45 + 0.18 * count)), layout="constrained")
    axes = figure.subplots()
    rows = np.arange(count)
    axes.barh(rows, histogram.data.shares, height=0.75, color=DATA, alpha=0.35)
    if histogram.samples.total:
        shares = histogram.samples.shares
        axes.plot(
            shares, rows, color=NEW, marker="|", markersize=9, markeredgewidth=2, linestyle=""
        )
    axes.set_yticks(rows, distinct_labels(histogram.levels, LEVEL_LENGTH))
    axes.set_ylim(count - 0.4, -0.6)
    axes.set_xlim(left=0)
    axes.grid(visible=False, axis="y")
    axes.xaxis.set_major_locator(MaxNLocator(2))
    axes.xaxis.set_major_formatter(PERCENT)
    return figure


def _column_caption(histogram: ColumnHistogram) -> str:
    parts = [] if histogram.distance is None else [f"Distance {histogram.distance:.2f}."]
    sets = {"training rows": histogram.data, "samples": histogram.samples}
    outside = [
        f"{100 * (counts.below + counts.above) / counts.total:.2g} % of the {name}"
        for name, counts in sets.items()
        if counts.below + counts.above
    ]
    if outside:
        parts.append(f"Outside the axis: {', '.join(outside)}.")
    return " ".join(parts)


def date_ticks(low: float, high: float) -> tuple[list[float], list[str]]:
    """Return two ticks for an axis of dates.

    Args:
        low: Lower end of the axis, in seconds since 1970.
        high: Upper end of the axis.

    Returns:
        Places of the ticks in seconds since 1970, and their labels. The labels are as precise as
        the length of the axis requires. Empty if the calendar does not reach that far.

    Example:
        >>> date_ticks(0.0, 10 * 365 * 86400.0)[1]
        ['1972', '1977']
    """
    days = (high - low) / 86400
    formats = {3 * 365: "%Y", 90: "%b %Y", 3: "%d %b", -1: "%H:%M"}
    pattern = next(pattern for shortest, pattern in formats.items() if days > shortest)
    start = datetime(1970, 1, 1, tzinfo=UTC)
    ticks = [low + part * (high - low) for part in (0.2, 0.8)]
    try:
        dates = [start + timedelta(seconds=tick) for tick in ticks]
    except OverflowError:
        return [], []
    return ticks, [f"{date:{pattern}}" for date in dates]


def plot_correlations(correlations: Correlations) -> list[Plot]:
    """Plot the correlation matrices of training rows and samples.

    The area of a square is the absolute correlation. Squares of negative correlations are hollow.
    Small matrices have numbers in their cells.

    Args:
        correlations: The matrices.

    Returns:
        One plot for each matrix that has any correlations.
    """
    names = distinct_labels(correlations.columns)
    legend = number_legend(correlations.columns, names)
    shortened = "" if names == list(correlations.columns) else "Long names are shortened."
    caption = " ".join(filter(None, (shortened, legend)))
    with page_style():
        return [
            Plot(f"Correlations of {title}", caption, _plot_matrix(names, matrix))
            for title, matrix in {
                "training rows": np.array(correlations.data, dtype=np.float64),
                "samples": np.array(correlations.samples, dtype=np.float64),
            }.items()
            if not np.isnan(matrix).all()
        ]


def _plot_matrix(names: Sequence[str], matrix: NDArray[np.float64]) -> Figure:
    count = len(names)
    figure = Figure(figsize=(5.2, 5.2), layout="constrained")
    axes = figure.subplots()
    for column, row in itertools.combinations_with_replacement(range(count), 2):
        if not math.isnan(matrix[row, column]):
            _draw_cell(axes, row, column, matrix[row, column], numbers=count <= MAX_NUMBERS)
    size = min(9.0, 150 / count + 2)
    axes.set_xticks(range(count), names, rotation=90, fontsize=size)
    axes.set_yticks(range(count), names, fontsize=size)
    axes.set(xlim=(-0.5, count - 0.5), ylim=(count - 0.5, -0.5), aspect="equal")
    axes.tick_params(length=0)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    return figure


def _draw_cell(axes: Axes, row: int, column: int, value: float, *, numbers: bool) -> None:
    side = 0.92 * math.sqrt(min(abs(value), 1.0))
    corner, color = (column - side / 2, row - side / 2), DATA if value > 0 else NEW
    axes.add_patch(Rectangle(corner, side, side, fill=False, edgecolor=color, linewidth=0.7))
    if value > 0:
        axes.add_patch(Rectangle(corner, side, side, color=color, alpha=0.35, linewidth=0))
    if numbers and side > MIN_SIDE:
        axes.text(column, row, typeset(f"{value:.2f}"), ha="center", va="center", fontsize=8)


def plot_training(training: Training) -> Plot:
    """Plot the losses of held-out rows during training.

    Args:
        training: How the model was trained.

    Returns:
        The plot. A few very large losses, as at the start, are outside the axis.
    """
    points = [(i, loss) for i, loss in training.validation_losses if math.isfinite(loss)]
    losses = np.array([loss for _, loss in points])
    low, high = robust_range(losses)
    with page_style():
        figure, axes = _figure()
        axes.plot([i for i, _ in points], losses, color=DATA, linewidth=1.5, marker="o", ms=3)
        axes.set(xlabel="iteration", ylabel="loss")
        axes.set_xlim(left=0)
        axes.set_ylim(low - 0.05 * (high - low), high + 0.05 * (high - low))
        axes.yaxis.set_major_locator(MaxNLocator(5))
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    outside = int(((losses < low) | (losses > high)).sum())
    caption = (
        "Each row is held out by one member of the ensemble. The curve should be flat at its end."
    )
    return Plot(
        "Loss of held-out rows",
        f"{caption} Values outside the axis: {outside}." if outside else caption,
        figure,
    )
