"""Curves show the logged values, in colors that can be told apart."""

import itertools
import re
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from paper.report import read_folders
from paper.report.plots import DARK, LIGHT, svg_element
from paper.report.records import Curve
from paper.report.training_curves import (
    axis_limits,
    mean_curve,
    plot_curves,
    plot_training,
    running_median,
)

from .report_cases import records, write_run

Array = NDArray[np.float64]


def curve(values: Array, iterations: Array | None = None) -> Curve:
    steps = np.arange(len(values)) if iterations is None else iterations
    return Curve(tuple(steps), tuple(steps / 10), tuple(values))


def test_an_outlier_changes_neither_the_median_nor_the_axis() -> None:
    straight = np.linspace(5, 0, 101)
    spiked = straight.copy()
    spiked[40] = 1e9
    iterations, seconds, values = running_median(curve(spiked), 5)
    np.testing.assert_array_equal(iterations, np.arange(101))
    np.testing.assert_allclose(seconds, np.arange(101) / 10)
    assert np.abs(values - straight)[:96].max() <= 0.05 + 1e-12
    assert axis_limits(spiked) == pytest.approx((-0.25, 5.25))


@pytest.mark.parametrize("values", [[3.0, 3.0], [0.0], [-2.0]])
def test_axis_contains_a_constant(values: list[float]) -> None:
    low, high = axis_limits(np.array(values))
    assert low < values[0] < high


def test_mean_covers_the_iterations_that_all_seeds_have() -> None:
    first = curve(np.array([1.0, 2.0, 3.0, 4.0]), np.array([10.0, 20.0, 30.0, 40.0]))
    second = curve(np.array([3.0, 7.0]), np.array([10.0, 30.0]))
    iterations, seconds, values = mean_curve([first, second, Curve()])
    np.testing.assert_array_equal(iterations, [10, 20, 30])
    np.testing.assert_allclose(seconds, [1, 2, 3])
    np.testing.assert_allclose(values, [2, 3.5, 5])
    assert mean_curve([Curve()]).shape == (3, 0)


def test_long_curves_are_thinned_but_keep_their_ends() -> None:
    iterations, _, values = running_median(curve(np.arange(20_000.0)), 25)
    assert len(iterations) == 400
    assert (iterations[0], iterations[-1]) == (0, 19_999)
    assert abs(values - iterations).max() < 26


def test_plots_show_the_logged_values(kept: list[Path]) -> None:
    drawn = plot_training(read_folders(kept).groups)
    assert [one.title for one in drawn] == [
        "training loss against iteration",
        "training loss against training time",
        "validation: exact SM loss against iteration",
        "validation: exact SM loss against training time",
        "validation: NLL (nats) against iteration",
        "validation: NLL (nats) against training time",
    ]
    thin = drawn[1].figure.axes[0].get_lines()[0]
    logged = [r for r in records("SSM", 0) if "loss" in r]
    np.testing.assert_allclose(thin.get_xdata(), [r["seconds"] for r in logged])
    np.testing.assert_allclose(thin.get_ydata(), [r["loss"] for r in logged])
    low, high = drawn[0].figure.axes[0].get_ylim()
    assert -3 < low < high < 2
    assert "Values outside the axis: 8." in drawn[0].caption
    for one in drawn:
        (panel,) = one.figure.axes
        seen = [each.get_color() for each in panel.get_lines()]
        assert seen == [LIGHT[i] for i in range(4) for _ in range(3)]


def test_curves_of_very_different_scale_get_their_own_axes(kept: list[Path]) -> None:
    collection = read_folders(kept)

    def scaled(run: object) -> Curve:
        size = 1e6 if run in collection.groups[0].runs else 1.0
        return curve(size * np.linspace(1, 0, 50))

    drawn = plot_curves(collection.groups, "loss", scaled, against_time=False)
    assert drawn is not None
    assert len(drawn.figure.axes) == 4
    assert "each method has its own axis" in drawn.caption


def test_a_run_with_few_logged_values_is_plotted(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "0", "SSM", 0)
    (folder / "metrics.jsonl").write_text('{"iteration": 1, "seconds": 0.1, "loss": 1e300}\n')
    collection = read_folders([folder])
    assert plot_training(collection.groups) == []
    (folder / "metrics.jsonl").write_text(
        '{"iteration": 1, "loss": NaN}\n{"iteration": 2, "loss": -Infinity}\n'
        '{"iteration": 3, "loss": 2, "milliseconds": 4}\n'
    )
    collection = read_folders([folder])
    drawn = plot_training(collection.groups)
    assert [one.title for one in drawn] == ["training loss against iteration"]


def test_plots_are_the_same_every_time_and_use_the_colors_of_the_page(kept: list[Path]) -> None:
    collection = read_folders(kept)
    draw = lambda: [plot_training(collection.groups)[i].figure for i in (0, -1)]
    first = [svg_element(figure, "a") for figure in draw()]
    again = draw()
    assert first == [svg_element(figure, "a") for figure in again]
    assert first[0] != svg_element(again[0], "b")
    for one in first:
        assert not re.search(r"#[0-9a-f]{6}", one)
        assert {f"var(--c{i})" for i in range(4)} <= set(re.findall(r"var\(--c\d\)", one))
        assert "http" not in one


def linear(color: str) -> Array:
    c = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def lab(rgb: Array) -> Array:
    """Return CIELAB coordinates, in which a distance of 10 is a clear difference."""
    matrix = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    xyz = np.array(matrix) @ rgb.clip(0, 1) / [0.9505, 1, 1.089]
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


VISIONS = {
    "normal": np.eye(3),
    "protan": [[0.1523, 1.0526, -0.2049], [0.1145, 0.7863, 0.0992], [-0.0039, -0.0481, 1.0520]],
    "deutan": [[0.3673, 0.8606, -0.2280], [0.2801, 0.6725, 0.0474], [-0.0118, 0.0429, 0.9689]],
    "tritan": [[1.2555, -0.0767, -0.1788], [-0.0784, 0.9308, 0.1476], [0.0047, 0.6914, 0.3039]],
}
"""Machado, Oliveira, Fernandes (2009): how colors look without one kind of cone."""


@pytest.mark.parametrize(("colors", "background"), [(LIGHT, "#ffffff"), (DARK, "#17191d")])
def test_colors_can_be_told_apart_with_any_color_vision(
    colors: tuple[str, ...], background: str
) -> None:
    for vision in VISIONS.values():
        seen = [lab(np.array(vision) @ linear(color)) for color in colors]
        for a, b in itertools.combinations(seen, 2):
            assert np.linalg.norm(a - b) > 20
    for color in colors:
        light = [float(linear(c) @ [0.2126, 0.7152, 0.0722]) for c in (color, background)]
        assert (max(light) + 0.05) / (min(light) + 0.05) > 3
