"""Tests of ImageFolder."""

import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from paper.data import DataError, ImageFolder

from .. import file_cases


def test_pixels_are_read_unchanged(tmp_path: Path) -> None:
    arrays = file_cases.write_images(tmp_path)
    source = ImageFolder(tmp_path)
    rows = source.rows()
    assert source.names() == [f"{i:02}.png" for i in range(20)]
    for row, array in zip(rows, arrays, strict=True):
        assert torch.equal(row, torch.from_numpy(array.transpose(2, 0, 1)))


def test_the_split_depends_only_on_the_seed(tmp_path: Path) -> None:
    file_cases.write_images(tmp_path)
    data, again = ImageFolder(tmp_path).load(), ImageFolder(tmp_path).load()
    assert data.record["rows"] == {"train": 16, "validation": 2, "test": 2}
    assert data.record == again.record
    assert torch.equal(data.train, again.train)
    together = torch.cat([data.train, data.validation, data.test]).flatten(1).tolist()
    assert sorted(together) == sorted(ImageFolder(tmp_path).rows().flatten(1).tolist())
    other = ImageFolder(tmp_path, seed=1).load()
    assert not torch.equal(data.train, other.train)


def test_the_checksum_changes_with_any_file(tmp_path: Path) -> None:
    file_cases.write_images(tmp_path)
    before = ImageFolder(tmp_path).load().record["files"]
    (tmp_path / "03.png").write_bytes((tmp_path / "04.png").read_bytes())
    assert ImageFolder(tmp_path).load().record["files"] != before


def test_subfolders_are_classes(tmp_path: Path) -> None:
    for name, level in (("cats", 10), ("dogs", 200)):
        (tmp_path / name).mkdir()
        for i in range(10):
            content = file_cases.encode_png(np.full((32, 32), level + i, np.uint8))
            (tmp_path / name / f"{i}.png").write_bytes(content)
    data = ImageFolder(tmp_path).load()
    assert data.labels is not None
    for rows, labels in zip((data.train, data.validation, data.test), data.labels, strict=True):
        assert torch.equal(rows[:, 0, 0, 0] >= 200, labels == 1)


def test_a_limited_number_of_images_is_recorded(tmp_path: Path) -> None:
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
def test_the_error_names_an_unreadable_image(tmp_path: Path, name: str) -> None:
    file_cases.write_images(tmp_path / "set", 12)
    (tmp_path / "set" / "05.png").write_bytes(BAD_IMAGES[name]())
    with pytest.raises(DataError, match=r"set: 05\.png is not a readable image .*delete it"):
        ImageFolder(tmp_path / "set").load()


def test_too_few_images_raise(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="contains no images"):
        ImageFolder(tmp_path).load()
    file_cases.write_images(tmp_path, 9)
    with pytest.raises(DataError, match="has 9 images, but at least 10 are needed"):
        ImageFolder(tmp_path).load()
    assert len(ImageFolder(tmp_path).rows()) == 9


def test_the_real_tiny_imagenet_is_read(real: Path) -> None:
    file_cases.require_real(real, "tiny-imagenet/tiny-imagenet-200-val.zip")
    source = ImageFolder("tiny-imagenet/tiny-imagenet-200-val.zip", limit=100)
    assert len(source.names()) == 10_000
    data = source.load()
    assert data.train.shape == (80, 3, 32, 32)
    assert data.record["parts"] == ["100 of 10,000 images"]
