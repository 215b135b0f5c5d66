"""Curves and times from given logs, and from tiny runs."""

import json
from pathlib import Path

import pytest

from fdsm.training import read_metrics
from paper.report import Line
from paper.run_store import RunStore
from paper.studies.figure4 import (
    Figure4,
    LossCurves,
    curve,
    logged_values,
    thin_out,
    time_ratios,
    time_to_reach,
)

PANEL = LossCurves("title", "table0", ("slow", "fast", "absent"), "dsm", "a loss")


def test_logged_validation_values_are_read(tmp_path: Path) -> None:
    """Training losses and values that are not finite are left out."""
    lines: list[dict[str, object]] = [
        {"iteration": 0, "seconds": 0.0, "validation": {"loss": 7.0, "dsm": 4.0}},
        {"iteration": 5, "seconds": 1.0, "loss": 9.0, "milliseconds": 1.0},
        {"iteration": 10, "seconds": 2.0, "validation": {"loss": 7.0, "dsm": None}},
        {"iteration": 20, "seconds": 4.0, "validation": {"loss": 7.0, "dsm": 1.0}},
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (tmp_path / "metrics.jsonl").write_text(text, encoding="utf-8")
    assert logged_values(tmp_path, "dsm") == [(0, 4.0), (20, 1.0)]
    assert logged_values(tmp_path, "fid") == []
    assert logged_values(tmp_path / "nothing", "dsm") == []


def test_times_are_compared_at_the_higher_final_loss() -> None:
    """The slow curve falls from 4 by 2 per second, the fast one by 3 in a quarter, to 1."""
    slow = curve("slow", [(0, 4.0), (10, 2.0), (20, 0.0)], 100.0)
    fast = curve("fast", [(0, 4.0), (10, 1.0), (20, 1.0)], 25.0)
    (found,) = time_ratios(PANEL, [slow, fast]).items()
    assert found[0] == "dsm_time_fast_over_slow"
    assert found[1].value == pytest.approx(0.25 / 1.5)
    assert found[1].settings == {"level": 1.0, "seconds": [0.25, 1.5]}
    assert time_ratios(PANEL, [fast]) == {}


def test_a_level_is_reached_at_the_first_crossing() -> None:
    line = Line("loss", (0.0, 1.0, 2.0, 3.0), (4.0, 2.0, 3.0, 0.0))
    assert time_to_reach(line, 2.0) == pytest.approx(1.0)
    assert time_to_reach(line, 1.0) == pytest.approx(2 + 2 / 3)
    assert time_to_reach(line, 5.0) == pytest.approx(0.0)
    assert time_to_reach(line, -1.0) == float("inf")


def test_thinned_curves_keep_their_ends() -> None:
    x = tuple(float(i) for i in range(1001))
    thin = thin_out(Line("loss", x, tuple(-value for value in x)))
    assert len(thin.x) == 200
    assert (thin.x[0], thin.x[-1]) == (0.0, 1000.0)
    assert thin.y == tuple(-value for value in thin.x)


@pytest.mark.usefixtures("tiny_table")
def test_missing_runs_are_trained_and_plotted_against_the_time_of_their_steps(
    tmp_path: Path,
) -> None:
    panel = LossCurves("tiny", "tiny", ("a", "b"), "loss", "loss", log_scale=True)
    absent = LossCurves("absent", "tiny", ("a",), "fid", "a distance")
    store = RunStore(tmp_path)
    (plot,) = Figure4((panel, absent)).run(store, 0, lambda steps: steps).panels
    assert plot.y_log
    for row, line in zip(panel.rows, plot.lines, strict=True):
        log = read_metrics(store.folder("tiny", row, 0) / "metrics.jsonl")
        validated = [record for record in log if "validation" in record]
        assert len(validated) == 5
        assert line.y == tuple(record["validation"]["loss"] for record in validated)
        assert line.x == pytest.approx([line.x[1] * i for i in range(5)])
        assert line.x[1] > 0
