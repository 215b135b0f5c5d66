"""Disks that are full, read-only, failing or slow, and writes that are lost with the power."""

import errno
import os
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from fdsm.atomic_io import create_folder, flush_folder, replace_file
from fdsm.tables import TableModel

from ...cli.cli_cases import FILES
from .commands import Prepare, run
from .disks import Recorder, fail_to_flush, limit_file_size, obey_permissions
from .moments import slow_calls


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system in memory of 128 kB. A model takes more."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("a file system can be mounted by root only")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def train(table: Path, out: Path) -> list[str | Path]:
    return ["train", table, "--out", out, "--iterations=5"]


def test_full_disk(small_disk: Path, table: Path, trained: Path, tmp_path: Path) -> None:
    """The message has the file, and nothing is left behind."""
    code, output = run(train(table, small_disk / "model"), tmp_path / "log")
    assert code == 1
    assert "No space left on device" in output.splitlines()[-1]
    assert str(small_disk) in output.splitlines()[-1]
    assert "Traceback" not in output
    assert not [*small_disk.iterdir()]
    (small_disk / "filler").write_bytes(bytes(120 * 1024))
    out = small_disk / "scores.csv"
    code, output = run(["score", trained, table, "--out", out], tmp_path / "log")
    assert code == 1
    assert output.splitlines()[-1].endswith(f"No space left on device: '{out}'")
    assert [path.name for path in small_disk.iterdir()] == ["filler"]


FAULTS = [
    (partial(limit_file_size, 50_000), "File too large"),
    (partial(fail_to_flush, 1, errno.EIO), "Input/output error"),
]


@pytest.mark.parametrize(("fault", "message"), FAULTS)
def test_disk_that_fails(fault: Prepare, message: str, table: Path, tmp_path: Path) -> None:
    code, output = run(train(table, tmp_path / "models" / "m"), tmp_path / "log", fault)
    assert code == 1
    assert message in output.splitlines()[-1]
    assert "Traceback" not in output
    assert not [*(tmp_path / "models").glob("*"), *(tmp_path / "models").glob(".*")]


def test_read_only_folder_is_refused_before_training(table: Path, tmp_path: Path) -> None:
    parent = tmp_path / "parent"
    parent.mkdir(mode=0o555)
    code, output = run(train(table, parent / "m"), tmp_path / "log", obey_permissions)
    assert code == 1
    assert output == f"fdsm: {parent}/m cannot be written: the folder {parent} is read-only\n"
    assert not [*parent.iterdir()]


def test_model_on_a_read_only_disk_is_used(trained: Path, table: Path, tmp_path: Path) -> None:
    """Nothing is written into its folder."""
    trained.chmod(0o555)
    commands = {
        "s.csv": ["score", trained, table],
        "x.csv": ["sample", trained, "-n", "5"],
        "p.html": ["report", trained],
    }
    try:
        for name, command in commands.items():
            arguments = [*command, "--out", tmp_path / name]
            code, output = run(arguments, tmp_path / "log", obey_permissions)
            assert code == 0, output
            assert (tmp_path / name).exists()
    finally:
        trained.chmod(0o755)
    assert {path.name for path in trained.iterdir()} == FILES


def test_slow_disk(table: Path, tmp_path: Path) -> None:
    slow = partial(slow_calls, "os:fsync", 0.2)
    code, output = run(train(table, tmp_path / "model"), tmp_path / "log", slow)
    assert code == 0, output
    TableModel.load(tmp_path / "model")


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    recorder = Recorder()
    for name in ("fsync", "replace", "unlink"):
        monkeypatch.setattr(os, name, getattr(recorder, name))
    return recorder


def test_file_is_flushed_before_and_its_folder_after_it_is_renamed(
    recorded: Recorder, tmp_path: Path
) -> None:
    path = tmp_path / "result.json"
    with replace_file(path) as draft:
        draft.write_text("text")
    assert recorded.calls == [
        ("flush", str(draft)), ("rename", f"{draft} {path}"), ("flush", str(tmp_path)),
        ("delete", str(draft)),
    ]  # fmt: skip


def test_new_folders_are_flushed(recorded: Recorder, tmp_path: Path) -> None:
    create_folder(tmp_path / "a" / "b")
    assert {name for _, name in recorded.calls} == {str(tmp_path), str(tmp_path / "a")}
    recorded.calls.clear()
    create_folder(tmp_path / "a" / "b")
    assert recorded.calls == []


def test_failing_flush_of_a_folder_is_an_error_unless_the_system_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (errno.EINVAL, errno.ENOTSUP):
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", lambda _, n=number: _fail(n))
            flush_folder(tmp_path)
    monkeypatch.setattr(os, "fsync", lambda _: _fail(errno.EIO))
    with pytest.raises(OSError, match="Input/output"):
        flush_folder(tmp_path)


def _fail(number: int) -> None:
    raise OSError(number, os.strerror(number))
