"""Panels and densities are plotted as they were measured."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.quiver import Quiver

from paper.report import read_folders
from paper.report.figure import Line, Panel
from paper.report.plots import INK, LIGHT, plot_densities, plot_panels, svg_element, svg_file

from .report_cases import write_run, write_study


def test_numbers_that_are_not_finite_are_not_drawn() -> None:
    line = Line("a", (1, 2, 3, 4), (1.0, float("nan"), -1.0, 2.0), (0.1, 0.1, 0.1, 0.1))
    linear, logarithmic = plot_panels([
        Panel("p", "x", "y", (line,)),
        Panel("p", "x", "y", (line,), y_log=True),
    ])
    for drawn, expected in ((linear, [1, -1, 2]), (logarithmic, [1, 2])):
        (curve,) = drawn.figure.axes[0].get_lines()
        np.testing.assert_array_equal(curve.get_ydata(), expected)
    assert "cannot be drawn on these axes: 1." in linear.caption
    assert "cannot be drawn on these axes: 2." in logarithmic.caption
    empty = Line("a", (1,), (float("nan"),))
    assert plot_panels([Panel("p", "x", "y", (empty,))]) == []


def test_a_panel_shows_bands_references_and_logarithms() -> None:
    measured = Line("a", (1, 10, 100), (1.0, 2.0, 3.0), (0.1, 0.2, 3.5))
    theory = Line("b", (1, 100), (1.0, 3.0), reference=True)
    other = Panel("other", "x", "y", (Line("c", (0, 1), (0, 1)), measured))
    first, second = plot_panels([Panel("one", "x", "y", (measured, theory), True, True), other])
    (axes,) = first.figure.axes
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    solid, dashed = axes.get_lines()
    assert (solid.get_color(), dashed.get_color()) == (LIGHT[0], INK)
    assert (solid.get_linestyle(), dashed.get_linestyle()) == ("-", "--")
    (band,) = axes.collections
    corners = band.get_paths()[0].vertices[:, 1]
    assert corners.max() == pytest.approx(6.5)
    assert corners.min() == pytest.approx(1 / 3), "below zero there is no logarithm"
    assert [line.get_color() for line in second.figure.axes[0].get_lines()] == [LIGHT[1], LIGHT[0]]
    (band,) = second.figure.axes[0].collections
    assert band.get_paths()[0].vertices[:, 1].min() == pytest.approx(-0.5)
    legend = [text.get_text() for text in first.figure.legends[0].get_texts()]
    assert legend == ["a", "b"]
    assert first.caption == "Bands: one standard error. Dashed: reference."


def test_plots_are_the_same_every_time(tmp_path: Path) -> None:
    write_study(tmp_path / "figure2")
    (found,) = read_folders([tmp_path]).studies
    once, again = (
        [svg_file(one.figure, "s") for one in plot_panels(found.panels)] for _ in range(2)
    )
    assert once == again
    assert all('fill="#ffffff"' in one and "xmlns=" in one for one in once)
    assert not any(color in one for one in once for color in ("#123456", "#abcdef", "#fedcba"))
    for one in plot_panels(found.panels):
        assert "#" not in svg_element(one.figure, "s").replace("url(#", "").replace('href="#', "")


def test_density_grid_is_drawn_for_two_dimensional_models_only(tmp_path: Path) -> None:
    """The true density is drawn first and in the color of the text, then the model."""
    for method in ("DSM", "SSM"):
        write_run(tmp_path / method, method, 0)
    assert plot_densities(read_folders([tmp_path]).groups) is None
    axis = np.linspace(-2, 2, 21)
    points = np.stack(np.meshgrid(axis, axis, indexing="ij"), -1)
    grid = {"log_density": -(points**2).sum(-1) / 2, "score": -points}
    arrays = {f"{name}_{key}": grid[key] for name in ("model", "true") for key in grid}
    np.savez(tmp_path / "SSM" / "density_grid.npz", allow_pickle=False, axis=axis, **arrays)
    plot = plot_densities(read_folders([tmp_path]).groups)
    assert plot is not None
    assert "Gray: true density." in plot.caption
    (panel,) = plot.figure.axes
    assert panel.get_title() == "SSM"
    arrows = [one.get_facecolor()[0, :3] for one in panel.collections if isinstance(one, Quiver)]
    np.testing.assert_allclose(arrows, [to_rgb(INK), to_rgb(LIGHT[1])])
