"""Means over seeds, losses at equal times and times to the same loss, of given curves."""

from dataclasses import replace
from pathlib import Path

import pytest

from fdsm.training import read_metrics
from paper.catalogue import find_recipes, target
from paper.report import Line
from paper.run_store import RunStore
from paper.studies.figure4 import LossCurves
from paper.studies.loss_against_time import (
    CPU,
    LossAgainstTime,
    losses_at_equal_time,
    mean_of_lines,
    times_to_first,
)

PANEL = LossCurves("title", "t", ("slow", "fast"), "loss", "a loss")
SLOW = [
    Line("slow", (0.0, 4.0, 8.0), (8.0, 4.0, 2.0)),
    Line("slow", (0.0, 4.0, 8.0), (8.0, 6.0, 4.0)),
]
FAST = [Line("fast", (0.0, 1.0, 2.0), (8.0, 5.0, y)) for y in (2.0, 3.0)]


def test_losses_are_compared_when_the_fastest_row_ends() -> None:
    """After two seconds the slow row is at 6 and 7, and the fast one at 2 and 3."""
    numbers = losses_at_equal_time(PANEL, {"slow": SLOW, "fast": FAST})
    slow, fast = (numbers[f"loss at equal time, t {row}"] for row in ("slow", "fast"))
    assert (slow.value, slow.error) == (6.5, 0.5)
    assert (fast.value, fast.error) == (2.5, 0.5)
    assert slow.settings == {"seconds": 2.0}


def test_time_to_the_final_loss_of_the_first_row() -> None:
    """The slow row ends at 3 after 8 seconds. The fast one falls from 5 to 2.5 in a second."""
    means = [mean_of_lines("slow", SLOW), mean_of_lines("fast", FAST)]
    assert (means[0].y, means[0].error) == ((8.0, 5.0, 3.0), (0.0, 1.0, 1.0))
    (found,) = times_to_first(PANEL, means).values()
    assert found.value == pytest.approx((1 + 2 / 2.5) / 8)
    high = replace(means[1], y=(8.0, 5.0, 4.0))
    assert times_to_first(PANEL, [means[0], high]) == {}


def test_values_that_a_seed_lacks_are_left_out() -> None:
    line = mean_of_lines("a", [FAST[0], Line("a", (0.0, 2.0), (8.0, 4.0))])
    assert (line.x, line.y) == ((0.0, 2.0), (8.0, 3.0))


def test_panels_have_rows_and_seeds_of_their_tables() -> None:
    for panel, seeds in zip(CPU.panels, CPU.seeds, strict=True):
        table = target(panel.target)
        assert set(panel.rows) <= find_recipes(table, "cpu").keys()
        assert seeds == table.seeds["cpu"]  # type: ignore[union-attr]
    rows = {row for panel in CPU.panels for row in panel.rows if panel.target == "table2"}
    assert rows == find_recipes(target("table2"), "cpu").keys()


@pytest.mark.usefixtures("tiny_table")
def test_missing_runs_are_trained_and_averaged(tmp_path: Path) -> None:
    panel = LossCurves("tiny", "tiny", ("a", "b"), "loss", "loss")
    store = RunStore(tmp_path)
    (plot,) = LossAgainstTime((panel,), (2,)).run(store, 0, iter).panels
    for row, line in zip(panel.rows, plot.lines, strict=True):
        logs = [read_metrics(store.folder("tiny", row, s) / "metrics.jsonl") for s in (0, 1)]
        first, second = (
            [r["validation"]["loss"] for r in log if "validation" in r] for log in logs
        )
        assert line.y == pytest.approx([(a + b) / 2 for a, b in zip(first, second, strict=True)])
        assert line.error == pytest.approx([
            abs(a - b) / 2 for a, b in zip(first, second, strict=True)
        ])
