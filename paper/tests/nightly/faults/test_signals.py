"""SIGTERM, SIGHUP and Ctrl-C: a checkpoint is written, and the command that continues printed."""

import os
import pty
import signal
from functools import partial
from pathlib import Path

import pytest

from paper.runs import Run
from tests.nightly.faults.moments import all_of, pause_in_write, slow_calls
from tests.nightly.faults.terminals import ignoring_hang_up, in_terminal

from .commands import Command, Prepare, run, wait_until
from .comparison import hidden_files, require_same_result
from .kills import OPTIONS, logged_iteration, saved_iteration

SLOW = partial(slow_calls, "fdsm.training.update:Update.__call__", 0.05)
"""Steps take long enough for a signal to come during training."""


@pytest.fixture(scope="module")
def expected(pictures: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("expected")
    code, output = run(["train", pictures, "--out", folder / "run", *OPTIONS], folder / "log")
    assert code == 0, output
    return Run.open(folder / "run")


def training(pictures: Path, tmp_path: Path, prepare: Prepare = SLOW) -> Command:
    """Return a command that has trained ten iterations."""
    arguments = ["train", pictures, "--out", tmp_path / "run", *OPTIONS]
    command = Command(arguments, tmp_path / "log", prepare)
    wait_until(lambda: logged_iteration(tmp_path / "run") > 10)
    return command


def resume(tmp_path: Path, expected: Run) -> None:
    """Resume the run, and require that it ends as if it had not been interrupted."""
    code, output = run(["train", "--resume", tmp_path / "run"], tmp_path / "log")
    assert code == 0, output
    require_same_result(tmp_path / "run", expected)
    assert hidden_files(tmp_path / "run") == {".lock"}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_signal_writes_a_checkpoint_and_prints_the_command_that_continues(
    number: signal.Signals, pictures: Path, tmp_path: Path, expected: Run
) -> None:
    command = training(pictures, tmp_path)
    command.send(number)
    assert command.wait() == 128 + number
    folder = tmp_path / "run"
    assert saved_iteration(folder) == logged_iteration(folder) < 60
    assert (
        f"stopped after iteration {saved_iteration(folder)} of 60. A checkpoint" in command.output
    )
    assert f"Continue with: python -m paper train --resume {folder}" in command.output
    resume(tmp_path, expected)


def test_closed_terminal_stops_training_like_a_signal(
    pictures: Path, tmp_path: Path, expected: Run
) -> None:
    """Messages and the progress bar can no longer be printed, and that must not matter."""
    ours, theirs = pty.openpty()
    terminal = partial(in_terminal, os.ttyname(theirs))
    command = training(pictures, tmp_path, partial(all_of, [SLOW, terminal]))
    os.close(theirs)
    os.close(ours)
    assert command.wait() == 128 + signal.SIGHUP
    assert saved_iteration(tmp_path / "run") == logged_iteration(tmp_path / "run") < 60
    resume(tmp_path, expected)


def test_ignored_hang_up_stays_ignored(pictures: Path, tmp_path: Path, expected: Run) -> None:
    """As after `nohup`."""
    command = training(pictures, tmp_path, partial(all_of, [SLOW, ignoring_hang_up]))
    command.send(signal.SIGHUP)
    assert command.wait() == 0
    require_same_result(tmp_path / "run", expected)


def test_second_ctrl_c_stops_at_once(pictures: Path, tmp_path: Path, expected: Run) -> None:
    """It comes inside the write of a checkpoint, whose file is not created."""
    moment = partial(pause_in_write, "checkpoints/0*.safetensors", 3, "written")
    folder = tmp_path / "run"
    command = Command(["train", pictures, "--out", folder, *OPTIONS], tmp_path / "log", moment)
    assert command.connection.poll(60)
    assert hidden_files(folder) > {".lock"}
    command.send(signal.SIGINT)
    command.process.join(0.5)
    assert command.process.exitcode is None
    command.send(signal.SIGINT)
    assert command.wait() == 130
    assert (saved_iteration(folder), logged_iteration(folder)) == (10, 15)
    assert "The last complete checkpoint: iteration 10. Continue with: python" in command.output
    assert "Traceback" not in command.output
    assert hidden_files(folder) == {".lock"}
    resume(tmp_path, expected)


def test_signal_during_a_slow_write_waits_for_its_end(
    pictures: Path, tmp_path: Path, expected: Run
) -> None:
    command = training(pictures, tmp_path, partial(slow_calls, "os:fsync", 0.1))
    command.send(signal.SIGTERM)
    assert command.wait() == 128 + signal.SIGTERM
    assert saved_iteration(tmp_path / "run") == logged_iteration(tmp_path / "run") < 60
    assert hidden_files(tmp_path / "run") == {".lock"}
    resume(tmp_path, expected)
