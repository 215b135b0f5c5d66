import json
import shutil
from pathlib import Path

import pytest

from .cli_cases import run_fails, run_json, run_text, write_measurements


def test_evaluation_gives_the_same_result_again(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(trained, tmp_path / "run")
    before = json.loads((folder / "result.json").read_text())
    (folder / "result.json").unlink()
    result = run_json(["evaluate", str(folder)], capsys)
    assert {key: result[key] for key in before} == before
    assert json.loads((folder / "result.json").read_text()) == before
    assert result["preset"] == "table/small"


def test_result_is_printed_beside_its_references(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(trained, tmp_path / "run")
    out, log = run_text(["evaluate", str(folder)], capsys)
    assert "Gaussian" in out
    assert "exact SM loss: " in log
    assert f"Wrote {folder / 'result.json'}" in log


def test_changed_data_are_refused(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--model=flow", "--iterations=2", "--set=hidden=4", "--set=plan.num_samples=0"]
    run_json(["train", str(table), *options], capsys)
    write_measurements(table, seed=3)
    code, error = run_fails(["evaluate", "runs/measurements"], capsys)
    assert code == 1
    assert "have changed since training started" in error
