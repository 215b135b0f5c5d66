"""Tests of folders and zip files of images."""

from pathlib import Path

import pytest
import torch

from paper.data import DataError, ImageFolder
from paper.data.files import archives

from .. import file_cases


def test_a_zip_file_equals_its_folder(tmp_path: Path) -> None:
    file_cases.write_images(tmp_path / "folder")
    members = {f"top/{p.name}": p.read_bytes() for p in (tmp_path / "folder").iterdir()}
    path = file_cases.write_zip(tmp_path / "a.zip", members | {"top/readme.txt": b"x"})
    folder, zipped = ImageFolder(tmp_path / "folder"), ImageFolder(path)
    assert torch.equal(folder.rows(), zipped.rows())
    assert [name.removeprefix("top/") for name in zipped.names()] == folder.names()


def test_other_and_hidden_files_are_ignored(tmp_path: Path) -> None:
    file_cases.write_images(tmp_path, 2)
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / "__MACOSX").mkdir()
    (tmp_path / "__MACOSX" / "00.png").write_text("x")
    (tmp_path / ".thumb.png").write_text("x")
    assert ImageFolder(tmp_path).names() == ["00.png", "01.png"]


def test_hostile_and_damaged_zip_files_raise(tmp_path: Path) -> None:
    image = file_cases.encode_png(file_cases.random_bytes(32, 32))
    for name in ("../evil.png", "/evil.png", "C:\\evil.png", "a/../../evil.png", "..\\evil.png"):
        path = file_cases.write_zip(tmp_path / "a.zip", {name: image})
        with pytest.raises(DataError, match="leads out of the archive"):
            ImageFolder(path).rows()
    path = file_cases.write_zip(tmp_path / "c.zip", {"a.png": image, "b.png": image})
    whole = path.read_bytes()
    path.write_bytes(whole[:-30])
    with pytest.raises(DataError, match="is not a readable zip file"):
        ImageFolder(path).rows()
    path.write_bytes(whole[:200] + bytes(50) + whole[250:])
    with pytest.raises(DataError, match=r"c\.zip: a\.png is damaged: .*Create the zip file again"):
        ImageFolder(path).rows()


def test_an_oversized_member_is_not_decompressed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "MAX_BYTES", 10**6)
    path = file_cases.write_zip(tmp_path / "a.zip", {"a.png": bytes(10**6 + 1)})
    with pytest.raises(DataError, match=r"a\.png has 1,000,001 bytes, more than 1,000,000"):
        ImageFolder(path).rows()


def test_the_checksum_of_a_folder_needs_no_second_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file_cases.write_images(tmp_path, 3)
    expected = archives.open_archive(tmp_path).sha256()
    folder = archives.open_archive(tmp_path)
    for name in folder.names:
        folder.read(name)
    monkeypatch.setattr(Path, "read_bytes", lambda path: pytest.fail(f"{path} is read again"))
    assert folder.sha256() == expected
