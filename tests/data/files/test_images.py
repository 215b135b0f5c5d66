"""Folders and zip files of images, whatever is in them."""

import io
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from fdsm.data import DataError, ImageFolder
from fdsm.data.files import archives

from .. import file_cases


def test_images_are_stored_as_they_are(tmp_path: Path) -> None:
    arrays = file_cases.write_images(tmp_path)
    source = ImageFolder(tmp_path)
    rows = source.rows()
    assert source.names() == [f"{i:02}.png" for i in range(20)]
    for row, array in zip(rows, arrays, strict=True):
        assert torch.equal(row, torch.from_numpy(array.transpose(2, 0, 1)))


def test_a_zip_is_the_same_as_its_folder(tmp_path: Path) -> None:
    file_cases.write_images(tmp_path / "folder")
    members = {f"top/{p.name}": p.read_bytes() for p in (tmp_path / "folder").iterdir()}
    path = file_cases.write_zip(tmp_path / "a.zip", members | {"top/readme.txt": b"x"})
    folder, zipped = ImageFolder(tmp_path / "folder"), ImageFolder(path)
    assert torch.equal(folder.rows(), zipped.rows())
    assert [name.removeprefix("top/") for name in zipped.names()] == folder.names()


def test_images_are_split_at_random_but_always_the_same(tmp_path: Path) -> None:
    file_cases.write_images(tmp_path)
    data, again = ImageFolder(tmp_path).load(), ImageFolder(tmp_path).load()
    assert data.record["rows"] == {"train": 16, "validation": 2, "test": 2}
    assert data.record == again.record
    assert torch.equal(data.train, again.train)
    together = torch.cat([data.train, data.validation, data.test]).flatten(1).tolist()
    assert sorted(together) == sorted(ImageFolder(tmp_path).rows().flatten(1).tolist())
    other = ImageFolder(tmp_path, seed=1).load()
    assert not torch.equal(data.train, other.train)


def test_the_record_changes_with_any_file(tmp_path: Path) -> None:
    file_cases.write_images(tmp_path)
    before = ImageFolder(tmp_path).load().record["files"]
    (tmp_path / "03.png").write_bytes((tmp_path / "04.png").read_bytes())
    assert ImageFolder(tmp_path).load().record["files"] != before


def test_the_middle_is_cut_out_and_resized(tmp_path: Path) -> None:
    wide = np.zeros((40, 100), np.uint8)
    wide[:, 30:70] = 200
    (tmp_path / "wide.png").write_bytes(file_cases.encode_png(wide))
    tall = np.ascontiguousarray(wide.T)
    (tmp_path / "tall.png").write_bytes(file_cases.encode_png(tall))
    rows = ImageFolder(tmp_path, size=8).rows()
    assert rows.shape == (2, 1, 8, 8)
    assert (rows == 200).all()
    whole = ImageFolder(tmp_path, size=10, crop=20).rows()
    assert (whole == 200).all()


def test_a_crop_without_resizing_keeps_the_pixels(tmp_path: Path) -> None:
    array = file_cases.random_bytes(21, 30)
    (tmp_path / "a.png").write_bytes(file_cases.encode_png(array))
    rows = ImageFolder(tmp_path, size=6, crop=6).rows()
    assert np.array_equal(rows[0, 0].numpy(), array[8:14, 12:18])


def test_colour_is_decided_by_the_files(tmp_path: Path) -> None:
    grey = file_cases.random_bytes(32, 32)
    (tmp_path / "grey.png").write_bytes(file_cases.encode_png(grey))
    assert ImageFolder(tmp_path).rows().shape == (1, 1, 32, 32)
    (tmp_path / "red.png").write_bytes(
        file_cases.encode_png(np.full((32, 32, 3), [255, 0, 0], np.uint8))
    )
    rows = ImageFolder(tmp_path).rows()
    assert rows.shape == (2, 3, 32, 32)
    assert torch.equal(rows[0], torch.from_numpy(grey).expand(3, 32, 32))
    assert rows[1].float().mean((1, 2)).tolist() == [255, 0, 0]
    forced = ImageFolder(tmp_path, channels=1).rows()
    assert forced.shape == (2, 1, 32, 32)
    assert (forced[1] == 76).all()  # the luma of pure red, 0.299 * 255


def test_sixteen_bits_are_scaled_and_not_clipped(tmp_path: Path) -> None:
    levels = np.full((32, 32), 0x80FF, np.uint16)
    file = io.BytesIO()
    Image.fromarray(levels).save(file, "PNG")
    (tmp_path / "deep.png").write_bytes(file.getvalue())
    assert (ImageFolder(tmp_path).rows() == 0x80).all()


def test_photographs_are_turned_upright(tmp_path: Path) -> None:
    array = np.zeros((32, 32), np.uint8)
    array[:8] = 250
    exif = Image.Exif()
    exif[0x0112] = 3  # upside down
    Image.fromarray(array).save(tmp_path / "a.png", exif=exif)
    rows = ImageFolder(tmp_path).rows()
    assert (rows[0, 0, -8:] == 250).all()
    assert (rows[0, 0, :-8] == 0).all()


def test_other_and_hidden_files_are_ignored(tmp_path: Path) -> None:
    file_cases.write_images(tmp_path, 2)
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / "__MACOSX").mkdir()
    (tmp_path / "__MACOSX" / "00.png").write_text("x")
    (tmp_path / ".thumb.png").write_text("x")
    assert ImageFolder(tmp_path).names() == ["00.png", "01.png"]


def test_folders_are_labels(tmp_path: Path) -> None:
    for name, level in (("cats", 10), ("dogs", 200)):
        (tmp_path / name).mkdir()
        for i in range(10):
            content = file_cases.encode_png(np.full((32, 32), level + i, np.uint8))
            (tmp_path / name / f"{i}.png").write_bytes(content)
    data = ImageFolder(tmp_path).load()
    assert data.labels is not None
    for rows, labels in zip((data.train, data.validation, data.test), data.labels, strict=True):
        assert torch.equal(rows[:, 0, 0, 0] >= 200, labels == 1)


def test_a_limit_is_drawn_and_recorded(tmp_path: Path) -> None:
    file_cases.write_images(tmp_path)
    data = ImageFolder(tmp_path, limit=10).load()
    assert data.record["rows"] == {"train": 8, "validation": 1, "test": 1}
    assert data.record["parts"] == ["10 of 20 images"]
    assert len(ImageFolder(tmp_path, limit=10).rows()) == 20


def bomb() -> bytes:
    """Return the start of a PNG file of 30,000 by 30,000 pixels."""
    header = b"IHDR" + struct.pack(">2I5B", 30_000, 30_000, 1, 0, 0, 0, 0)
    chunk = struct.pack(">I", 13) + header + struct.pack(">I", zlib.crc32(header))
    return b"\x89PNG\r\n\x1a\n" + chunk


BAD_IMAGES: dict[str, Callable[[], bytes]] = {
    "empty": lambda: b"",
    "text": lambda: b"<html>",
    "cut": lambda: file_cases.encode_png(file_cases.random_bytes(32, 32, 3))[:1000],
    "bomb": bomb,
}


@pytest.mark.parametrize("name", BAD_IMAGES)
def test_an_unreadable_image_is_named(tmp_path: Path, name: str) -> None:
    file_cases.write_images(tmp_path / "set", 12)
    (tmp_path / "set" / "05.png").write_bytes(BAD_IMAGES[name]())
    with pytest.raises(DataError, match=r"set, 05\.png: not a readable image .*delete it"):
        ImageFolder(tmp_path / "set").load()


def test_hostile_and_damaged_zips_are_refused(tmp_path: Path) -> None:
    image = file_cases.encode_png(file_cases.random_bytes(32, 32))
    for name in ("../evil.png", "/evil.png", "C:\\evil.png", "a/../../evil.png", "..\\evil.png"):
        path = file_cases.write_zip(tmp_path / "a.zip", {name: image})
        with pytest.raises(DataError, match="lies outside of it"):
            ImageFolder(path).rows()
    path = file_cases.write_zip(tmp_path / "c.zip", {"a.png": image, "b.png": image})
    whole = path.read_bytes()
    path.write_bytes(whole[:-30])
    with pytest.raises(DataError, match="not a whole zip file"):
        ImageFolder(path).rows()
    path.write_bytes(whole[:200] + bytes(50) + whole[250:])
    with pytest.raises(DataError, match=r"c\.zip, a\.png: .*Make the zip file again"):
        ImageFolder(path).rows()


def test_a_zip_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "LIMIT", 10**6)
    path = file_cases.write_zip(tmp_path / "a.zip", {"a.png": bytes(10**6 + 1)})
    with pytest.raises(DataError, match=r"a\.png: 1,000,001 bytes unpacked are too many"):
        ImageFolder(path).rows()


def test_too_few_images_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="contains no images"):
        ImageFolder(tmp_path).load()
    file_cases.write_images(tmp_path, 9)
    with pytest.raises(DataError, match="has 9 images: at least 10"):
        ImageFolder(tmp_path).load()
    assert len(ImageFolder(tmp_path).rows()) == 9


def test_sizes_and_channels_are_checked(tmp_path: Path) -> None:
    file_cases.write_images(tmp_path, 1)
    with pytest.raises(ValueError, match="sizes are at least 1"):
        ImageFolder(tmp_path, size=0).rows()
    with pytest.raises(ValueError, match="channels is 1, 3 or None, but got 2"):
        ImageFolder(tmp_path, channels=2).rows()


def test_tiny_imagenet_is_read_in_colour(real: Path) -> None:
    file_cases.require_real(real, "tiny-imagenet/tiny-imagenet-200-val.zip")
    source = ImageFolder("tiny-imagenet/tiny-imagenet-200-val.zip", limit=100)
    assert len(source.names()) == 10_000
    data = source.load()
    assert data.train.shape == (80, 3, 32, 32)
    assert data.record["parts"] == ["100 of 10,000 images"]
