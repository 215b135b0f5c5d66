"""Curves and times from logs that are made by hand, and from runs that take no time."""

import json
from pathlib import Path

import pytest
import torch

from fdsm.paper.run_store import RunStore
from fdsm.paper.studies.figure4 import LossAgainstTime, Race, curve, logs, ratios, reached, thinned
from fdsm.paper.study import Line
from fdsm.training.loggers import records

RACE = Race("made", "table0", "nothing", ("slow", "fast", "absent"), "dsm", "a loss")


def test_what_was_logged_is_read(tmp_path: Path) -> None:
    """Losses of training and numbers that were not finite are left out."""
    lines: list[dict[str, object]] = [
        {"iteration": 0, "seconds": 0.0, "validation": {"loss": 7.0, "dsm": 4.0}},
        {"iteration": 5, "seconds": 1.0, "loss": 9.0, "milliseconds": 1.0},
        {"iteration": 10, "seconds": 2.0, "validation": {"loss": 7.0, "dsm": None}},
        {"iteration": 20, "seconds": 4.0, "validation": {"loss": 7.0, "dsm": 1.0}},
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (tmp_path / "metrics.jsonl").write_text(text, encoding="utf-8")
    assert logs(tmp_path, "dsm") == [(0, 4.0), (20, 1.0)]
    assert logs(tmp_path, "fid") == []
    assert logs(tmp_path / "nothing", "dsm") == []


def test_times_are_compared_where_the_worse_ends() -> None:
    """From 4 the slow one falls by 2 in a second, the fast one by 3 in a quarter, to 1."""
    slow = curve("slow", [(0, 4.0), (10, 2.0), (20, 0.0)], 100.0)
    fast = curve("fast", [(0, 4.0), (10, 1.0), (20, 1.0)], 25.0)
    (found,) = ratios(RACE, [slow, fast]).items()
    assert found[0] == "dsm_time_fast_over_slow"
    assert found[1].value == pytest.approx(0.25 / 1.5)
    assert found[1].settings == {"level": 1.0, "seconds": [0.25, 1.5]}
    assert ratios(RACE, [fast]) == {}


def test_a_level_is_reached_at_the_first_crossing() -> None:
    line = Line("loss", (0.0, 1.0, 2.0, 3.0), (4.0, 2.0, 3.0, 0.0))
    assert reached(line, 2.0) == pytest.approx(1.0)
    assert reached(line, 1.0) == pytest.approx(2 + 2 / 3)
    assert reached(line, 5.0) == pytest.approx(0.0)
    assert reached(line, -1.0) == float("inf")


def test_long_curves_keep_their_ends() -> None:
    x = tuple(float(i) for i in range(1001))
    thin = thinned(Line("loss", x, tuple(-value for value in x)))
    assert len(thin.x) == 200
    assert (thin.x[0], thin.x[-1]) == (0.0, 1000.0)
    assert thin.y == tuple(-value for value in thin.x)


def test_runs_that_are_missing_are_trained_and_drawn_against_the_time_of_their_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.set_default_dtype(torch.float32)
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "rows.py").write_text(
        "from fdsm.recipes.override import override\n"
        "from tests.recipes.tiny import dropping, tiny\n"
        "short = override(tiny, 'plan.iterations=1')\n",
        encoding="utf-8",
    )
    monkeypatch.chdir(tmp_path)
    rows = ("rows.py:tiny", "rows.py:dropping")
    race = Race("tiny", "table0", "here", rows, "loss", "a loss", log=True)
    absent = Race("absent", "table0", "here", ("rows.py:short",), "fid", "a distance")
    place = RunStore(tmp_path / "runs")
    found = LossAgainstTime((race, absent)).measure(place, 0, lambda steps: steps)
    (panel,) = found.panels
    assert panel.y_log
    for row, line in zip(rows, panel.lines, strict=True):
        log = records(place.folder("table0", row, 0) / "metrics.jsonl")
        validated = [record for record in log if "validation" in record]
        assert len(validated) == 5
        assert line.y == tuple(record["validation"]["loss"] for record in validated)
        assert line.x == pytest.approx([line.x[1] * i for i in range(5)])
        assert line.x[1] > 0
