"""Plots as SVG: shared style, panels of studies, and two-dimensional densities.

Plots are drawn without pyplot, and the same data give the same bytes. Colors are drawn with
placeholders that the page replaces by variables of its style sheet, so that one plot works on a
light and on a dark background. Text stays text.
"""

import io
import re
import warnings
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fdsm.extras import name_missing_extra

from .aggregate import Group
from .figure import Line, Panel
from .format import SUPERSCRIPT
from .records import Arrays

with name_missing_extra("a report"):
    from matplotlib import rc_context
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

__all__ = ["DARK", "LIGHT", "page_style", "plot_panels", "svg_file"]

LIGHT = ("#2c42b3", "#c47706", "#03a676", "#ae82c2", "#18014e", "#724c22")
"""Line colors on white, distinguishable with any color vision."""

DARK = ("#6c92e0", "#dc6b1a", "#2be392", "#ffc4ec", "#8b52fa", "#dcf266")
"""The same colors on a dark background."""

DASHES = ("", "5 2", "1.5 1.5")
"""Dash patterns of the first, second and third use of the same color."""

MARKERS = ("o", "s", "^")
"""Markers of the first, second and third use of the same color in a panel."""

REFERENCE_DASHES: tuple[tuple[float, ...], ...] = ((5, 2), (1.5, 1.5), (6, 2, 1.5, 2))
"""Dash patterns of references."""

INK, RULE, PAPER = "#123456", "#abcdef", "#fedcba"
"""Placeholders for the colors of text, rules and background."""

ARROW_EVERY = 5
"""Distance between the arrows of a score, in points of the grid."""

LEVELS = (-6.0, -4.0, -2.0, -1.0, -0.25)
"""Contour levels of a log-density, relative to its maximum."""

Mask = NDArray[np.bool_]

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
class Plot:
    """A figure with its title and caption.

    Attributes:
        title: Title of the figure.
        caption: How to read it.
        figure: The matplotlib figure.
        wide: Whether it takes the full width of the page.
    """

    title: str
    caption: str
    figure: Figure
    wide: bool = False


def page_style() -> AbstractContextManager[None]:
    """Return a context in which figures have the style of the page."""
    return rc_context(STYLE)


def line_style(index: int) -> tuple[str, str]:
    """Return the dash pattern and the color of the group with an index in its experiment."""
    return DASHES[index // len(LIGHT) % len(DASHES)], LIGHT[index % len(LIGHT)]


def svg_element(figure: Figure, salt: str) -> str:
    """Return a figure as an SVG element for an HTML page.

    Args:
        figure: The figure.
        salt: A text that is unique on the page. Identifiers are derived from it.

    Returns:
        The element, without namespaces, sizes and unused identifiers.
    """
    drawn = _svg(figure, salt)
    drawn = re.sub(
        r'<svg [^>]*?(viewBox="[^"]*")[^>]*>', r'<svg \1 aria-hidden="true">', drawn, count=1
    )
    drawn = re.sub(r'<g id="[^"]*"', "<g", drawn).replace("xlink:href", "href")
    for index, color in enumerate(LIGHT):
        drawn = drawn.replace(color, f"var(--c{index})")
    drawn = drawn.replace(INK, "var(--ink)").replace(RULE, "var(--rule)")
    return drawn.replace(PAPER, "var(--paper)").strip()


def svg_file(figure: Figure, salt: str) -> str:
    """Return a figure as the content of an SVG file with a white background.

    Args:
        figure: The figure.
        salt: Identifiers are derived from it.

    Returns:
        The content, which is the same every time.
    """
    drawn = _svg(figure, salt)
    start = drawn.index(">", drawn.index("<svg")) + 1
    ground = '\n <rect width="100%" height="100%" fill="#ffffff"/>'
    drawn = drawn[:start] + ground + drawn[start:]
    return drawn.replace(INK, "#1c1d20").replace(RULE, "#dedfdb").replace(PAPER, "#ffffff")


def _svg(figure: Figure, salt: str) -> str:
    file = io.StringIO()
    no_metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with rc_context({**STYLE, "svg.hashsalt": salt}), warnings.catch_warnings():
        # the font of the page draws the text, so missing glyphs in matplotlib's do not matter
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(file, format="svg", metadata=no_metadata, transparent=True)
    drawn = file.getvalue()
    return drawn[drawn.index("<svg") :]


def plot_panels(panels: Sequence[Panel]) -> list[Plot]:
    """Plot the panels of a study. A curve has the same color in all panels.

    Args:
        panels: The panels.

    Returns:
        One plot for each panel with at least one point that can be drawn.
    """
    lines = [line for panel in panels for line in panel.lines]
    measured = dict.fromkeys(line.name for line in lines if not line.reference)
    references = dict.fromkeys(line.name for line in lines if line.reference)
    colors = {name: index for index, name in enumerate(measured)}
    dashes = {name: index for index, name in enumerate(references)}
    with page_style():
        plots = [_plot_panel(panel, colors, dashes) for panel in panels]
    return [plot for plot in plots if plot is not None]


def _plot_panel(panel: Panel, colors: Mapping[str, int], dashes: Mapping[str, int]) -> Plot | None:
    shown = [(line, mask) for line in panel.lines if (mask := _drawable(line, panel)).any()]
    if not shown:
        return None
    rows = -(-len(shown) // 2)
    figure = Figure(figsize=(5.2, 3.2 + 0.2 * rows), layout="constrained")
    axes = figure.subplots()
    for line, mask in shown:
        if line.reference:
            _draw_reference(axes, line, mask, dashes[line.name])
        else:
            _draw_measured(axes, line, mask, colors[line.name], log=panel.y_log)
    axes.set(xlabel=panel.x_label, ylabel=panel.y_label)
    if panel.x_log:
        set_log_scale(axes, "x")
    if panel.y_log:
        set_log_scale(axes, "y")
    _set_integer_ticks(axes, panel, shown)
    figure.legend(loc="outside lower left", ncols=2, frameon=False, handlelength=2.6)
    return Plot(panel.title, _panel_caption(panel, [line for line, _ in shown]), figure)


def _drawable(line: Line, panel: Panel) -> Mask:
    """Return which points are finite, and positive on a logarithmic axis."""
    x, y = np.array(line.x, dtype=float), np.array(line.y, dtype=float)
    mask = np.isfinite(x) & np.isfinite(y)
    if panel.x_log:
        mask &= x > 0
    if panel.y_log:
        mask &= y > 0
    return np.asarray(mask)


def _draw_reference(axes: Axes, line: Line, mask: Mask, index: int) -> None:
    x, y = np.array(line.x)[mask], np.array(line.y)[mask]
    style = (0, REFERENCE_DASHES[index % len(REFERENCE_DASHES)])
    axes.plot(x, y, color=INK, linewidth=1.1, alpha=0.75, linestyle=style, label=line.name)


def _draw_measured(axes: Axes, line: Line, mask: Mask, index: int, *, log: bool) -> None:
    x, y = np.array(line.x)[mask], np.array(line.y)[mask]
    color = LIGHT[index % len(LIGHT)]
    marker = MARKERS[index // len(LIGHT) % len(MARKERS)] if len(x) <= 40 else ""
    axes.plot(x, y, color=color, linewidth=1.7, marker=marker, markersize=3.8, label=line.name)
    if line.error:
        error = np.nan_to_num(np.array(line.error)[mask])
        low = np.maximum(y - error, y.min() / 3) if log else y - error
        axes.fill_between(x, low, y + error, color=color, alpha=0.18, linewidth=0)


def set_log_scale(axes: Axes, which: Literal["x", "y"]) -> None:
    """Make an axis logarithmic, with ticks at powers of ten."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    axis.set_major_locator(LogLocator(10, numticks=8))
    axis.set_major_formatter(FuncFormatter(lambda value, _: log_tick(value)))
    axis.set_minor_formatter(NullFormatter())


def log_tick(value: float) -> str:
    """Format a tick of a logarithmic axis.

    Args:
        value: A positive number.

    Returns:
        The number as text, as a power of ten if it is large or small.

    Example:
        >>> log_tick(1e-6), log_tick(0.01), log_tick(100.0)
        ('10⁻⁶', '0.01', '100')
    """
    if 1e-2 <= value < 1e4:
        return f"{value:g}"
    power = round(float(np.log10(value)))
    return f"10{str(power).translate(SUPERSCRIPT)}"


def _set_integer_ticks(axes: Axes, panel: Panel, shown: Sequence[tuple[Line, Mask]]) -> None:
    """Put the ticks at the points if there are few and all are integers."""
    x = sorted({value for line, mask in shown for value in np.array(line.x)[mask]})
    few = len(x) <= 10 and all(value == int(value) for value in x)
    if few and (not panel.x_log or x[-1] < 100 * x[0]):
        axes.set_xticks(x, [f"{value:,.0f}" for value in x])
        axes.xaxis.set_minor_locator(NullLocator())


def _panel_caption(panel: Panel, lines: Sequence[Line]) -> str:
    parts = []
    if any(line.error for line in lines):
        parts.append("Bands: one standard error.")
    if any(line.reference for line in lines):
        parts.append("Dashed: reference.")
    hidden = sum(int((~_drawable(line, panel)).sum()) for line in panel.lines)
    if hidden:
        parts.append(f"Points that cannot be drawn on these axes: {hidden}.")
    return " ".join(parts)


def plot_densities(groups: Sequence[Group]) -> Plot | None:
    """Plot the score and the contours of two-dimensional models.

    Args:
        groups: The groups of an experiment.

    Returns:
        One panel per group, with the true density in gray if it is known. `None` if no model is
        two-dimensional.
    """
    grids = [(index, group, group.counted[0].density_grid) for index, group in enumerate(groups)]
    drawn = [(index, group, arrays) for index, group, arrays in grids if arrays is not None]
    if not drawn:
        return None
    across = min(3, len(drawn))
    down = -(-len(drawn) // across)
    with page_style():
        figure = Figure(figsize=(9.6, 3.3 * down), layout="constrained")
        panels = figure.subplots(down, across, squeeze=False).flat
        for panel, (index, group, arrays) in zip(panels, drawn, strict=False):
            _draw_density(panel, arrays, line_style(index)[1])
            panel.set_title(group.label)
        for panel in list(panels)[len(drawn) :]:
            panel.set_visible(False)
    has_truth = any("true_score" in arrays for _, _, arrays in drawn)
    caption = "Contours: log-density. Arrows: score, where the density is high."
    truth = " Gray: true density." if has_truth else ""
    return Plot("Learned densities", caption + truth, figure, wide=True)


def _draw_density(panel: Axes, arrays: Arrays, color: str) -> None:
    for name, ink, width in (("true", INK, 0.9), ("model", color, 0.6)):
        if f"{name}_score" in arrays:
            _draw_field(panel, arrays, name, ink, width)
    panel.set(aspect="equal", xticks=[], yticks=[])
    panel.grid(visible=False)
    panel.spines[:].set_visible(False)


def _draw_field(panel: Axes, arrays: Arrays, name: str, ink: str, width: float) -> None:
    axis, log_density = arrays["axis"], arrays[f"{name}_log_density"]
    height = log_density - log_density.max()
    alpha = 0.45 if name == "true" else 1.0
    panel.contour(
        axis, axis, height.T, levels=LEVELS, colors=ink, linewidths=width, alpha=alpha,
        linestyles="solid",
    )  # fmt: skip
    every = slice(ARROW_EVERY // 2, None, ARROW_EVERY)
    dense = arrays.get("true_log_density", log_density)[every, every]
    x, y = np.meshgrid(axis[every], axis[every], indexing="ij")
    shown = dense - dense.max() > LEVELS[0]
    score = arrays[f"{name}_score"][every, every][shown]
    scale = 40 * np.quantile(np.hypot(*score.T), 0.9) / len(axis[every])
    panel.quiver(
        x[shown], y[shown], *score.T, color=ink, alpha=alpha, angles="xy", scale_units="width",
        scale=scale * len(axis[every]) / 2, width=0.006 if name == "true" else 0.0035,
    )  # fmt: skip
