from pathlib import Path

import pytest

from paper.tests.runs.run_cases import TINY
from .cli_cases import run_fails, run_json, run_text


def test_run_of_the_default_preset_is_checked(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first thing that a reader of the guide tries."""
    out, _ = run_text(["check", str(trained)], capsys)
    assert "parameter gradient, angle" in out
    report = run_json(["check", str(trained)], capsys)
    assert report["step"] == pytest.approx(0.1)
    assert 0 <= report["angle"] < 10


def test_finite_differences_of_a_run_are_compared_with_taylor(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run_json(["train", "--recipe", TINY], capsys)
    out, _ = run_text(["check", "runs/tiny", "--trust"], capsys)
    assert "Taylor(fallback=Autodiff())" in out
    report = run_json(["check", "runs/tiny", "--trust"], capsys)
    assert report["reference"] == "Taylor(fallback=Autodiff())"
    assert report["step"] == pytest.approx(0.1)
    assert 0 < report["angle"] < 5


def test_missing_data_are_named(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--model=flow", "--iterations=2", "--set=hidden=4", "--set=plan.num_samples=0"]
    run_json(["train", str(table), *options], capsys)
    table.unlink()
    code, error = run_fails(["check", "runs/measurements"], capsys)
    assert code == 1
    assert "measurements.csv" in error
