"""Files are replaced completely or not at all, and errors name the file."""

import errno
import os
from pathlib import Path

import pytest

from fdsm.atomic_io import replace_file, sweep


def test_a_file_is_replaced_completely_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    for text in ("old", "new"):
        with replace_file(path) as draft:
            draft.write_text(text)
        assert path.read_text() == text
    with pytest.raises(KeyboardInterrupt):
        _fail_while_writing(path, KeyboardInterrupt())
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def _fail_while_writing(path: Path, error: BaseException) -> None:
    with replace_file(path) as draft:
        draft.write_text("half")
        raise error


def test_drafts_of_killed_processes_are_deleted(tmp_path: Path) -> None:
    kept = {"a.safetensors", ".lock", ".python.3", ".tmpnotes", ".b.txt.12", ".result.json.swp"}
    for name in {".a.safetensors.1234", ".result.json.0a1b2c3d.draft"} | kept:
        (tmp_path / name).write_bytes(b"half")
    (tmp_path / ".c.safetensors.3").mkdir()
    sweep(tmp_path, r"\w+\.safetensors|result\.json")
    assert {path.name for path in tmp_path.iterdir()} == kept | {".c.safetensors.3"}


def test_draft_that_is_being_written_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    with replace_file(path) as first:
        sweep(tmp_path, r"result\.json")
        first.write_text("first")
        with replace_file(path) as second:
            second.write_text("second")
        assert first.exists()
    assert path.read_text() == "first"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_an_error_while_writing_names_the_file(number: int, tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    path.write_text("old")
    with pytest.raises(OSError, match=r"a\.safetensors") as raised:
        _fail_while_writing(path, OSError(number, os.strerror(number)))
    assert raised.value.errno == number
    assert raised.value.filename == str(path)
    assert [p.read_text() for p in tmp_path.iterdir()] == ["old"]


def test_an_error_of_the_draft_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "result.json"
    with pytest.raises(FileNotFoundError) as raised, replace_file(path) as draft:
        draft.write_text("text")
    assert raised.value.filename == str(path)


def test_an_error_about_another_file_is_not_changed(tmp_path: Path) -> None:
    other = tmp_path / "other"
    with pytest.raises(FileNotFoundError) as raised, replace_file(tmp_path / "a.json"):
        other.read_text()
    assert raised.value.filename == str(other)
