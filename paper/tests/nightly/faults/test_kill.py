"""kill -9 at any moment: every file stays complete, and the run ends like an uninterrupted one."""

import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from paper.runs import Run
from tests.nightly.faults.moments import PHASES, pause_in_call, pause_in_write

from .commands import Command, run
from .comparison import hidden_files, require_same_result
from .kills import Kills
from .pairs import Pair


@pytest.fixture(scope="module")
def kills(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kills]:
    return Kills(tmp_path_factory.mktemp("kills"), random.Random(0))


def test_kills_at_random_times_change_nothing(kills: Kills) -> None:
    before = kills.count
    while kills.count < before + 4:
        kills.kill_one_run(in_writes=False)
    assert max(kills.lost) <= 5


def test_kills_inside_checkpoint_writes_change_nothing(kills: Kills) -> None:
    before = kills.phases.total()
    while kills.phases.total() < before + 4:
        kills.kill_one_run(in_writes=True)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_a_hundred_kills_change_nothing(kills: Kills) -> None:
    while kills.count < 100:
        kills.kill_one_run(in_writes=kills.phases.total() < 50)
    assert set(kills.phases) == set(PHASES)
    assert {"training", "after training"} <= set(kills.stages)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_kills_of_two_processes_leave_complete_files(tmp_path: Path) -> None:
    kills = Kills(tmp_path, random.Random(0), Pair)
    while kills.count < 20:
        kills.kill_one_run(in_writes=kills.phases.total() < 8)
    assert max(kills.lost) <= 5


def killed(arguments: list[str | Path], moment: object, folder: Path) -> None:
    """Kill a command at a moment."""
    command = Command(arguments, folder / "log", moment)  # type: ignore[arg-type]
    assert command.connection.poll(120), command.output
    command.connection.recv()
    assert command.kill()


def test_kill_inside_the_evaluation(whole: Run, finished: Path, tmp_path: Path) -> None:
    """The model is complete, and the same command evaluates it."""
    (finished / "result.json").unlink()
    resume: list[str | Path] = ["train", "--resume", finished]
    killed(resume, partial(pause_in_write, "samples.npy", 1, "half"), tmp_path)
    assert not (finished / "result.json").exists()
    assert hidden_files(finished) > {".lock"}
    killed(resume, partial(pause_in_write, "result.json", 1, "written"), tmp_path)
    code, output = run(resume, tmp_path / "log")
    assert code == 0, output
    assert Run.open(finished).result["metrics"] == whole.result["metrics"]
    assert (finished / "samples.npy").read_bytes() == (whole.folder / "samples.npy").read_bytes()
    assert hidden_files(finished) == {".lock"}
    require_same_result(finished, whole)


def test_kill_between_the_last_checkpoint_and_the_model(
    whole: Run, finished: Path, tmp_path: Path
) -> None:
    (finished / "model.safetensors").unlink()
    resume: list[str | Path] = ["train", "--resume", finished]
    killed(resume, partial(pause_in_call, "paper.runs.saved_model:SavedModel.save", 1), tmp_path)
    assert not (finished / "model.safetensors").exists()
    assert run(resume, tmp_path / "log")[0] == 0
    require_same_result(finished, whole)


@pytest.mark.parametrize("phase", ["half", pytest.param("flushed", marks=pytest.mark.nightly)])
def test_kill_inside_the_report_keeps_the_old_one(
    phase: str, finished: Path, tmp_path: Path
) -> None:
    report: list[str | Path] = ["report", finished, "--out", tmp_path / "report.html"]
    (tmp_path / "report.html").write_text("old")
    killed(report, partial(pause_in_write, "report.html", 1, phase), tmp_path)
    assert (tmp_path / "report.html").read_text() == "old"
    assert any(name.startswith(".report.html.") for name in hidden_files(tmp_path))
    code, output = run(report, tmp_path / "log")
    assert code == 0, output
    assert "</html>" in (tmp_path / "report.html").read_text()
    assert not any(name.startswith(".report.html.") for name in hidden_files(tmp_path))


def test_kill_while_samples_are_written(finished: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.npy"
    arguments: list[str | Path] = ["sample", finished, "--out", out]
    assert run(arguments, tmp_path / "log")[0] == 0
    before = out.read_bytes()
    killed(arguments, partial(pause_in_write, "out.npy", 1, "half"), tmp_path)
    assert out.read_bytes() == before
    assert any(name.startswith(".out.npy.") for name in hidden_files(tmp_path))
    assert run(arguments, tmp_path / "log")[0] == 0
    assert out.read_bytes() == before
    assert not any(name.startswith(".out.npy.") for name in hidden_files(tmp_path))
