"""SIGTERM, SIGHUP, Ctrl-C and a closed terminal."""

import os
import pty
import signal
from functools import partial
from pathlib import Path

import pytest

from fdsm.tables import TableModel

from .commands import Command, Prepare, wait_until
from .moments import all_of, slow_calls
from .terminals import ignoring_hang_up, in_terminal

SLOW = partial(slow_calls, "fdsm.training.update:Update.__call__", 0.05)
"""Steps take long enough for a signal to come during training."""
STOPPED = "fdsm: stopped. No model was written. Training cannot be continued; start it again."


def training(table: Path, tmp_path: Path, prepare: Prepare = SLOW) -> Command:
    """Return a command that has read the table."""
    arguments = ["train", table, "--out", tmp_path / "models" / "model", "--iterations=60"]
    command = Command(arguments, tmp_path / "log", prepare)
    wait_until(lambda: command.log.exists() and "Read" in command.output)
    return command


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_signal_stops_training_without_a_trace(
    number: signal.Signals, table: Path, tmp_path: Path
) -> None:
    command = training(table, tmp_path)
    command.process.join(0.5)
    command.send(number)
    assert command.wait() == 130
    assert command.output.splitlines()[-1] == STOPPED
    assert "Traceback" not in command.output
    assert not (tmp_path / "models").exists()


def test_closed_terminal_stops_training_like_a_signal(table: Path, tmp_path: Path) -> None:
    """Messages and the progress bar can no longer be printed, and that must not matter."""
    ours, theirs = pty.openpty()
    terminal = partial(in_terminal, os.ttyname(theirs))
    arguments = ["train", table, "--out", tmp_path / "models" / "model", "--iterations=60"]
    command = Command(arguments, tmp_path / "log", partial(all_of, [SLOW, terminal]))
    wait_until(lambda: b"Read" in os.read(ours, 1000))
    os.close(theirs)
    os.close(ours)
    assert command.wait() == 130
    assert not (tmp_path / "models").exists()


def test_ignored_hang_up_stays_ignored(table: Path, tmp_path: Path) -> None:
    """As after `nohup`."""
    command = training(table, tmp_path, partial(all_of, [SLOW, ignoring_hang_up]))
    command.send(signal.SIGHUP)
    assert command.wait() == 0, command.output
    TableModel.load(tmp_path / "models" / "model")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, -15)])
def test_signal_during_scoring_leaves_no_file(
    number: signal.Signals, code: int, trained: Path, table: Path, tmp_path: Path
) -> None:
    out = tmp_path / "scores.csv"
    slow = partial(slow_calls, "fdsm.tables.scoring:write_frames", 5.0)
    command = Command(["score", trained, table, "--out", out], tmp_path / "log", slow)
    wait_until(lambda: [*tmp_path.glob(".scores.csv.*")] != [])
    command.send(number)
    assert command.wait() == code
    assert not out.exists()
    if number == signal.SIGINT:
        assert command.output.endswith("interrupted. Files already written are complete.\n")
        assert not [*tmp_path.glob(".*")]
