"""Plots show the shares, thresholds, correlations and losses that were measured."""

import math
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest
from matplotlib.patches import Rectangle, StepPatch
from matplotlib.text import Text

from fdsm.tables.report.plots import (
    date_ticks,
    plot_column,
    plot_correlations,
    plot_p_values,
    plot_scores,
    plot_training,
)
from fdsm.tables.report.svg import svg_element
from fdsm.tables.summary import ColumnHistogram, Correlations, Counts, Histogram, PValueCounts

from .summary_cases import EDGES, SCORED, SUMMARY, summary

EMPTY = Counts((0,))


def test_densities_do_not_depend_on_the_widths_of_bins_or_the_number_of_rows() -> None:
    density, _ = plot_scores(SUMMARY)
    train, held_out = (p for p in density.figure.axes[0].patches if isinstance(p, StepPatch))
    np.testing.assert_allclose(train.get_data().values, [0.5, 0.2, 0.05, 0])
    np.testing.assert_allclose(held_out.get_data().values, [0.25, 0.25, 0.125, 0])


def test_shares_start_at_all_rows_and_stop_where_no_row_is_left() -> None:
    _, shares = plot_scores(SUMMARY, SCORED)
    axes = shares.figure.axes[0]
    train, held_out, new, threshold = axes.get_lines()
    np.testing.assert_allclose(train.get_xydata(), [[0, 1], [1, 0.5], [3, 0.1]])
    np.testing.assert_allclose(held_out.get_xydata(), [[0, 1], [1, 0.75], [3, 0.25]])
    np.testing.assert_allclose(new.get_ydata(), [1, 5 / 8, 2 / 8, 2 / 8, 1 / 8])
    assert list(threshold.get_xdata()) == [4.0, 4.0]
    assert axes.get_yscale() == "log"
    legend = [text.get_text() for text in shares.figure.legends[0].get_texts()]
    assert legend == ["training rows", "held-out rows", "new.csv", "threshold"]


def test_far_outliers_do_not_stretch_the_axis_and_are_counted() -> None:
    density, shares = plot_scores(SUMMARY, SCORED)
    assert density.figure.axes[0].get_xlim() == shares.figure.axes[0].get_xlim() == (0, 9)
    assert "Rows of new.csv beyond the ends of the axis: 1." in density.caption
    alone, _ = plot_scores(SUMMARY)
    assert alone.figure.axes[0].get_xlim() == (0, 5), "empty bins are not shown"
    assert "beyond" not in alone.caption


def test_the_axis_contains_the_threshold() -> None:
    far = plot_scores(SUMMARY, replace(SCORED, threshold=70.0))
    assert far[0].figure.axes[0].get_xlim()[1] > 70
    infinite = plot_scores(SUMMARY, replace(SCORED, threshold=math.inf))
    assert infinite[0].figure.axes[0].get_xlim() == (0, 9)


def test_without_flagged_rows_there_is_no_threshold() -> None:
    _, shares = plot_scores(SUMMARY, replace(SCORED, threshold=None))
    assert len(shares.figure.axes[0].get_lines()) == 3
    assert "No row of new.csv is flagged" in shares.caption


def test_scores_without_rows_are_drawn_empty() -> None:
    nothing = Histogram(EDGES, Counts((0, 0, 0, 0)))
    density, shares = plot_scores(summary(train_scores=nothing, held_out_scores=nothing))
    assert density.figure.axes[0].get_xlim() == (0, 9)
    assert svg_element(shares.figure, "s").startswith("<svg")


def test_p_values_are_shown_with_the_expected_count_and_its_range() -> None:
    plot = plot_p_values(PValueCounts((2, 0, 9, 1), 3.0, 1, 6))
    axes = plot.figure.axes[0]
    (steps,) = (p for p in axes.patches if isinstance(p, StepPatch))
    np.testing.assert_allclose(steps.get_data().edges, [0, 0.25, 0.5, 0.75, 1])
    np.testing.assert_allclose(steps.get_data().values, [2, 0, 9, 1])
    (band,) = (p for p in axes.patches if isinstance(p, Rectangle))
    assert (band.get_y(), band.get_height()) == (1.0, 5.0)
    (line,) = axes.get_lines()
    assert list(line.get_ydata()) == [3.0, 3.0]
    assert axes.get_ylim()[1] > 9
    assert "about one of the 4 bins" in plot.caption


def test_a_column_is_compared_by_shares() -> None:
    plot = plot_column(SUMMARY.histograms[0])
    data, samples = (p for p in plot.figure.axes[0].patches if isinstance(p, StepPatch))
    np.testing.assert_allclose(data.get_data().values, [2 / 9, 6 / 9])
    np.testing.assert_allclose(samples.get_data().values, [0.25, 0.75])
    assert plot.caption == "Distance 0.12. Outside the axis: 11 % of the training rows."


def test_levels_are_bars_for_the_data_and_ticks_for_samples() -> None:
    plot = plot_column(SUMMARY.histograms[1])
    axes = plot.figure.axes[0]
    assert [bar.get_width() for bar in axes.patches] == [0.7, 0.3]
    (ticks,) = axes.get_lines()
    np.testing.assert_allclose(ticks.get_xdata(), [0.7, 0.3])
    assert [label.get_text() for label in axes.get_yticklabels()] == ["north", "south"]
    low, high = axes.get_ylim()
    assert low > high, "the most frequent level is on top"
    assert plot.caption == "Distance 0.00."


def test_a_column_without_samples_has_only_the_data() -> None:
    plot = plot_column(ColumnHistogram("x", (0.0, 1.0), (), False, Counts((1,)), EMPTY, None))
    assert len(plot.figure.axes[0].patches) == 1
    assert plot.caption == ""


@pytest.mark.parametrize("edges", [(2997000.0, 3003000.0), (10001.0, 10003.0), (1e-7, 3e-7)])
def test_numbers_on_an_axis_have_no_offset(edges: tuple[float, float]) -> None:
    plot = plot_column(ColumnHistogram("x", edges, (), False, Counts((1,)), EMPTY, None))
    axes = plot.figure.axes[0]
    svg_element(plot.figure, "s")
    power = float(axes.xaxis.get_offset_text().get_text().replace("−", "-") or 1)
    ticks, labels = axes.get_xticks(), axes.get_xticklabels()
    values = [power * float(label.get_text().replace("−", "-")) for label in labels]
    np.testing.assert_allclose(values, ticks, rtol=1e-9)


@pytest.mark.parametrize(
    ("days", "labels"),
    [
        (3650, ["2001", "2007"]),
        (365, ["Mar 2000", "Oct 2000"]),
        (50, ["11 Jan", "10 Feb"]),
        (1, ["04:48", "19:12"]),
    ],
)
def test_dates_are_as_precise_as_needed(days: int, labels: list[str]) -> None:
    start = datetime(2000, 1, 1, tzinfo=UTC).timestamp()
    ticks, texts = date_ticks(start, start + 86400.0 * days)
    np.testing.assert_allclose(np.array(ticks) - start, [17280 * days, 69120 * days])
    assert texts == labels


def test_an_axis_of_dates_has_dates() -> None:
    start = datetime(2000, 1, 1, tzinfo=UTC).timestamp()
    edges = (start, start + 86400.0 * 3650)
    dates = ColumnHistogram("day", edges, (), True, Counts((1,)), EMPTY, None)
    assert ">2001<" in svg_element(plot_column(dates).figure, "s")
    assert date_ticks(0.0, 1e30) == ([], [])


def squares(index: int, correlations: Correlations) -> dict[tuple[int, int], Rectangle]:
    """Return the outlines by row and column."""
    axes = plot_correlations(correlations)[index].figure.axes[0]
    outlines = [p for p in axes.patches if isinstance(p, Rectangle) and not p.get_fill()]
    return {(round(p.get_y() + p.get_height() / 2), round(p.get_x() + p.get_width() / 2)): p
            for p in outlines}  # fmt: skip


def test_the_area_of_a_square_is_the_size_of_the_correlation() -> None:
    assert SUMMARY.correlations is not None
    data, samples = (squares(index, SUMMARY.correlations) for index in (0, 1))
    assert data.keys() == samples.keys() == {(0, 0), (1, 0), (1, 1)}, "below the diagonal"
    area = {key: square.get_width() * square.get_height() for key, square in data.items()}
    assert area[1, 0] / area[0, 0] == pytest.approx(0.25)
    assert samples[1, 0].get_width() ** 2 / area[0, 0] == pytest.approx(0.5)
    assert data[1, 0].get_edgecolor() != data[0, 0].get_edgecolor()
    assert samples[1, 0].get_edgecolor() == samples[0, 0].get_edgecolor()


def test_only_positive_correlations_are_filled() -> None:
    assert SUMMARY.correlations is not None
    data, samples = plot_correlations(SUMMARY.correlations)
    filled = [sum(p.get_fill() for p in plot.figure.axes[0].patches) for plot in (data, samples)]
    assert filled == [2, 3]


def test_shortened_names_of_columns_are_mentioned_and_numbers_explained() -> None:
    matrix, unknown = ((1.0, 0.5), (0.5, 1.0)), ((None, None), (None, None))
    captions = {
        ("a", "b"): "",
        ("x of the car in km", "y of the car in km"): "Long names are shortened.",
        ("a" * 40, "a" * 41): f"Long names are shortened. 1: {'a' * 40}; 2: {'a' * 41}",
    }
    for names, caption in captions.items():
        (plot,) = plot_correlations(Correlations(names, matrix, unknown, 0))
        assert plot.caption == caption


@pytest.mark.parametrize(("count", "numbers"), [(8, ["1.00", "−0.30"]), (9, [])])
def test_small_matrices_have_numbers_where_the_square_has_room(
    count: int, numbers: list[str]
) -> None:
    names = tuple(f"a long name of column {index}" for index in range(count))
    values = np.eye(count)
    values[1, 0], values[2, 0] = -0.3, -0.2
    matrix = tuple(tuple(row) for row in values.tolist())
    plot, _ = plot_correlations(Correlations(names, matrix, matrix, 0))
    axes = plot.figure.axes[0]
    shown = [text.get_text() for text in axes.texts if isinstance(text, Text)]
    assert len(shown) == (count + 1 if numbers else 0)
    assert set(shown) == set(numbers)
    assert axes.get_yticklabels()[0].get_text() == "a long n…olumn 0"


def test_losses_of_held_out_rows_are_drawn_where_they_are_finite() -> None:
    points = ((1, math.inf), *((i, 1 + 1 / i) for i in range(2, 200)), (200, 1e6))
    plot = plot_training(replace(SUMMARY.training, validation_losses=points))
    axes = plot.figure.axes[0]
    (line,) = axes.get_lines()
    np.testing.assert_allclose(line.get_xydata(), points[1:])
    assert 1.5 < axes.get_ylim()[1] < 3
    assert plot.caption.endswith("Values outside the axis: 1.")


def test_a_figure_is_the_same_every_time_and_has_the_colors_of_the_page() -> None:
    first, second = (svg_element(plot_scores(SUMMARY)[0].figure, "s") for _ in range(2))
    assert first == second
    assert "#" not in first.replace("url(#", "").replace('href="#', "")
