from pathlib import Path

import pytest

from fdsm.cli import printing
from fdsm.cli.printing import print_problems, progress, report_files


def test_progress_is_printed_in_lines_without_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line at the start, and one every five seconds: 3 s per step here."""
    times = iter(range(0, 1000, 3))
    monkeypatch.setattr(printing.time, "monotonic", lambda: float(next(times)))
    assert list(progress("Sampling")(range(4))) == [0, 1, 2, 3]
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["Sampling ...", "Sampling: 2 of 4 steps", "Sampling: 4 of 4 steps"]


def test_fast_loops_print_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(progress("Sampling")(iter([5, 6]))) == [5, 6]
    assert capsys.readouterr().err == "Sampling ...\n"


def test_files_and_facts_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    report_files([Path("a.csv")], json=False, rows_read=3)
    out, err = capsys.readouterr()
    assert (out, err) == ("", "Wrote a.csv\n")
    report_files([Path("a.csv")], json=True, rows_read=3)
    out, err = capsys.readouterr()
    assert (out.split(), err) == (
        ["{", '"files":', "[", '"a.csv"', "],", '"rows_read":', "3", "}"],
        "",
    )


def test_few_of_many_problems_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    print_problems(["First.", "Second."])
    assert capsys.readouterr().err == "WARNING: First.\nWARNING: Second.\n"
    print_problems([f"Problem {i}." for i in range(7)])
    lines = capsys.readouterr().err.splitlines()
    assert lines[3:] == ["WARNING: Problem 3.", "WARNING: 3 more problems are in summary.json."]
