import json
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest

from fdsm.cli import main
from paper.runs import Run, SavedModel

from .cli_cases import QUICK, run_fails, run_json, run_text, write_measurements


def summary(out: str) -> dict[str, str]:
    """Return the sentences of a summary by their first word."""
    _, _, text = out.partition("\nSummary of ")
    return dict(line.strip().split(": ", 1) for line in text.splitlines()[1:])


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


def test_summary_holds_the_facts_of_the_result(
    messy_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(messy_run, tmp_path / "run")
    result = run_json(["evaluate", str(folder)], capsys)
    out, _ = run_text(["evaluate", str(folder)], capsys)
    text, saved = summary(out), SavedModel.load(Run.open(folder))
    assert text["Data"].startswith(
        "200 rows, 2 numeric (length, weight), 2 categorical (city, sold), "
    )
    assert text["Model"] == "energy-based model, denoising score matching (table/small)."
    assert text["Training"].startswith("100 iterations in ")
    assert saved.detector is not None
    p_values = saved.detector.calibration.held_out_p_values()
    share = float((p_values < 0.05).double().mean())
    assert 0.01 <= share <= 0.09
    assert result["calibration"] == {
        "held_out_rows": 200, "level": 0.05, "share_below_level": share,
    }  # fmt: skip
    assert text["Calibration"] == (
        f"{100 * share:.1f} % of 200 held-out rows have a p-value below 0.05 (5 % is perfect)."
    )
    # The density of encoded categories is not a probability.
    assert saved.log_partition is None
    assert result["log_partition"] is result["log_partition_error"] is None
    assert text["Log-density"].startswith("known up to a constant")
    assert text["Outlier score"] == (
        "the log-density at noise levels 0.1, 0.2 and 0.4, the distances to the 5 nearest "
        "training rows, and new values in columns whose values repeat."
    )
    assert text["Samples"] == (
        "250 drawn. A classifier separates them from rows with an AUC of "
        f"{result['sample_auc']:.2f} (0.5 or less means that it cannot)."
    )
    assert result["num_samples"] == 250


def test_summary_of_numbers_has_the_error_of_the_normalizing_constant(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(trained, tmp_path / "run")
    result = run_json(["evaluate", str(folder)], capsys)
    out, _ = run_text(["evaluate", str(folder)], capsys)
    saved = SavedModel.load(Run.open(folder))
    assert saved.log_partition is not None
    assert [result["log_partition"], result["log_partition_error"]] == list(saved.log_partition)
    error = saved.log_partition[1]
    assert summary(out)["Log-density"] == f"normalized, with an error of {error:.2g} nats."


def test_references_are_compared_in_words(
    messy_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(messy_run, tmp_path / "run")
    (compared,) = json.loads((folder / "result.json").read_text())["comparisons"]
    losses = {name: one["value"] for name, one in compared["references"].items()}
    assert losses["Gaussian mixture"] < compared["model"]["value"] < losses["Gaussian"]
    assert compared["better"] == ["Gaussian mixture"]
    out, _ = run_text(["evaluate", str(folder)], capsys)
    assert summary(out)["Density"] == (
        "better than a Gaussian, worse than a Gaussian mixture on held-out rows (exact SM loss)."
    )


@pytest.mark.parametrize(
    ("options", "limit", "sentences"),
    [
        ([], "iterations", ["All planned iterations", "may help: --iterations 30."]),
        (
            ["--set=optimizer.lr=0.3", "--set=plan.patience=20"],
            "iterations",
            ["All planned iterations", "Longer training is unlikely to help."],
        ),
        (
            ["--set=optimizer.lr=0.3", "--set=plan.patience=4"],
            "early stopping",
            ["Early stopping ended it.", "The held-out loss was best at iteration "],
        ),
    ],
)
def test_limit_of_the_training_is_named(
    options: list[str],
    limit: str,
    sentences: list[str],
    table: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A learning rate of 0.3 makes the loss worse after a few iterations."""
    quick = [*QUICK, "--set=plan.num_samples=0", "--set=plan.validate_every=1"]
    out, _ = run_text(["train", str(table), *quick, *options], capsys)
    result = run_json(["evaluate", "runs/measurements"], capsys)
    assert result["limit"] == limit
    assert (result["iterations"] < 15) == (limit == "early stopping")
    best = result["best_iteration"]
    if limit == "early stopping":
        assert result["iterations"] == best + 4
    for sentence in [f"best at iteration {best}.", *sentences]:
        assert sentence in summary(out)["Training"], sentence
    assert ("Longer" in summary(out)["Training"]) == (limit == "iterations")


def test_next_commands_can_be_run(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_measurements(tmp_path / "new.csv", seed=1)
    _, log = run_text(["train", str(table), *QUICK, "--out", "my run"], capsys)
    commands = log.split("Next:\n")[1].splitlines()
    names = []
    for command in commands:
        program, *arguments = shlex.split(command)
        assert program == "fdsm"
        main(arguments)
        names.append(arguments[0])
    assert names == ["score", "sample", "report"]
    assert Path("new.scores.csv").exists()
    assert Path("my run/samples/samples.csv").exists()
    assert Path("report.html").exists()
    assert run_json(["evaluate", "my run"], capsys)["next"] == [c.strip() for c in commands]


def test_flow_is_normalized_without_an_error(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, _ = run_text(["train", str(table), "--model=flow", "--iterations=5"], capsys)
    text = summary(out)
    assert text["Log-density"] == "normalized."
    assert text["Outlier score"] == "the log-density."
    assert "Samples" not in text
    assert text["Calibration"].endswith(
        "20 held-out rows have a p-value below 0.05 (5 % is perfect)."
    )


def test_constant_that_cannot_be_estimated_is_admitted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Importance sampling in 40 dimensions has too few effective samples."""
    rng = np.random.default_rng(0)
    np.savetxt(tmp_path / "wide.csv", rng.normal(size=(60, 40)), delimiter=",", fmt="%.3f")
    out, _ = run_text(["train", "wide.csv", *QUICK], capsys)
    assert summary(out)["Log-density"] == (
        "known up to a constant, so compare it within this run only."
    )
    result = run_json(["evaluate", "runs/wide"], capsys)
    assert result["normalized"] is False
    assert result["log_partition"] is None


def test_changed_data_are_refused(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--model=flow", "--iterations=2", "--set=hidden=4", "--set=plan.num_samples=0"]
    run_json(["train", str(table), *options], capsys)
    write_measurements(table, seed=3)
    code, error = run_fails(["evaluate", "runs/measurements"], capsys)
    assert code == 1
    assert "have changed since training started" in error
