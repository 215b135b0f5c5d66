"""Curves and times from logs that are made by hand, and from runs that take no time."""

import json
from pathlib import Path

import pytest
import torch

from fdsm.experiments.figure4 import LossAgainstTime, Race, curve, ratios, reached, thinned
from fdsm.experiments.place import Place
from fdsm.experiments.study import Line
from fdsm.training.logs import records

RACE = Race("made", "table0", "nothing", ("slow", "fast", "absent"), "dsm", "a loss")


def logged(folder: Path, values: list[float | None], milliseconds: float | None) -> Path:
    """Write the log of a run that validated after every ten iterations, two seconds each."""
    folder.mkdir(parents=True)
    lines = [{"iteration": 5, "seconds": 1.0, "loss": 9.0, "milliseconds": 1.0}]
    lines += [
        {"iteration": 10 * i, "seconds": 2.0 * i, "validation": {"loss": 7.0, "dsm": value}}  # type: ignore[dict-item]
        for i, value in enumerate(values)
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "metrics.jsonl").write_text(text, encoding="utf-8")
    if milliseconds is not None:
        result = {"milliseconds_per_iteration": milliseconds}
        (folder / "result.json").write_text(json.dumps(result), encoding="utf-8")
    return folder


def test_time_is_iterations_times_what_one_took_in_turn(tmp_path: Path) -> None:
    line = curve("row", logged(tmp_path / "run", [4.0, None, 1.0], 50.0), "dsm")
    assert line == Line("row", (0.0, 1.0), (4.0, 1.0))


def test_without_a_result_time_is_that_of_the_log(tmp_path: Path) -> None:
    line = curve("row", logged(tmp_path / "run", [4.0, 1.0], None), "dsm")
    assert line == Line("row", (0.0, 2.0), (4.0, 1.0))


def test_what_was_not_logged_has_no_curve(tmp_path: Path) -> None:
    assert curve("row", logged(tmp_path / "run", [4.0, 1.0], None), "fid") is None
    assert curve("row", tmp_path / "nothing", "dsm") is None


def test_times_are_compared_where_the_worse_ends(tmp_path: Path) -> None:
    """From 4 the slow one falls by 2 in a second, the fast one by 3 in a quarter, to 1."""
    slow = curve("slow", logged(tmp_path / "slow", [4.0, 2.0, 0.0], 100.0), "dsm")
    fast = curve("fast", logged(tmp_path / "fast", [4.0, 1.0, 1.0], 25.0), "dsm")
    assert slow is not None
    assert fast is not None
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


def test_runs_that_are_missing_are_trained_and_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.set_default_dtype(torch.float32)
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "rows.py").write_text(
        "from fdsm.experiments.override import override\n"
        "from tests.experiments.tiny import dropping, tiny\n"
        "short = override(tiny, 'plan.iterations=1')\n",
        encoding="utf-8",
    )
    monkeypatch.chdir(tmp_path)
    rows = ("rows.py:tiny", "rows.py:dropping")
    race = Race("tiny", "table0", "here", rows, "loss", "a loss", log=True)
    absent = Race("absent", "table0", "here", ("rows.py:short",), "fid", "a distance")
    place = Place(tmp_path / "runs")
    found = LossAgainstTime((race, absent)).measure(place, 0, lambda steps: steps)
    (panel,) = found.panels
    assert panel.y_log
    for row, line in zip(rows, panel.lines, strict=True):
        log = records(place.folder("table0", row, 0) / "metrics.jsonl")
        validated = [record for record in log if "validation" in record]
        assert len(validated) == 5
        assert line.y == tuple(record["validation"]["loss"] for record in validated)
        assert line.x == tuple(record["seconds"] for record in validated)
