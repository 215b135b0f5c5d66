"""The figure of the two-dimensional density: data, truth, and what each method made of them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from ..files import replacing

COLOURS = ("#3b4cc0", "#e8743b", "#2a9d6f")
CMAP = "magma"
VIEW = 3.2
"""The largest coordinate shown."""


def save(folder: Path) -> Path:
    """Draw the figure of a run and write it next to its results.

    Args:
        folder: Where the run left `result.json` and `density.npz`.

    Returns:
        The path of the figure, `density.png` in the same folder.
    """
    path = folder / "density.png"
    drawn = figure(folder)
    with replacing(path) as draft:
        drawn.savefig(draft, format="png", dpi=160)
    return path


def figure(folder: Path) -> Figure:
    """Return the figure of a run: samples, the true density, the curves, the learnt densities.

    Args:
        folder: Where the run left `result.json` and `density.npz`.

    Returns:
        The figure, with a panel per density on a common scale of colours.
    """
    methods = json.loads((folder / "result.json").read_text(encoding="utf-8"))["methods"]
    with np.load(folder / "density.npz") as file:
        arrays = dict(file)
    drawn = Figure(figsize=(9.6, 6.9))
    drawn.subplots_adjust(left=0.01, right=0.95, bottom=0.01, top=0.955, wspace=0.04, hspace=0.22)
    panels = drawn.subplots(2, 3).flat
    axis, top = arrays["axis"], arrays["target"].max()
    _scatter(next(panels), arrays["samples"])
    _density(next(panels), axis, arrays["target"], top)
    _curves(next(panels), methods)
    for name in methods:
        _density(next(panels), axis, arrays[name], top)
    titles = ["data", "true density", "Fisher divergence by training seconds"]
    titles += [_title(name, numbers) for name, numbers in methods.items()]
    for panel, title in zip(drawn.axes, titles, strict=True):
        panel.set_title(title, fontsize=10)
    return drawn


def _title(name: str, numbers: dict[str, Any]) -> str:
    return (
        f"{name}\n{numbers['milliseconds_per_iteration']:.1f} ms/iteration   "
        f"Fisher {numbers['fisher_after']:.2f}   KL {numbers['kl']:.3f}"
    )


def _frame(panel: Axes) -> None:
    panel.set(xlim=(-VIEW, VIEW), ylim=(-VIEW, VIEW), aspect="equal", xticks=[], yticks=[])
    panel.spines[:].set_visible(False)


def _scatter(panel: Axes, samples: NDArray[np.float32]) -> None:
    panel.scatter(samples[:, 0], samples[:, 1], s=1.5, linewidths=0, color="#fcd9a0", alpha=0.7)
    panel.set_facecolor("#000004")
    _frame(panel)


def _density(
    panel: Axes, axis: NDArray[np.float32], density: NDArray[np.float32], top: float
) -> None:
    extent = (axis[0], axis[-1], axis[0], axis[-1])
    panel.imshow(density.T, extent=extent, origin="lower", cmap=CMAP, vmin=0, vmax=top)
    _frame(panel)


def _curves(panel: Axes, methods: dict[str, dict[str, Any]]) -> None:
    for colour, (name, numbers) in zip(COLOURS, methods.items(), strict=True):
        curve = numbers["curve"]
        seconds = [record["seconds"] for record in curve]
        fisher = [record["fisher"] for record in curve]
        panel.plot(seconds, fisher, color=colour, label=name, linewidth=1.8)
    panel.set(yscale="log", xlim=(0, None))
    panel.yaxis.tick_right()
    panel.spines[["top", "left"]].set_visible(False)
    panel.set_box_aspect(1)
    panel.legend(frameon=False)
