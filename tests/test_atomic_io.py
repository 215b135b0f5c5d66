"""Files are replaced whole or not at all."""

from pathlib import Path

import pytest

from fdsm.atomic_io import BusyError, exclusive, replace_file, sweep


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    for text in ("old", "new"):
        with replace_file(path) as draft:
            draft.write_text(text)
        assert path.read_text() == text
    with pytest.raises(KeyboardInterrupt):
        _interrupted(path)
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def _interrupted(path: Path) -> None:
    with replace_file(path) as draft:
        draft.write_text("half")
        raise KeyboardInterrupt


def test_what_a_killed_process_left_is_swept(tmp_path: Path) -> None:
    kept = {"a.safetensors", ".lock", ".python.3", ".tmpnotes", ".b.txt.12"}
    for name in {".a.safetensors.1234", ".result.json.7"} | kept:
        (tmp_path / name).write_bytes(b"half")
    (tmp_path / ".c.safetensors.3").mkdir()
    sweep(tmp_path, r"\w+\.safetensors|result\.json")
    assert {path.name for path in tmp_path.iterdir()} == kept | {".c.safetensors.3"}


def test_a_folder_belongs_to_one_at_a_time(tmp_path: Path) -> None:
    with (
        exclusive(tmp_path),
        pytest.raises(BusyError, match="another process"),
        exclusive(tmp_path),
    ):
        pass
    with exclusive(tmp_path):
        pass
