"""The numbers of the table, against arithmetic by hand."""

import io
import math
import re
from pathlib import Path

import pytest
from rich.console import Console

from fdsm.report import collect, summary, terminal
from fdsm.report.tables import number

from .folders import NLLS, edit, write, write_table1

METRIC = "metric exact_sm_loss"
PACE = "metric milliseconds_per_iteration"


def test_means_and_standard_errors_over_seeds(runs: list[Path]) -> None:
    """For two seeds the standard error is half their distance."""
    table = summary(collect(runs).groups)
    cells = {row.label: row.cells for row in table.rows}
    assert cells["SSM"][METRIC] == "-102.0 ± 2.0"
    assert cells["FD-SSM"][METRIC] == "-101.25 ± 0.25"
    assert cells["FD-DSM"][METRIC] == "-97.5 ± 1.5"
    assert cells["DSM"][PACE] == "18.00 ± 0.20"
    assert cells["DSM"]["seconds"] == "54.5 s"
    assert cells["DSM"]["iterations"] == "3,000"
    assert cells["DSM"]["parameters"] == "123,456"
    assert "standard error over seeds" in table.caption
    assert "One seed" not in table.caption


def test_three_seeds(runs: list[Path]) -> None:
    """-100, -104 and -105: the mean is -103, s² = (9 + 1 + 4) / 2 = 7, and √(7/3) = 1.53."""
    write(runs[0] / "2", "SSM", 0, seed=2)
    edit(runs[0] / "2" / "result.json", {"metrics.exact_sm_loss.value": -105})
    row, *_ = summary(collect(runs).groups).rows
    assert row.cells[METRIC] == "-103.0 ± 1.5"
    assert row.cells["seeds"] == "3"


def test_the_error_of_one_seed_is_its_own_and_marked(runs: list[Path]) -> None:
    table = summary(collect([runs[0] / "0"]).groups)
    assert table.rows[0].cells[METRIC] == "-100.0 ± 1.3†"
    assert table.rows[0].cells[PACE] == "23.8"
    assert "† One seed: ± is the standard error of its own measurement" in table.caption
    edit(runs[0] / "0" / "result.json", {"metrics.exact_sm_loss.error": None})
    table = summary(collect([runs[0] / "0"]).groups)
    assert table.rows[0].cells[METRIC] == "-100"


def test_times_are_relative_to_the_first_group(runs: list[Path]) -> None:
    ratios = lambda folders: [r.cells["ratio"] for r in summary(collect(folders).groups).rows]
    assert ratios(runs) == ["1.00", "0.50", "0.75", "0.38"]
    assert ratios(runs[::-1]) == ["1.00", "2.00", "1.33", "2.67"]
    table = summary(collect(runs[::-1]).groups)
    assert "time / FD-DSM" in [column.title for column in table.columns]
    assert "relative to FD-DSM" in table.caption


def test_unfinished_runs_do_not_count(runs: list[Path]) -> None:
    (runs[0] / "0" / "result.json").unlink()
    (runs[1] / "0" / "result.json").unlink()
    (runs[1] / "1" / "result.json").unlink()
    table = summary(collect(runs).groups)
    first, second, *_ = table.rows
    assert (first.cells[METRIC], first.cells["seeds"]) == ("-104.0 ± 1.3†", "1 of 2")
    assert (first.finished, first.unfinished) == (1, 1)
    assert (second.cells[METRIC], second.cells["seeds"]) == ("–", "0 of 2")
    assert float(second.cells[PACE].split()[0]) == pytest.approx(12, rel=0.05)
    assert "not finished" in table.caption


def test_a_diverged_run_is_seen(runs: list[Path]) -> None:
    edit(runs[0] / "0" / "result.json", {"metrics.exact_sm_loss.value": math.nan})
    assert summary(collect(runs).groups).rows[0].cells[METRIC] == "nan"


def test_published_numbers_stand_beside_the_measured(tmp_path: Path) -> None:
    for row in ("SSM", "Taylor-SSM"):
        write(tmp_path / "table3" / row / "0", "SSM", 0, recipe=f"nice_mnist/{row}")
    table = summary(collect([tmp_path]).groups)
    keys = [column.key for column in table.columns]
    assert keys[:2] == [METRIC, "published exact_sm_loss"]
    assert "published nll" in keys
    assert "metric nll" not in keys
    assert table.rows[0].cells["published exact_sm_loss"] == "-2,182 ± 269"
    assert table.rows[0].cells["published nll"] == "2,579 ± 945"
    assert table.rows[1].cells["published nll"] == "–"


def test_the_terminal_shows_the_same_rows(runs: list[Path], tmp_path: Path) -> None:
    write(tmp_path / "x", "SSM", 0, recipe="nice/[red]MLE\x1b[31m")
    collection = collect([*runs, tmp_path / "x"])
    file = io.StringIO()
    Console(file=file, width=400).print(terminal(collection))
    shown = file.getvalue()
    for experiment in collection.experiments:
        table = summary(experiment.groups)
        assert table.caption in " ".join(shown.split())
        for row in table.rows:
            (line,) = (one for one in shown.splitlines() if f" {row.cells[METRIC]} " in one)
            cells = re.split(r" {2,}", line.strip())
            assert cells == [row.label, *(row.cells[c.key] for c in table.columns)]
    assert "[red]MLE" in shown
    assert "\x1b" not in shown


def printed(folder: Path, width: int) -> str:
    file = io.StringIO()
    Console(file=file, width=width).print(terminal(collect([folder])))
    return file.getvalue()


def crowded(root: Path) -> Path:
    """Write a table with four more metrics, of long names."""
    folder = write_table1(root)
    for path in folder.rglob("result.json"):
        more = {f"metrics.a_rather_long_name_{i}": 1234.5 for i in range(4)}
        edit(path, {**more, "metrics.exact_sm_loss": {"value": -33.0, "error": 4.5}})
    return folder


def test_a_narrow_terminal_shows_what_was_published_and_names_the_rest(tmp_path: Path) -> None:
    shown = printed(crowded(tmp_path), 80)
    lines = shown.splitlines()
    assert max(map(len, lines)) <= 80
    assert "…" not in shown
    for row in {row.removeprefix("RedWine ") for row, _ in NLLS}:
        assert any(line.split()[:1] == [row] for line in lines)
    words = " ".join(shown.split())
    for cell in ("13.30 ± 0.20", "13.34", "0.75", "0.73", "15", "82"):
        assert f" {cell} " in words
    assert "iteration" in words
    left_out = words.partition("No room for: ")[2]
    assert "a rather long name 3; " in left_out
    assert "memory" in left_out
    assert "NLL" not in left_out


def test_a_wide_terminal_shows_everything(tmp_path: Path) -> None:
    folder = crowded(tmp_path)
    shown = printed(folder, 200)
    assert "No room" not in shown
    words = " ".join(shown.split())
    (experiment,) = collect([folder]).experiments
    table = summary(experiment.brief.groups)
    for row in table.rows:
        for column in table.columns:
            assert row.cells[column.key] == "–" or f" {row.cells[column.key]} " in words
    assert table.caption in words
    assert max(map(len, shown.splitlines())) <= 200


@pytest.mark.parametrize(
    ("value", "error", "expected"),
    [
        (0.0, None, "0"),
        (0.0, 0.012, "0.000 ± 0.012"),
        (-0.001, 30.0, "0 ± 30"),
        (9.96, 0.0996, "9.96 ± 0.10"),
        (123456.0, 7.0, "123,456.0 ± 7.0"),
        (1.5e-7, None, "1.5e-7"),
        (1e-3, 2e-9, "0.0010000000 ± 0.0000000020"),
        (0.2, 3e8, "(0.0 ± 3.0)e8"),
        (5e-324, None, "0"),
        (1.7e308, 1e307, "(1.70 ± 0.10)e308"),
        (math.inf, 1.0, "inf"),
        (2.0, math.nan, "2"),
    ],
)
def test_digits(value: float, error: float | None, expected: str) -> None:
    assert number(value, error) == expected
