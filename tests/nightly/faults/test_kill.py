"""kill -9 at any moment: a model or file is there as a whole, or what was there before is."""

import random
import shutil
import time
from functools import partial
from pathlib import Path

import pytest

from fdsm.tables import TableModel

from ...cli.cli_cases import FILES
from .commands import Command, Prepare, run
from .moments import PHASES, pause_in_call, pause_in_write

KILLS = 25


def killed(arguments: list[str | Path], moment: Prepare, folder: Path) -> None:
    """Kill a command at a moment."""
    command = Command(arguments, folder / "log", moment)
    assert command.connection.poll(120), command.output
    command.connection.recv()
    assert command.kill()


def hidden(folder: Path) -> list[Path]:
    """Return the hidden files and folders: drafts."""
    return [*folder.glob(".*")]


def train(table: Path, out: Path) -> list[str | Path]:
    return ["train", table, "--out", out, "--iterations=15"]


@pytest.mark.timeout(1800)
def test_training_killed_at_random_times_leaves_a_whole_model_or_nothing(
    table: Path, tmp_path: Path
) -> None:
    choose, parent = random.Random(0), tmp_path / "models"
    assert run(train(table, parent / "first"), tmp_path / "log")[0] == 0  # starts the server
    began = time.monotonic()
    assert run(train(table, parent / "model"), tmp_path / "log")[0] == 0
    seconds, outcomes = time.monotonic() - began, {"nothing": 0, "model": 0}
    for _ in range(KILLS):
        shutil.rmtree(parent)
        command = Command(train(table, parent / "model"), tmp_path / "log")
        command.process.join(choose.uniform(0, 1.1 * seconds))
        command.kill()
        if (parent / "model").exists():
            assert {path.name for path in (parent / "model").iterdir()} == FILES
            TableModel.load(parent / "model")
            outcomes["model"] += 1
        else:
            visible = parent.exists() and set(parent.iterdir()) - set(hidden(parent))
            assert not visible
            outcomes["nothing"] += 1
        parent.mkdir(exist_ok=True)
    assert outcomes["nothing"] > 5, outcomes


@pytest.mark.parametrize(
    ("call", "number"),
    [("fdsm.training.checkpoint:save", 1), ("os:replace", 1), ("os:replace", 2)],
)
def test_training_killed_while_the_model_is_written(
    call: str, number: int, table: Path, tmp_path: Path
) -> None:
    """`os.replace` renames the weights, and then the folder."""
    out = tmp_path / "models" / "model"
    killed(train(table, out), partial(pause_in_call, call, number), tmp_path)
    [draft] = hidden(out.parent)
    assert draft.name.startswith(".model-")
    assert not out.exists()
    code, output = run(train(table, out), tmp_path / "log")
    assert code == 0, output
    TableModel.load(out)


COMMANDS = {"score": "new.scores.csv", "sample": "samples.csv", "report": "page.html"}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("phase", PHASES)
def test_killed_while_a_file_is_written(
    phase: str, command: str, trained: Path, table: Path, tmp_path: Path
) -> None:
    """The old file stays. The draft is hidden, and the next command deletes it."""
    name = COMMANDS[command]
    data = [Path(shutil.copy(table, tmp_path / "new.csv"))] if command == "score" else []
    arguments = [command, trained, *data, "--out", tmp_path / name]
    assert run(arguments, tmp_path / "log")[0] == 0
    before = (tmp_path / name).read_bytes()
    killed(arguments, partial(pause_in_write, name, 1, phase), tmp_path)
    assert (tmp_path / name).read_bytes() == before
    drafts = hidden(tmp_path)
    assert [draft.name.startswith(f".{name}.") for draft in drafts] == [True] * (
        phase != "renamed"
    )
    assert run(arguments, tmp_path / "log")[0] == 0
    assert (tmp_path / name).read_bytes() == before
    assert not hidden(tmp_path)


@pytest.mark.timeout(900)
def test_scoring_killed_at_random_times_leaves_a_whole_file_or_nothing(
    trained: Path, table: Path, tmp_path: Path
) -> None:
    choose, out = random.Random(0), tmp_path / "scores.csv"
    arguments: list[str | Path] = ["score", trained, table, "--out", out]
    began = time.monotonic()
    assert run(arguments, tmp_path / "log")[0] == 0
    seconds, whole = time.monotonic() - began, out.read_bytes()
    for _ in range(KILLS):
        out.unlink(missing_ok=True)
        command = Command(arguments, tmp_path / "log")
        command.process.join(choose.uniform(0, 1.1 * seconds))
        command.kill()
        assert not out.exists() or out.read_bytes() == whole
    assert run(arguments, tmp_path / "log")[0] == 0
    assert out.read_bytes() == whole
    assert not hidden(tmp_path)
