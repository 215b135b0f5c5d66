"""Curves of a study, drawn as it says: bands of errors, dashed references, logarithmic axes."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from .figure import Line, Panel
from .training_plot import INK, LIGHT, Drawing, styled

try:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator
except ImportError as error:
    raise ImportError("the report needs matplotlib: pip install 'fdsm[report]'") from error

MARKERS = ("o", "s", "^")
"""Of points, the first, second and third time round the colours."""

DASHES: tuple[tuple[float, ...], ...] = ((5, 2), (1.5, 1.5), (6, 2, 1.5, 2))
"""Of references, one after the other."""

Seen = NDArray[np.bool_]

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def panels(drawn: Sequence[Panel]) -> list[Drawing]:
    """Draw the panels of a study, a curve of the same name in the same colour in all.

    Args:
        drawn: The panels.

    Returns:
        A drawing for each that has something to draw.
    """
    lines = [line for panel in drawn for line in panel.lines]
    measured = dict.fromkeys(line.name for line in lines if not line.reference)
    references = dict.fromkeys(line.name for line in lines if line.reference)
    places = {name: place for place, name in enumerate(measured)}
    dashes = {name: place for place, name in enumerate(references)}
    with styled():
        found = [_panel(panel, places, dashes) for panel in drawn]
    return [drawing for drawing in found if drawing is not None]


def _panel(panel: Panel, places: Mapping[str, int], dashes: Mapping[str, int]) -> Drawing | None:
    shown = [(line, seen) for line in panel.lines if (seen := _visible(line, panel)).any()]
    if not shown:
        return None
    rows = -(-len(shown) // 2)
    figure = Figure(figsize=(5.2, 3.2 + 0.2 * rows), layout="constrained")
    axes = figure.subplots()
    for line, seen in shown:
        if line.reference:
            _reference(axes, line, seen, dashes[line.name])
        else:
            _measured(axes, line, seen, places[line.name], log=panel.y_log)
    axes.set(xlabel=panel.x_label, ylabel=panel.y_label)
    if panel.x_log:
        _logarithmic(axes, "x")
    if panel.y_log:
        _logarithmic(axes, "y")
    _whole_numbers(axes, panel, shown)
    figure.legend(loc="outside lower left", ncols=2, frameon=False, handlelength=2.6)
    return Drawing(panel.title, _caption(panel, [line for line, _ in shown]), figure)


def _visible(line: Line, panel: Panel) -> Seen:
    """Return which points can be drawn: those that are numbers, positive on a logarithm."""
    x, y = np.array(line.x, dtype=float), np.array(line.y, dtype=float)
    seen = np.isfinite(x) & np.isfinite(y)
    if panel.x_log:
        seen &= x > 0
    if panel.y_log:
        seen &= y > 0
    return np.asarray(seen)


def _reference(axes: Axes, line: Line, seen: Seen, place: int) -> None:
    x, y = np.array(line.x)[seen], np.array(line.y)[seen]
    style = (0, DASHES[place % len(DASHES)])
    axes.plot(x, y, color=INK, linewidth=1.1, alpha=0.75, linestyle=style, label=line.name)


def _measured(axes: Axes, line: Line, seen: Seen, place: int, *, log: bool) -> None:
    x, y = np.array(line.x)[seen], np.array(line.y)[seen]
    colour = LIGHT[place % len(LIGHT)]
    marker = MARKERS[place // len(LIGHT) % len(MARKERS)] if len(x) <= 40 else ""
    axes.plot(x, y, color=colour, linewidth=1.7, marker=marker, markersize=3.8, label=line.name)
    if line.error:
        error = np.nan_to_num(np.array(line.error)[seen])
        low = np.maximum(y - error, y.min() / 3) if log else y - error
        axes.fill_between(x, low, y + error, color=colour, alpha=0.18, linewidth=0)


def _logarithmic(axes: Axes, which: str) -> None:
    axis = axes.xaxis if which == "x" else axes.yaxis
    (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    axis.set_major_locator(LogLocator(10, numticks=8))
    axis.set_major_formatter(FuncFormatter(lambda value, _: power_of_ten(value)))
    axis.set_minor_formatter(NullFormatter())


def power_of_ten(value: float) -> str:
    """Return a number on a logarithmic axis as text.

    Args:
        value: A positive number.

    Returns:
        The number, as a power of ten if it is large or small.

    Example:
        >>> power_of_ten(1e-6), power_of_ten(0.01), power_of_ten(100.0)
        ('10⁻⁶', '0.01', '100')
    """
    if 1e-2 <= value < 1e4:
        return f"{value:g}"
    power = round(float(np.log10(value)))
    return f"10{str(power).translate(_RAISED)}"


def _whole_numbers(axes: Axes, panel: Panel, shown: Sequence[tuple[Line, Seen]]) -> None:
    """Mark the points themselves where there are few, all at whole numbers or on a logarithm."""
    x = sorted({value for line, seen in shown for value in np.array(line.x)[seen]})
    few = len(x) <= 10 and all(value == int(value) for value in x)
    if few and (not panel.x_log or x[-1] < 100 * x[0]):
        axes.set_xticks(x, [f"{value:,.0f}" for value in x])
        axes.xaxis.set_minor_locator(NullLocator())


def _caption(panel: Panel, lines: Sequence[Line]) -> str:
    parts = []
    if any(line.error for line in lines):
        parts.append("Bands: one standard error.")
    if any(line.reference for line in lines):
        parts.append("Dashed: what it is compared with.")
    hidden = sum(int((~_visible(line, panel)).sum()) for line in panel.lines)
    if hidden:
        parts.append(f"Points that cannot be drawn on these axes: {hidden}.")
    return " ".join(parts)
