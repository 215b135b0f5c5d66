"""Figures as SVG for the page, drawn without pyplot and the same to the last byte every time.

Lines are drawn in the light palette, and the colours in the SVG then replaced by variables of
the page's style sheet, so that one drawing suits a light and a dark background. Text stays text.
"""

import io
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .labels import title as titled
from .model import Collection, Curve, Experiment, Group, Run

try:
    from matplotlib import rc_context
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ticker import EngFormatter, MaxNLocator
except ImportError as error:
    raise ImportError("the report needs matplotlib: pip install 'fdsm[report]'") from error

LIGHT = ("#2c42b3", "#c47706", "#03a676", "#ae82c2", "#18014e", "#724c22")
"""Colours that are told apart with any colour vision, on white."""

DARK = ("#6c92e0", "#dc6b1a", "#2be392", "#ffc4ec", "#8b52fa", "#dcf266")
"""The same places in the order, on a dark background."""

DASHES = ("", "5 2", "1.5 1.5")
"""How lines are dashed the first, second and third time round the colours."""

INK, RULE, PAPER = "#123456", "#abcdef", "#fedcba"
"""Stand for the colours of text, of rules and of the background while drawing."""

POINTS = 400
"""How many points of a seed's line are drawn at most."""

UNSMOOTHED = 24
"""Up to how many points the mean over seeds is of the points themselves."""

Array = NDArray[np.float64]
Colours = Mapping[str, int]
"""The place in the palette of each group, by label."""

STYLE: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": RULE,
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.unicode_minus": True,
    "font.size": 9,
    "grid.color": RULE,
    "grid.linewidth": 0.5,
    "svg.fonttype": "none",
    "text.color": INK,
    "text.parse_math": False,
    "xtick.color": RULE,
    "xtick.labelcolor": INK,
    "ytick.color": RULE,
    "ytick.labelcolor": INK,
}


@dataclass(frozen=True)
class Drawing:
    """A figure on the page.

    Attributes:
        title: What it shows.
        caption: How to read it.
        figure: The figure itself.
        wide: Whether it takes the whole width.
    """

    title: str
    caption: str
    figure: Figure
    wide: bool = False


def styled() -> AbstractContextManager[None]:
    """Return a context in which figures have the style of the page."""
    return rc_context(STYLE)


def palette(collection: Collection) -> dict[str, int]:
    """Return the place in the palette of every label: one method, one colour, on all the page."""
    labels = dict.fromkeys(group.label for group in collection.groups)
    return {label: index for index, label in enumerate(labels)}


def drawings(experiment: Experiment, colours: Colours) -> list[Drawing]:
    """Return the figures of an experiment: losses, validation, times of steps.

    Args:
        experiment: The runs.
        colours: The place in the palette of each group.

    Returns:
        Those figures for which something was logged.
    """
    groups = experiment.groups
    names = dict.fromkeys(name for run in experiment.runs for name in run.validation)
    curves: list[tuple[str, Callable[[Run], Curve]]] = [("training loss", lambda run: run.loss)]
    for name in names:
        curves.append((f"validation: {titled(name)}", _validation(name)))
    drawn = []
    with styled():
        for name, of in curves:
            drawn += [line(groups, colours, name, of, timed=timed) for timed in (False, True)]
        drawn.append(step_times(groups, colours))
    return [drawing for drawing in drawn if drawing is not None]


def line(
    groups: Sequence[Group],
    colours: Colours,
    title: str,
    of: Callable[[Run], Curve],
    *,
    timed: bool,
) -> Drawing | None:
    """Draw a curve of every run: seeds thin, their mean thick.

    Curves on scales so different that one would be flat get an axis of their own each.

    Args:
        groups: The groups.
        colours: The place in the palette of each group.
        title: What the curve is.
        of: The curve of a run.
        timed: Whether to draw against the time of training rather than iterations.

    Returns:
        The drawing, or none if nothing was logged.
    """
    drawn = [group for group in groups if len(_finite(group, of, timed=timed))]
    if not drawn:
        return None
    apart = _apart([_finite(group, of, timed=timed) for group in drawn])
    panels = [[group] for group in drawn] if apart else [drawn]
    figure = Figure(figsize=(5.2, 3.2 if len(panels) == 1 else 0.4 + 1.5 * len(panels)))
    figure.set_layout_engine("constrained")
    outside = 0
    axes = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    for panel, shown in zip(axes, panels, strict=True):
        for group in shown:
            _lines(panel, group, colours[group.label], of, timed=timed)
        everything = np.concatenate([_finite(group, of, timed=timed) for group in shown])
        low, high = limits(everything)
        outside += int(((everything < low) | (everything > high)).sum())
        panel.set_ylim(low, high)
        panel.yaxis.set_major_locator(MaxNLocator(5 if len(panels) == 1 else 3))
        panel.set_xlim(left=0)
    axes[-1].set_xlabel("seconds" if timed else "iteration")
    if not timed:
        axes[-1].xaxis.set_major_formatter(EngFormatter(sep=""))
    against = "training time" if timed else "iteration"
    caption = _caption(drawn, of, apart=apart, outside=outside)
    return Drawing(f"{title} against {against}", caption, figure)


def step_times(groups: Sequence[Group], colours: Colours) -> Drawing | None:
    """Draw how long the steps of each group took.

    Args:
        groups: The groups.
        colours: The place in the palette of each group.

    Returns:
        The drawing, or none if no times were logged.
    """
    timed = {
        group.label: np.array([t for run in group.runs for t in run.step_times])
        for group in groups
        if any(run.step_times for run in group.runs)
    }
    if not timed:
        return None
    figure = Figure(figsize=(10.6, 0.7 + 0.42 * len(timed)))
    figure.set_layout_engine("constrained")
    panel = figure.subplots()
    for place, (label, times) in enumerate(timed.items()):
        _, colour = pen(colours[label])
        low, first, middle, third, high = np.percentile(times, [5, 25, 50, 75, 95])
        panel.hlines(place, low, high, color=colour, linewidth=1.5)
        panel.barh(place, third - first, 0.44, first, color=colour, alpha=0.35, linewidth=0)
        panel.vlines(middle, place - 0.3, place + 0.3, color=colour, linewidth=2.5)
        panel.annotate(
            f"{middle:,.3g} ms",
            (high, place),
            (6, 0),
            textcoords="offset points",
            verticalalignment="center",
        )
    longest = max(float(np.percentile(times, 95)) for times in timed.values())
    panel.set_xlim(0, 1.14 * longest or 1)
    panel.set_ylim(len(timed) - 0.4, -0.6)
    panel.set_yticks(range(len(timed)), list(timed))
    panel.tick_params(axis="y", length=0)
    panel.grid(visible=False, axis="y")
    panel.set_xlabel("milliseconds per step")
    caption = "Of the steps that were logged. Line: 5 to 95 %; box: the middle half; bar: median."
    return Drawing("time of a step", caption, figure, wide=True)


def limits(values: Array) -> tuple[float, float]:
    """Return axis limits that a few outliers do not decide.

    They hold all values up to three times the range of the middle nine tenths away from it.

    Args:
        values: Finite numbers, shape `(N,)`.

    Returns:
        The lower and upper limit, never equal.

    Example:
        >>> low, high = limits(np.array([*np.linspace(0, 1, 200), 1e6]))
        >>> -0.1 < low < 0 and 1 < high < 1.1
        True
    """
    low, high = np.percentile(values, [5, 95])
    reach = 3 * (high - low) or 3 * abs(high) or 1.0
    inside = values[(values >= low - reach) & (values <= high + reach)]
    low, high = inside.min(), inside.max()
    margin = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
    return float(low - margin), float(high + margin)


def smoothed(curve: Curve, half: int = 0) -> Array:
    """Return a curve as running medians: a single outlier of a loss should not bend the line.

    Args:
        curve: The curve.
        half: How many points on either side a median takes in. Near the start, where a loss
            falls steeply, it takes in fewer on both.

    Returns:
        Iterations, seconds and values, shape `(3, W)`, with at most `POINTS` points and without
        values that are not finite.
    """
    points = _points(curve)
    points = points[:, np.isfinite(points[2])]
    count = points.shape[1]
    places = np.unique(np.linspace(0, count - 1, min(count, POINTS)).round().astype(int))
    reach = np.minimum(half, places)
    medians = [np.median(points[2, k - r : k + r + 1]) for k, r in zip(places, reach, strict=True)]
    return np.vstack([points[:2, places], np.array(medians)[None]])


def mean(curves: Sequence[Curve]) -> Array:
    """Return the mean over seeds of smoothed curves, at the iterations of the first.

    It spans what all of them have: beyond, the seeds in it would change on the way.

    Args:
        curves: The curves of the seeds.

    Returns:
        Iterations, seconds and values, shape `(3, W)`.
    """
    halves = [len(c.values) // 20 if len(c.values) > UNSMOOTHED else 0 for c in curves]
    seeds = [smoothed(curve, half) for curve, half in zip(curves, halves, strict=True)]
    seeds = [seed for seed in seeds if seed.size]
    if not seeds:
        return np.empty((3, 0))
    grid = seeds[0][0]
    start, end = max(seed[0, 0] for seed in seeds), min(seed[0, -1] for seed in seeds)
    grid = grid[(grid >= start) & (grid <= end)]
    rows = [[np.interp(grid, seed[0], row) for row in seed] for seed in seeds]
    return np.asarray(np.mean(rows, axis=0))


def svg(figure: Figure, salt: str) -> str:
    """Return a figure as SVG to put into HTML.

    Args:
        figure: The figure.
        salt: A name that no other figure of the page has: identifiers are derived from it.

    Returns:
        The element, without what HTML does not need: namespaces, sizes, unused identifiers.
    """
    drawn = _drawn(figure, salt)
    drawn = re.sub(
        r'<svg [^>]*?(viewBox="[^"]*")[^>]*>', r'<svg \1 aria-hidden="true">', drawn, count=1
    )
    drawn = re.sub(r'<g id="[^"]*"', "<g", drawn).replace("xlink:href", "href")
    for index, colour in enumerate(LIGHT):
        drawn = drawn.replace(colour, f"var(--c{index})")
    drawn = drawn.replace(INK, "var(--ink)").replace(RULE, "var(--rule)")
    return drawn.replace(PAPER, "var(--paper)").strip()


def svg_file(figure: Figure, salt: str) -> str:
    """Return a figure as the content of an SVG file, on white.

    Args:
        figure: The figure.
        salt: Identifiers are derived from it.

    Returns:
        The same text every time.
    """
    drawn = _drawn(figure, salt)
    start = drawn.index(">", drawn.index("<svg")) + 1
    ground = '\n <rect width="100%" height="100%" fill="#ffffff"/>'
    drawn = drawn[:start] + ground + drawn[start:]
    return drawn.replace(INK, "#1c1d20").replace(RULE, "#dedfdb").replace(PAPER, "#ffffff")


def _drawn(figure: Figure, salt: str) -> str:
    file = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with rc_context({**STYLE, "svg.hashsalt": salt}), warnings.catch_warnings():
        # the page's font draws the text, so it does not matter what matplotlib's has no glyph for
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(file, format="svg", metadata=nothing, transparent=True)
    drawn = file.getvalue()
    return drawn[drawn.index("<svg") :]


def _validation(name: str) -> Callable[[Run], Curve]:
    return lambda run: run.validation.get(name, Curve())


def pen(place: int) -> tuple[str, str]:
    """Return the dashes and the colour of a place in the palette."""
    return DASHES[place // len(LIGHT) % len(DASHES)], LIGHT[place % len(LIGHT)]


def _finite(group: Group, of: Callable[[Run], Curve], *, timed: bool) -> Array:
    """Return the values that can be drawn."""
    points = np.concatenate([_points(of(run)) for run in group.runs], axis=1)
    times, values = points[1 if timed else 0], points[2]
    return np.asarray(values[np.isfinite(values) & np.isfinite(times)])


def _points(curve: Curve) -> Array:
    """Return iterations, seconds and values, shape `(3, N)`, NaN where they cannot be drawn."""
    points = np.array([curve.iterations, curve.seconds, curve.values], dtype=float)
    return np.where(np.abs(points) < 1e100, points, np.nan)


def _apart(values: Sequence[Array]) -> bool:
    """Return whether some of the curves would be flat lines on a common axis."""
    ranges = [np.percentile(v, [5, 95]) for v in values]
    whole = max(high for _, high in ranges) - min(low for low, _ in ranges)
    return len(ranges) > 1 and any(high - low < 0.02 * whole for low, high in ranges)


def _lines(
    panel: Axes, group: Group, place: int, of: Callable[[Run], Curve], *, timed: bool
) -> None:
    dashes, colour = pen(place)
    style = (0, tuple(float(d) for d in dashes.split())) if dashes else "solid"
    along = 1 if timed else 0
    for run in group.runs:
        seed = smoothed(of(run), len(of(run).values) // (2 * POINTS))
        panel.plot(seed[along], seed[2], color=colour, linewidth=0.7, alpha=0.4)
    thick = mean([of(run) for run in group.counted])
    panel.plot(
        thick[along],
        thick[2],
        color=colour,
        linewidth=1.9,
        linestyle=style,
        marker="o" if thick.shape[1] <= UNSMOOTHED else "",
        markersize=3.5,
    )


def _caption(
    groups: Sequence[Group], of: Callable[[Run], Curve], *, apart: bool, outside: int
) -> str:
    parts = []
    several = any(len(group.runs) > 1 for group in groups)
    if any(len(of(run).values) > UNSMOOTHED for group in groups for run in group.runs):
        of_what = "the mean over seeds of running medians" if several else "running medians"
        parts.append(f"Thin: what was logged; thick: {of_what} over a tenth of the run.")
    elif several:
        parts.append("Thin: the seeds; thick: their mean.")
    if apart:
        parts.append("The scales differ, so each method has an axis of its own.")
    if outside:
        parts.append(f"Outliers beyond the axis: {outside}.")
    return " ".join(parts)
