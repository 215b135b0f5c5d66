"""Plots of runs on tables show the shares, thresholds and correlations that were measured."""

import math
from datetime import UTC, datetime

import numpy as np
import pytest
from matplotlib.patches import Rectangle, StepPatch
from matplotlib.text import Text

from paper.report.plots import svg_element
from fdsm.tables.report.plots import (
    date_ticks,
    plot_calibration,
    plot_column,
    plot_correlations,
    plot_scores,
)
from fdsm.tables.report.records import (
    Calibration,
    ColumnHistogram,
    Correlations,
    Counts,
    scored_from_json,
    table_from_json,
)

from .table_cases import SCORED, TABLE, changed

TABLE_RECORD, SCORED_RECORD = table_from_json(TABLE), scored_from_json(SCORED)


def test_densities_do_not_depend_on_the_widths_of_bins_or_the_number_of_rows() -> None:
    density, _ = plot_scores(TABLE_RECORD)
    train, held_out = (p for p in density.figure.axes[0].patches if isinstance(p, StepPatch))
    np.testing.assert_allclose(train.get_data().values, [0.5, 0.2, 0.05, 0])
    np.testing.assert_allclose(held_out.get_data().values, [0.25, 0.25, 0.125, 0])


def test_shares_start_at_all_rows_and_stop_where_no_row_is_left() -> None:
    _, shares = plot_scores(TABLE_RECORD, SCORED_RECORD)
    axes = shares.figure.axes[0]
    train, held_out, new, threshold = axes.get_lines()
    np.testing.assert_allclose(train.get_xydata(), [[0, 1], [1, 0.5], [3, 0.1]])
    np.testing.assert_allclose(held_out.get_xydata(), [[0, 1], [1, 0.75], [3, 0.25]])
    np.testing.assert_allclose(new.get_ydata(), [1, 5 / 8, 2 / 8, 2 / 8, 1 / 8])
    assert list(threshold.get_xdata()) == [4.0, 4.0]
    assert axes.get_yscale() == "log"


def test_far_outliers_do_not_stretch_the_axis_and_are_counted() -> None:
    plots = plot_scores(TABLE_RECORD, SCORED_RECORD)
    for plot in plots:
        low, high = plot.figure.axes[0].get_xlim()
        assert low == 0
        assert 5 < high < 15, "known rows end at 5"
        assert "Rows of new.csv beyond the ends of the axis: 1." in plot.caption
    assert all("beyond" not in plot.caption for plot in plot_scores(TABLE_RECORD))


def test_the_axis_contains_the_threshold() -> None:
    far = scored_from_json(changed(SCORED, "threshold", 70.0))
    assert plot_scores(TABLE_RECORD, far)[0].figure.axes[0].get_xlim()[1] > 70


def test_without_flagged_rows_there_is_no_threshold() -> None:
    none = scored_from_json(changed(SCORED, "threshold", None))
    _, shares = plot_scores(TABLE_RECORD, none)
    assert len(shares.figure.axes[0].get_lines()) == 3
    assert "No row of new.csv is flagged" in shares.caption


def test_calibration_shows_the_expected_count_and_its_range() -> None:
    plot = plot_calibration(Calibration((2.0, 0.0, 9.0, 1.0), 3.0, 1.0, 6.0))
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
    plot = plot_column(TABLE_RECORD.histograms[0])
    data, samples = (p for p in plot.figure.axes[0].patches if isinstance(p, StepPatch))
    np.testing.assert_allclose(data.get_data().values, [2 / 9, 6 / 9])
    np.testing.assert_allclose(samples.get_data().values, [0.25, 0.75])
    assert plot.caption == (
        "Distance 0.12 (held-out rows: 0.25). Outside the axis: 11 % of the training rows."
    )


def test_levels_are_bars_for_the_data_and_ticks_for_samples() -> None:
    plot = plot_column(TABLE_RECORD.histograms[1])
    axes = plot.figure.axes[0]
    assert [bar.get_width() for bar in axes.patches] == [0.7, 0.3]
    (ticks,) = axes.get_lines()
    np.testing.assert_allclose(ticks.get_xdata(), [0.7, 0.3])
    assert [label.get_text() for label in axes.get_yticklabels()] == ["north", "south"]
    low, high = axes.get_ylim()
    assert low > high, "the most frequent level is on top"
    assert plot.caption == "Distance 0.00."


def test_a_column_without_samples_has_only_the_data() -> None:
    only = ColumnHistogram("x", (0.0, 1.0), (), False, Counts((1.0,)), None, math.nan, math.nan)
    plot = plot_column(only)
    assert len(plot.figure.axes[0].patches) == 1
    assert plot.caption == ""


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
    places, found = date_ticks(start, start + 86400.0 * days)
    np.testing.assert_allclose(np.array(places) - start, [17280 * days, 69120 * days])
    assert found == labels


def test_an_axis_of_dates_has_dates() -> None:
    start = datetime(2000, 1, 1, tzinfo=UTC).timestamp()
    edges = (start, start + 86400.0 * 3650)
    dates = ColumnHistogram("day", edges, (), True, Counts((1.0,)), None, math.nan, math.nan)
    assert ">2001<" in svg_element(plot_column(dates).figure, "s")
    assert date_ticks(0.0, 1e30) == ([], [])


def squares(plot_index: int, correlations: Correlations) -> dict[tuple[int, int], Rectangle]:
    """Return the outlines by row and column."""
    axes = plot_correlations(correlations)[plot_index].figure.axes[0]
    outlines = [p for p in axes.patches if isinstance(p, Rectangle) and not p.get_fill()]
    return {(round(p.get_y() + p.get_height() / 2), round(p.get_x() + p.get_width() / 2)): p
            for p in outlines}  # fmt: skip


def test_the_area_of_a_square_is_the_size_of_the_correlation() -> None:
    assert TABLE_RECORD.correlations is not None
    data, samples = (squares(place, TABLE_RECORD.correlations) for place in (0, 1))
    assert data.keys() == samples.keys() == {(0, 0), (1, 0), (1, 1)}, "below the diagonal, no NaN"
    area = {key: one.get_width() * one.get_height() for key, one in data.items()}
    assert area[1, 0] / area[0, 0] == pytest.approx(0.25)
    assert samples[1, 0].get_width() ** 2 / area[0, 0] == pytest.approx(0.5)
    assert data[1, 0].get_edgecolor() != data[0, 0].get_edgecolor()
    assert samples[1, 0].get_edgecolor() == samples[0, 0].get_edgecolor()


def test_shortened_names_of_columns_are_mentioned_and_numbers_explained() -> None:
    matrix = ((1.0, 0.5), (0.5, 1.0))
    captions = {
        ("a", "b"): "",
        ("x of the car in km", "y of the car in km"): "Long names are shortened.",
        ("a" * 40, "a" * 41): f"Long names are shortened. 1: {'a' * 40}; 2: {'a' * 41}",
    }
    for names, caption in captions.items():
        (plot,) = plot_correlations(Correlations(names, matrix, None, 0))
        assert plot.caption == caption


def test_only_positive_correlations_are_filled() -> None:
    assert TABLE_RECORD.correlations is not None
    data, samples = plot_correlations(TABLE_RECORD.correlations)
    filled = [sum(p.get_fill() for p in plot.figure.axes[0].patches) for plot in (data, samples)]
    assert filled == [2, 3]


@pytest.mark.parametrize(("count", "numbers"), [(8, 36), (9, 0)])
def test_small_matrices_have_numbers(count: int, numbers: int) -> None:
    names = tuple(f"a long name of column {place}" for place in range(count))
    matrix = tuple(tuple(np.eye(count)[row]) for row in range(count))
    (plot,) = plot_correlations(Correlations(names, matrix, None, 0))
    axes = plot.figure.axes[0]
    assert len([one for one in axes.texts if isinstance(one, Text)]) == numbers
    assert axes.get_yticklabels()[0].get_text() == "a long n…olumn 0"
