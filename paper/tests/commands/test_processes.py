"""Commands in two processes, as torchrun starts them; see `launch_cases.py`."""

import json
import sys
from pathlib import Path

import pytest

from paper.__main__ import main
from paper.commands.options import UsageError
from paper.commands.processes import folder_of_restarted, in_parallel, parts_sentence
from paper.runs import Run
from paper.runs.distributed import LostProcessError
from paper.runs.distributed.world import SINGLE_PROCESS, World

from ..conftest import Launched

REFUSED = {
    "diverges": (1, "loss = nan"),
    "busy": (1, "another process is writing to busy"),
    "small batch": (2, "a batch of 1 rows cannot be divided into 2 parts"),
    "kernel": (2, "its loss of 11 rows has shape (5,) and not one value per row"),
    "compile": (2, "Leave out --compile on"),
    "missing": (1, "missing.npy does not exist"),
    "layers": (2, "the loss takes gradients itself"),
    "accumulate": (2, "--accumulate must be at least 1, but is 0"),
    "timeout": (2, "--timeout must be positive, but is 0"),
    "device": (2, "several processes can train on cpu or cuda, but not on mps"),
    "differ": (2, "the processes were started with different options"),
    "report": (2, "torchrun can start `train` only: run `python -m paper report` directly"),
    "sample": (2, "torchrun can start `train` only: run `python -m paper sample` directly"),
}


@pytest.mark.nightly
@pytest.mark.parametrize("name", REFUSED)
def test_a_launch_that_cannot_work_is_refused_in_one_line(launched: Launched, name: str) -> None:
    (code, out, errors), (other_code, *other) = (printed[name] for printed in launched.printed)
    expected_code, message = REFUSED[name]
    assert code == expected_code
    assert other_code != 0
    last = errors.splitlines()[-1]
    assert last.startswith("paper: ")
    assert message in last
    assert errors.count("paper: ") == 1
    assert out == ""
    assert other == ["", ""]
    assert not (launched.folder / "no").exists()


@pytest.mark.nightly
def test_an_error_of_one_process_is_printed_by_it(launched: Launched) -> None:
    (code, _, errors), (other_code, _, other) = (
        printed["one fails"] for printed in launched.printed
    )
    assert (code, other_code) == (1, 1)
    assert "paper:" not in errors
    assert other.startswith("paper: a.npy does not exist")
    assert not (launched.folder / "no").exists()


@pytest.mark.nightly
def test_two_processes_train_and_the_first_evaluates(launched: Launched) -> None:
    (code, out, errors), (other_code, *other) = (printed["trains"] for printed in launched.printed)
    assert (code, other_code) == (0, 0)
    assert other == ["", ""]
    assert "Training in tiny with 2 processes. Steps of several processes" in errors
    assert "Summary of tiny" in out
    names = {path.name for path in (launched.folder / "tiny").iterdir()}
    assert {"launch.json", "result.json", "model.safetensors", "samples.npy"} <= names


@pytest.mark.nightly
def test_no_thread_is_left_that_could_abort_the_process_at_its_end(launched: Launched) -> None:
    assert [printed["new threads"] for printed in launched.printed] == [set(), set()]


def test_a_lost_process_is_reported_with_what_to_do(
    trained: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("signal.signal", lambda *_: None)

    def lose(*_: object, **__: object) -> None:
        run = Run.open(trained)
        raise LostProcessError(run, World(0, 2), RuntimeError("[gloo] Connection closed"))

    monkeypatch.setattr(sys.modules["paper.commands.app"].app, "cli", lose)
    with pytest.raises(SystemExit, match="1"):
        main(["train"])
    printed = capsys.readouterr().err
    assert printed.startswith("paper: process 0 of 2 lost another one, which has ended or does")
    assert "Continue with: python -m paper train --resume" in printed


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
