"""Computing graphs of a study, drawn in layers."""

from collections import Counter
from typing import Any

from .figure import Graph
from .layers import layout
from .training_plot import INK, LIGHT, PAPER, RULE, Drawing, styled

try:
    from matplotlib.figure import Figure
except ImportError as error:
    raise ImportError("the report needs matplotlib: pip install 'fdsm[report]'") from error

LONGEST = 22
"""How many letters of a node's name are drawn."""

LETTER, MARGIN, LAYER = 0.062, 0.3, 0.36
"""The width of a letter, the room beside a name, and the height of a layer, in inches."""

HALF, WHOLE = 5.2, 10.6
"""How wide figures of the page are in inches: drawn so, their text has the same size."""

EDGE: dict[str, Any] = {"color": INK, "alpha": 0.4, "linewidth": 0.8, "zorder": 1}
"""How edges are drawn."""


def graph(drawn: Graph) -> Drawing | None:
    """Draw a directed graph from top to bottom.

    Args:
        drawn: The graph.

    Returns:
        The drawing, or none if it has no nodes.
    """
    if not drawn.nodes:
        return None
    names = [_short(name) for name in drawn.nodes]
    where = layout(drawn.edges, [LETTER * len(name) + MARGIN for name in names])
    width = HALF if where.width < HALF else max(WHOLE, where.width)
    with styled():
        figure = Figure(figsize=(width, LAYER * where.depth + 0.3))
        axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
        axes.set(xlim=(-width / 2, width / 2), ylim=(where.depth - 0.2, -0.8))
        axes.axis("off")
        for path in where.paths:
            (x, y), above = path[-1], path[-1][1] - 0.42
            axes.plot(*zip(*path[:-1], (x, above), (x, y), strict=True), **EDGE)
            axes.plot(x, above, marker="v", markersize=3, **EDGE)
        ends = {end for _, end in drawn.edges}
        for place, (name, (x, y)) in enumerate(zip(names, where.points, strict=True)):
            colour = INK if place in ends else LIGHT[0]
            axes.text(
                x, y, name, color=colour, fontsize=7.5, zorder=2,
                horizontalalignment="center", verticalalignment="center",
                bbox={"boxstyle": "round,pad=0.25", "facecolor": PAPER, "edgecolor": RULE},
            )  # fmt: skip
    return Drawing(drawn.name, _caption(drawn, where.depth), figure, wide=width > HALF)


def _short(name: str) -> str:
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"


def _caption(drawn: Graph, depth: int) -> str:
    most = Counter(drawn.nodes).most_common(3)
    often = ", ".join(f"{count} × {name}" for name, count in most if count > 1)
    counted = f"{len(drawn.nodes)} nodes in {depth} layers, {len(drawn.edges)} edges."
    return counted + (f" Most often: {often}." if often else "")
