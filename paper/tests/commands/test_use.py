"""`sample`, `evaluate`, `check` and `report` of a trained run."""

import json
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest

from paper.__main__ import main
from paper.tests.runs.run_cases import TINY

from .command_cases import QUICK, run_fails, run_json, run_text


def summary(out: str) -> dict[str, str]:
    """Return the sentences of a summary by their first word."""
    _, _, text = out.partition("Summary of ")
    return dict(line.strip().split(": ", 1) for line in text.splitlines()[1:])


def test_samples_are_repeatable_and_depend_on_the_seed(trained: Path) -> None:
    arrays = []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        main(["sample", str(trained), "-n", "5", "--seed", str(seed), "--out", name])
        arrays.append(np.load(f"{name}/samples.npy"))
    assert arrays[0].shape == (5, 3, 8, 8)
    assert np.array_equal(arrays[0], arrays[1])
    assert not np.array_equal(arrays[0], arrays[2])


@pytest.mark.parametrize("name", ["samples.png", "new/samples.npy"])
def test_file_is_written_where_a_file_is_asked_for(
    name: str, trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = run_json(["sample", str(trained), "-n", "7", "--out", name], capsys)
    assert result == {"files": [name], "samples": 7, "shape": [7, 3, 8, 8]}
    assert Path(name).is_file()


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["-n", "0"], 2, "-n must be at least 1, but is 0"),
        (["--out", "x.csv"], 1, "can be written as .npy or .png, not '.csv'"),
        (["--device", "cuda:99"], 2, "torch cannot use the device 'cuda:99' here"),
    ],
)
def test_wrong_options_are_explained(
    options: list[str],
    code: int,
    message: str,
    trained: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found, error = run_fails(["sample", str(trained), *options], capsys)
    assert found == code
    assert message in error
    assert not list(Path().glob("x.*"))


def test_evaluation_gives_the_same_result_again_beside_its_references(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(trained, tmp_path / "run")
    before = json.loads((folder / "result.json").read_text())
    (folder / "result.json").unlink()
    result = run_json(["evaluate", str(folder)], capsys)
    assert {key: result[key] for key in before} == before
    assert json.loads((folder / "result.json").read_text()) == before
    out, log = run_text(["evaluate", str(folder)], capsys)
    assert "Gaussian" in out
    assert "exact SM loss: " in log
    assert "WARNING: with fewer than 30 test rows" in log
    assert f"Wrote {folder / 'result.json'}" in log
    text = summary(out)
    assert text["Data"] == "40 rows."
    assert text["Density"] == "worse than a Gaussian on test rows (exact SM loss)."
    assert text["Log-density"] == "known up to a constant."
    assert "WARNING: The model is worse than a Gaussian" in log
    assert "Consider this before you rely on the model" in log


@pytest.mark.parametrize(
    ("options", "limit", "sentence"),
    [
        (["--set=optimizer.lr=1e-9"], "iterations", "Longer training"),
        (
            ["--set=optimizer.lr=0.9", "--set=plan.validate_every=1", "--set=plan.patience=2"],
            "early stopping",
            "Early stopping ended it.",
        ),
    ],
)
def test_limit_of_the_training_is_named(
    options: list[str], limit: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["train", "--recipe", TINY, "--set=plan.ema_decay=none", "--compile=off", *options]
    out, _ = run_text(command, capsys)
    result = run_json(["evaluate", "runs/tiny", "--trust"], capsys)
    assert result["limit"] == limit
    assert f"best at iteration {result['best_iteration']}." in summary(out)["Training"]
    assert sentence in summary(out)["Training"]


def test_next_commands_can_be_run(photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, log = run_text(["train", str(photos), *QUICK, "--out", "my run"], capsys)
    commands = log.split("Next:\n")[1].splitlines()
    names = []
    for command in commands:
        python, dash_m, program, *arguments = shlex.split(command)
        assert [python, dash_m, program] == ["python", "-m", "paper"]
        main(arguments)
        names.append(arguments[0])
    assert names == ["sample", "report"]
    assert Path("my run/samples/samples.npy").exists()
    assert Path("report.html").exists()


def test_finite_differences_of_a_run_are_compared_with_taylor(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run_json(["train", "--recipe", TINY, "--compile=off"], capsys)
    out, _ = run_text(["check", "runs/tiny", "--trust"], capsys)
    assert "parameter gradient, angle" in out
    report = run_json(["check", "runs/tiny", "--trust"], capsys)
    assert report["reference"] == "Taylor(fallback=Autodiff())"
    assert report["step"] == pytest.approx(0.1)
    assert 0 < report["angle"] < 5


def test_report_is_one_page_about_the_images(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It must not describe images of users by the settings of the paper's."""
    command = ["report", str(trained.parent), "--out", "pages/r.html", "--title", "My results"]
    out, _ = run_text(command, capsys)
    page = Path("pages/r.html").read_text(encoding="utf-8")
    assert "My results" in page
    assert "photos" in page
    assert "Gaussian" in page
    for words in ("MNIST", "Table 2", 'src="http', 'href="http'):
        assert words not in page, words
    assert out.strip()
    assert run_json(["report", str(trained)], capsys)["files"] == ["report.html"]


def test_report_without_runs_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, error = run_fails(["report"], capsys)
    assert code == 2
    assert "give at least one folder of a run" in error
    (tmp_path / "empty").mkdir()
    code, error = run_fails(["report", "empty"], capsys)
    assert code == 1
    assert "empty" in error
