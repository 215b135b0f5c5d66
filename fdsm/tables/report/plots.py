"""Plots of a run on a table: scores, calibration, columns and correlations.

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
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import NDArray

from ...measurement import format_number
from paper.report.format import typeset
from paper.report.plots import INK, LIGHT, Plot, page_style, set_log_scale
from .labels import distinct_labels, number_legend, shorten, ticks_that_fit
from .records import (
    Calibration,
    ColumnHistogram,
    Correlations,
    Histogram,
    ScoredRecord,
    TableRecord,
)

DATA, NEW = LIGHT[:2]
"""Colors of the data, and of samples or new rows."""

REACH = 1.5
"""The axis of scores ends at this many widths of the range of known rows beyond that range."""

LEVEL_LENGTH = 12
"""Longest name of a level in a plot, in characters."""

MAX_NUMBERS = 8
"""Correlation matrices with more columns have no numbers in their cells."""

PERCENT = FuncFormatter(lambda share, _: f"{100 * share:.4g} %")
"""Formats shares on an axis."""

Curve = tuple[str, Histogram, dict[str, Any]]
"""Name, histogram and line style."""


def plot_scores(table: TableRecord, scored: ScoredRecord | None = None) -> list[Plot]:
    """Plot the scores of training and held-out rows, and of a scored file if there is one.

    Args:
        table: The record of the run.
        scored: The scores of a data file.

    Returns:
        The distribution of the scores, and the share of rows at or above each score.
    """
    histograms = [table.train_scores, table.held_out_scores]
    low, high, beyond = _score_axis(histograms, scored)
    with page_style():
        plots = [_plot_density(table, scored), _plot_shares(table, scored)]
    for plot in plots:
        plot.figure.axes[0].set_xlim(low, high)
    if not beyond or scored is None:
        return plots
    note = f" Rows of {scored.file} beyond the ends of the axis: {beyond:,.0f}."
    return [Plot(plot.title, plot.caption + note, plot.figure) for plot in plots]


def _score_axis(
    histograms: Sequence[Histogram], scored: ScoredRecord | None
) -> tuple[float, float, float]:
    """Return the ends of the axis of scores, and the number of new rows beyond them."""
    low = min(_range(histogram)[0] for histogram in histograms)
    high = max(_range(histogram)[1] for histogram in histograms)
    if scored is None:
        return low, high, 0
    reach = REACH * (high - low)
    first, last = _range(scored.histogram)
    low = min(low, max(first, low - reach))
    high = max(high, min(last, high + reach))
    if not math.isnan(scored.threshold):
        margin = 0.1 * (high - low)
        low, high = min(low, scored.threshold - margin), max(high, scored.threshold + margin)
    counts = scored.histogram.counts
    bins = zip(scored.histogram.edges, scored.histogram.edges[1:], counts.inside, strict=False)
    outside = sum(count for start, end, count in bins if end <= low or start >= high)
    return low, high, outside + counts.below + counts.above


def _range(histogram: Histogram) -> tuple[float, float]:
    """Return the outer edges of the bins that are not empty."""
    edges = histogram.edges
    filled = [index for index, count in enumerate(histogram.counts.inside) if count]
    return (edges[filled[0]], edges[filled[-1] + 1]) if filled else (edges[0], edges[-1])


def _plot_density(table: TableRecord, scored: ScoredRecord | None) -> Plot:
    figure, axes = _figure()
    for name, histogram, style in _curves(table, scored):
        density = np.array(histogram.counts.shares) / np.diff(histogram.edges)
        axes.stairs(density, np.array(histogram.edges), label=name, **style)
        if scored is not None and histogram is scored.histogram:
            axes.stairs(density, np.array(histogram.edges), fill=True, color=NEW, alpha=0.2)
    axes.set(xlabel="score", ylabel="density")
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_locator(MaxNLocator(4))
    _finish(figure, axes, scored)
    look_for = (
        "Held-out rows show what to expect of new rows. Training rows are scored by members that "
        "have seen them, so their scores are always somewhat lower."
    )
    if scored is not None:
        look_for += f" Rows of {scored.file} to the right of both curves are unusual."
    return Plot("Distribution of scores", f"Higher is more unusual. {look_for}", figure)


def _plot_shares(table: TableRecord, scored: ScoredRecord | None) -> Plot:
    figure, axes = _figure()
    fewest = 1.0
    for name, histogram, style in _curves(table, scored):
        share = np.array(histogram.counts.shares_at_or_above)
        shown = share > 0
        axes.plot(np.array(histogram.edges)[shown], share[shown], label=name, **style)
        fewest = min(fewest, 1 / max(histogram.counts.total, 1))
    axes.set(xlabel="score", ylabel="share of rows")
    set_log_scale(axes, "y")
    axes.set_ylim(fewest / 2, 1.5)
    axes.yaxis.set_major_formatter(PERCENT)
    _finish(figure, axes, scored)
    caption = "Share of rows with at least this score, on a logarithmic axis."
    if scored is None:
        caption += " New rows should follow the curve of held-out rows."
    elif math.isnan(scored.threshold):
        caption += f" No row of {scored.file} is flagged, so there is no threshold."
    else:
        caption += " Dotted: the threshold. Rows at or above it are flagged."
    return Plot("Share of rows at or above a score", caption, figure)


def _curves(table: TableRecord, scored: ScoredRecord | None) -> list[Curve]:
    curves: list[Curve] = [
        ("training rows", table.train_scores, {"color": INK, "linewidth": 1.0, "ls": (0, (4, 2))}),
        ("held-out rows", table.held_out_scores, {"color": DATA, "linewidth": 1.5}),
    ]
    if scored is not None:
        curves.append((shorten(scored.file, 32), scored.histogram, {"color": NEW, "linewidth": 2}))
    return curves


def _figure() -> tuple[Figure, Axes]:
    figure = Figure(figsize=(5.2, 3.4), layout="constrained")
    return figure, figure.subplots()


def _finish(figure: Figure, axes: Axes, scored: ScoredRecord | None) -> None:
    if scored is not None and not math.isnan(scored.threshold):
        axes.axvline(scored.threshold, color=INK, linewidth=1.2, linestyle=":", label="threshold")
    figure.legend(loc="outside lower left", ncols=2, frameon=False, handlelength=2.6)


def plot_calibration(calibration: Calibration) -> Plot:
    """Plot the p-values of held-out rows in bins, with the expected count and its range.

    Args:
        calibration: Counts in bins of equal width.

    Returns:
        The plot.
    """
    bins = len(calibration.counts)
    with page_style():
        figure, axes = _figure()
        edges = np.linspace(0, 1, bins + 1)
        low, high, expected = calibration.low, calibration.high, calibration.expected
        axes.axhspan(low, high, color=INK, alpha=0.12, linewidth=0, label="95 % range")
        axes.axhline(expected, color=INK, linewidth=1.1, linestyle="--", label="expected")
        counts = np.array(calibration.counts)
        axes.stairs(counts, edges, color=DATA, linewidth=1.7, label="held-out rows")
        axes.set(xlabel="p-value", ylabel="number of rows", xlim=(0, 1))
        axes.set_ylim(0, 1.12 * max(high, 1.0, *calibration.counts))
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
        A small plot. Its caption has the distances, and the counts that are not in the plot.
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
    if histogram.samples is not None:
        axes.stairs(np.array(histogram.samples.shares), edges, color=NEW, linewidth=1.5)
    axes.set_xlim(edges[0], edges[-1])
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_locator(MaxNLocator(3))
    axes.yaxis.set_major_formatter(PERCENT)
    if histogram.is_date:
        ticks, labels = date_ticks(edges[0], edges[-1])
    else:
        ticks, labels, power = ticks_that_fit(edges[0], edges[-1])
        axes.set_xlabel(power, loc="right")
    axes.set_xticks(ticks, labels)
    return figure


def _plot_levels(histogram: ColumnHistogram) -> Figure:
    count = len(histogram.levels)
    figure = Figure(figsize=(2.2, max(1.5, 0.45 + 0.18 * count)), layout="constrained")
    axes = figure.subplots()
    rows = np.arange(count)
    axes.barh(rows, histogram.data.shares, height=0.75, color=DATA, alpha=0.35)
    if histogram.samples is not None:
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
    parts = []
    if not math.isnan(histogram.distance):
        held_out = histogram.held_out_distance
        beside = "" if math.isnan(held_out) else f" (held-out rows: {held_out:.2f})"
        parts.append(f"Distance {histogram.distance:.2f}{beside}.")
    sets = {"training rows": histogram.data, "samples": histogram.samples}
    outside = [
        f"{100 * (counts.below + counts.above) / counts.total:.2g} % of the {name}"
        for name, counts in sets.items()
        if counts is not None and counts.below + counts.above
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
        One plot for each matrix.
    """
    matrices = {"training rows": correlations.data, "samples": correlations.samples}
    names = distinct_labels(correlations.columns)
    legend = number_legend(correlations.columns, names)
    shortened = "" if names == list(correlations.columns) else "Long names are shortened."
    caption = " ".join(filter(None, (shortened, legend)))
    with page_style():
        return [
            Plot(f"Correlations of {title}", caption, _plot_matrix(names, np.array(matrix)))
            for title, matrix in matrices.items()
            if matrix is not None
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
    if numbers:
        axes.text(column, row, typeset(f"{value:.2f}"), ha="center", va="center", fontsize=8)
