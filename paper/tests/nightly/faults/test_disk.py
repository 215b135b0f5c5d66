"""Disks that are full, read-only, failing or slow, and writes that are lost with the power."""

import errno
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from paper.runs import Run, train
from tests.nightly.faults.disks import Recorder, fail_to_flush, limit_file_size, obey_permissions
from tests.nightly.faults.moments import slow_calls

from .commands import run
from .comparison import hidden_files, require_same_result
from .kills import OPTIONS, saved_iteration


def resume(folder: Path, tmp_path: Path, whole: Run) -> None:
    code, output = run(["train", "--resume", folder], tmp_path / "log")
    assert code == 0, output
    require_same_result(folder, whole)
    assert hidden_files(folder) == {".lock"}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system in memory of 256 kB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("a file system can be mounted by root only")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_full_disk(unfinished: Path, small_disk: Path, tmp_path: Path, whole: Run) -> None:
    """The message has the file, the last checkpoint and the command. Old files stay complete."""
    folder = Path(shutil.copytree(unfinished, small_disk / "run"))
    filler = small_disk / "filler"
    with suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(512))
    code, output = run(["train", "--resume", folder], tmp_path / "log")
    assert code == 1
    assert "No space left on device while writing " in output
    assert f"{folder}/" in output
    assert "The last complete checkpoint: iteration 27. Free some space and run: " in output
    assert f"python -m paper train --resume {folder}" in output
    assert "Traceback" not in output
    assert hidden_files(folder) == {".lock"}
    filler.unlink()
    resume(folder, tmp_path, whole)


def test_limit_of_the_size_of_files(unfinished: Path, tmp_path: Path, whole: Run) -> None:
    """A write that fails half way, by the system's own limit, leaves no file of that name."""
    size = (unfinished / "checkpoints" / "00000027.safetensors").stat().st_size
    limit = partial(limit_file_size, size // 2)
    code, output = run(["train", "--resume", unfinished], tmp_path / "log", limit)
    assert code == 1
    path = unfinished / "checkpoints" / "00000030.safetensors"
    assert f"File too large while writing {path}. The last complete checkpoint" in output
    assert (
        f"iteration 27. Free some space and run: python -m paper train --resume {unfinished}"
        in output
    )
    assert not path.exists()
    resume(unfinished, tmp_path, whole)


def test_full_disk_in_the_evaluation(finished: Path, tmp_path: Path, whole: Run) -> None:
    for name in ("result.json", "samples.npy"):
        (finished / name).unlink()
    fault = partial(fail_to_flush, 1, errno.ENOSPC)
    code, output = run(["train", "--resume", finished], tmp_path / "log", fault)
    assert code == 1
    assert f"the model is saved. Evaluate it with: python -m paper evaluate {finished}" in output
    assert f"No space left on device: '{finished / 'samples.npy'}'" in output
    resume(finished, tmp_path, whole)
    assert Run.open(finished).result["metrics"] == whole.result["metrics"]


@pytest.mark.parametrize("inner", ["", "checkpoints"])
def test_read_only_folder(inner: str, unfinished: Path, tmp_path: Path, whole: Run) -> None:
    folder = unfinished / inner
    before = {path: path.read_bytes() for path in unfinished.rglob("*") if path.is_file()}
    folder.chmod(0o555)
    code, output = run(["train", "--resume", unfinished], tmp_path / "log", obey_permissions)
    folder.chmod(0o755)
    assert code == 1
    assert "Permission denied" in output
    assert f"{folder}/" in output
    assert "Traceback" not in output
    assert (
        "The last complete checkpoint: iteration 27. Solve this and run: python -m paper train"
        in output
    )
    assert all(path.read_bytes() == before[path] for path in before if path.parent == folder)
    resume(unfinished, tmp_path, whole)


def test_new_run_in_a_read_only_folder(pictures: Path, tmp_path: Path) -> None:
    parent = tmp_path / "parent"
    parent.mkdir(mode=0o555)
    arguments = ["train", pictures, "--out", parent / "run", *OPTIONS]
    code, output = run(arguments, tmp_path / "log", obey_permissions)
    assert code == 1
    assert "Permission denied" in output
    assert str(parent / "run") in output
    assert "There is no run to resume yet. Solve this, or choose another folder with" in output
    assert "--resume" not in output
    assert not list(parent.iterdir())


def test_disk_that_reports_an_error(unfinished: Path, tmp_path: Path, whole: Run) -> None:
    """A file that could not be flushed does not replace the old one."""
    fault = partial(fail_to_flush, 5, errno.EIO)
    code, output = run(["train", "--resume", unfinished], tmp_path / "log", fault)
    assert code == 1
    assert "Input/output error while writing" in output
    assert f"Solve this and run: python -m paper train --resume {unfinished}" in output
    assert saved_iteration(unfinished) == 27
    resume(unfinished, tmp_path, whole)


def test_slow_disk(unfinished: Path, tmp_path: Path, whole: Run) -> None:
    """Training takes longer and ends the same."""
    slow = partial(slow_calls, "os:fsync", 0.02)
    code, output = run(["train", "--resume", unfinished], tmp_path / "log", slow)
    assert code == 0, output
    require_same_result(unfinished, whole)


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    recorder = Recorder()
    for name in ("fsync", "replace", "unlink"):
        monkeypatch.setattr(os, name, getattr(recorder, name))
    return recorder


def test_old_checkpoint_is_deleted_after_the_new_one_is_on_the_disk(
    unfinished: Path, recorded: Recorder
) -> None:
    """So that the power can fail at any moment. The metrics up to a checkpoint are there too."""
    train(Run.open(unfinished))
    calls = [(kind, name.split("/")[-1]) for kind, name in recorded.calls]
    start = next(i for i, (_, name) in enumerate(calls) if name == "00000030.safetensors")
    assert calls[start][0] == "rename"
    before, after = calls[:start], calls[start + 1 :]
    assert ("flush", "metrics.jsonl") in before
    assert before[-1][0] == "flush"
    assert before[-1][1].startswith(".00000030.safetensors.")
    assert after.index(("flush", "checkpoints")) < after.index(("delete", "00000020.safetensors"))
