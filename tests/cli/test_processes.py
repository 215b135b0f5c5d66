"""Commands in two processes, as torchrun starts them; see tests/runs/distributed."""

import csv
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from fdsm.cli import main
from fdsm.cli.options import UsageError
from fdsm.cli.processes import folder_of_restarted, in_parallel, parts_sentence
from paper.runs import SavedModel
from paper.runs.distributed import LostProcessError
from paper.runs.run import Run
from fdsm.training.distributed.world import SINGLE_PROCESS, World

from ..conftest import Launched

REFUSED = {
    "busy": (1, "another process is writing to busy"),
    "small batch": (2, "a batch of 1 rows cannot be divided into 2 parts"),
    "kernel": (2, "its loss of 11 rows has shape (5,) and not one value per row"),
    "compile": (2, "Leave out --compile on"),
    "missing": (1, "missing.csv does not exist"),
    "layers": (2, "Gather all weights at once (--fsdp root)"),
    "accumulate": (2, "--accumulate must be at least 1, but is 0"),
    "timeout": (2, "--timeout must be positive, but is 0"),
    "device": (2, "several processes can train on cpu or cuda, but not on mps"),
    "differ": (2, "the processes were started with different options"),
    "report": (2, "fdsm sample, fdsm evaluate, but not fdsm report: run it directly"),
    "score, taken": (1, "t.csv exists and does not hold scores"),
    "score, no run": (1, "nothing"),
    "score, bad data": (1, "other.csv"),
    "sample, taken": (2, "t.csv has the training data of table"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_launch_that_cannot_work_is_refused_in_one_line(launched: Launched, name: str) -> None:
    (code, out, errors), (other_code, *other) = (one[name] for one in launched.printed)
    expected_code, message = REFUSED[name]
    assert code == expected_code
    assert other_code != 0
    last = errors.splitlines()[-1]
    assert last.startswith("fdsm: ")
    assert message in last
    assert errors.count("fdsm: ") == 1
    assert out == ""
    assert other == ["", ""]
    assert not (launched.folder / "no").exists()


def test_an_error_of_one_process_is_printed_by_it(launched: Launched) -> None:
    (code, _, errors), (other_code, _, other) = (one["one fails"] for one in launched.printed)
    assert (code, other_code) == (1, 1)
    assert "fdsm:" not in errors
    assert other.startswith("fdsm: t.csv does not exist")
    assert not (launched.folder / "no").exists()


def test_two_processes_train_and_evaluate_like_one(launched: Launched, tmp_path: Path) -> None:
    (code, out, errors), (other_code, *other) = (one["trains"] for one in launched.printed)
    assert (code, other_code) == (0, 0)
    assert other == ["", ""]
    assert "Training in table with 2 processes. Steps of several processes" in errors
    assert "Summary of table" in out
    options = ("--iterations", "6", "--set", "plan.num_samples=50", "--compile", "off")
    main(["train", str(launched.folder / "t.csv"), "--out", str(tmp_path / "alone"), *options])
    ours, alone = (Run.open(path) for path in (launched.folder / "table", tmp_path / "alone"))
    names = {path.name for path in ours.folder.iterdir()}
    assert names == {path.name for path in alone.folder.iterdir()} | {"launch.json", "scored"}
    models = [SavedModel.load(run) for run in (ours, alone)]
    weights = [torch.cat([p.flatten() for p in saved.model.parameters()]) for saved in models]
    assert (weights[0] - weights[1]).abs().max() < 1e-5
    assert models[0].log_partition == pytest.approx(models[1].log_partition, abs=1e-4)
    detectors = [saved.detector.state() for saved in models if saved.detector is not None]
    assert len(detectors[0]) > 3
    torch.testing.assert_close(*detectors, rtol=1e-3, atol=1e-4)
    found, expected = ours.result, alone.result
    assert found["metrics"]["exact_sm_loss"]["value"] == pytest.approx(
        expected["metrics"]["exact_sm_loss"]["value"], rel=1e-3
    )
    assert found["sample_auc"] == pytest.approx(expected["sample_auc"], abs=0.05)


def test_no_thread_is_left_that_could_abort_the_process_at_its_end(launched: Launched) -> None:
    assert [one["new threads"] for one in launched.printed] == [set(), set()]


def test_two_processes_score_like_one(launched: Launched, tmp_path: Path) -> None:
    (code, _, errors), (other_code, *other) = (one["score"] for one in launched.printed)
    assert (code, other_code, other) == (0, 0, ["", ""])
    assert "Wrote together.csv: 34 rows" in errors
    run, alone = str(launched.folder / "table"), tmp_path / "alone.csv"
    main(["score", run, str(launched.folder / "new.csv"), "--out", str(alone)])
    ours, expected = (_records(path) for path in (launched.folder / "together.csv", alone))
    assert len(ours) == 34
    assert sum(bool(row["reasons"]) for row in ours) >= 2
    for found, truth in zip(ours, expected, strict=True):
        for name in ("score", "p_value", "log_density"):
            assert float(found.pop(name) or 0) == pytest.approx(
                float(truth.pop(name) or 0), rel=1e-4, abs=1e-5
            )
        assert found == truth


def _records(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_two_processes_sample_like_one(launched: Launched, tmp_path: Path) -> None:
    (code, *_), (other_code, *other) = (one["sample"] for one in launched.printed)
    assert (code, other_code, other) == (0, 0, ["", ""])
    alone = tmp_path / "alone.npy"
    main(["sample", str(launched.folder / "table"), "-n", "7", "--out", str(alone)])
    ours, expected = (np.load(path) for path in (launched.folder / "together.npy", alone))
    assert ours.shape == (7, 2)
    np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-4)


def test_two_processes_evaluate_again(launched: Launched) -> None:
    (code, out, _), (other_code, *other) = (one["evaluate"] for one in launched.printed)
    assert (code, other_code, other) == (0, 0, ["", ""])
    assert out == launched.printed[0]["trains"][1]


@pytest.mark.parametrize(
    ("command", "remedy"),
    [("train", "Continue with: fdsm train --resume"), ("score", "Start the command again")],
)
def test_a_lost_process_is_reported_with_what_to_do(
    command: str,
    remedy: str,
    trained: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("signal.signal", lambda *_: None)

    def lose(*_: object, **__: object) -> None:
        run = Run.open(trained)
        raise LostProcessError(run, World(0, 2), RuntimeError("[gloo] Connection closed"))

    monkeypatch.setattr(sys.modules[main.__module__].app, "cli", lose)
    with pytest.raises(SystemExit, match="1"):
        main([command])
    printed = capsys.readouterr().err
    assert printed.startswith("fdsm: process 0 of 2 lost another one, which has ended or does not")
    assert remedy in printed


def test_options_of_processes_are_checked() -> None:
    with pytest.raises(UsageError, match="start them with torchrun"):
        in_parallel(SINGLE_PROCESS, "root", 1, "off")
    assert parts_sentence(in_parallel(SINGLE_PROCESS, None, 1, "on")) == ""
    assert parts_sentence(in_parallel(SINGLE_PROCESS, None, 2, "off")).startswith(
        ". Steps of several"
    )
    assert " with 3 processes. " in parts_sentence(in_parallel(World(1, 3), None, 2, "auto"))


def test_restarted_processes_find_the_folder_of_their_launch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, launch in (("t", "other"), ("t-2", "mine"), ("t-3", "another")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "launch.json").write_text(json.dumps({"name": launch}))
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "mine")
    assert folder_of_restarted(tmp_path / "t") is None
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    assert folder_of_restarted(tmp_path / "t") == tmp_path / "t-2"
    assert folder_of_restarted(tmp_path / "u") is None
