"""What models of densities on the plane have learnt, beside the truth where it is known."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .model import Group
from .training_plot import INK, Colours, Drawing, pen

try:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
except ImportError as error:
    raise ImportError("the report needs matplotlib: pip install 'fdsm[report]'") from error

ARROWS = 5
"""Every how many points of the grid an arrow is drawn."""

LEVELS = (-6.0, -4.0, -2.0, -1.0, -0.25)
"""The log-densities at which contours are drawn, below the highest."""

Arrays = Mapping[str, Any]


def fields(groups: Sequence[Group], colours: Colours) -> Drawing | None:
    """Draw score and contours of every group that was trained on the plane.

    Args:
        groups: The groups of an experiment.
        colours: The place in the palette of each group.

    Returns:
        A panel per group, with the truth behind it; nothing if no model is on the plane.
    """
    first = [(group, group.counted[0].field) for group in groups]
    found = [(group, arrays) for group, arrays in first if arrays is not None]
    if not found:
        return None
    across = min(3, len(found))
    down = -(-len(found) // across)
    figure = Figure(figsize=(9.6, 3.3 * down), layout="constrained")
    panels = figure.subplots(down, across, squeeze=False).flat
    for panel, (group, arrays) in zip(panels, found, strict=False):
        _panel(panel, arrays, pen(colours[group.label])[1])
        panel.set_title(group.label)
    for panel in list(panels)[len(found) :]:
        panel.set_visible(False)
    known = any("true_score" in arrays for _, arrays in found)
    caption = "Contours of the log-density, and arrows of the score where there is data."
    return Drawing(
        "Learnt densities on the plane",
        caption + (" Grey: the truth." if known else ""),
        figure,
        wide=True,
    )


def _panel(panel: Axes, arrays: Arrays, colour: str) -> None:
    for name, ink, width in (("true", INK, 0.9), ("model", colour, 0.6)):
        if f"{name}_score" in arrays:
            _field(panel, arrays, name, ink, width)
    panel.set(aspect="equal", xticks=[], yticks=[])
    panel.grid(visible=False)
    panel.spines[:].set_visible(False)


def _field(panel: Axes, arrays: Arrays, name: str, ink: str, width: float) -> None:
    axis, log_density = arrays["axis"], arrays[f"{name}_log_density"]
    height = log_density - log_density.max()
    faint = 0.45 if name == "true" else 1.0
    panel.contour(
        axis, axis, height.T, levels=LEVELS, colors=ink, linewidths=width, alpha=faint,
        linestyles="solid",
    )  # fmt: skip
    few = slice(ARROWS // 2, None, ARROWS)
    dense = arrays.get("true_log_density", log_density)[few, few]
    x, y = np.meshgrid(axis[few], axis[few], indexing="ij")
    shown = dense - dense.max() > LEVELS[0]
    score = arrays[f"{name}_score"][few, few][shown]
    scale = 40 * np.quantile(np.hypot(*score.T), 0.9) / len(axis[few])
    panel.quiver(
        x[shown], y[shown], *score.T, color=ink, alpha=faint, angles="xy", scale_units="width",
        scale=scale * len(axis[few]) / 2, width=0.006 if name == "true" else 0.0035,
    )  # fmt: skip
