"""Tests of cropping, resizing and color conversion of images."""

import io
import time
from pathlib import Path
from threading import get_ident

import numpy as np
import pytest
import torch
from PIL import Image

from paper.data import ImageFolder
from paper.data.files import image_decoding

from .. import file_cases


def test_the_central_square_is_resized(tmp_path: Path) -> None:
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


def test_images_have_color_if_any_file_has(tmp_path: Path) -> None:
    gray = file_cases.random_bytes(32, 32)
    (tmp_path / "gray.png").write_bytes(file_cases.encode_png(gray))
    assert ImageFolder(tmp_path).rows().shape == (1, 1, 32, 32)
    (tmp_path / "red.png").write_bytes(
        file_cases.encode_png(np.full((32, 32, 3), [255, 0, 0], np.uint8))
    )
    rows = ImageFolder(tmp_path).rows()
    assert rows.shape == (2, 3, 32, 32)
    assert torch.equal(rows[0], torch.from_numpy(gray).expand(3, 32, 32))
    assert rows[1].float().mean((1, 2)).tolist() == [255, 0, 0]
    forced = ImageFolder(tmp_path, channels=1).rows()
    assert forced.shape == (2, 1, 32, 32)
    assert (forced[1] == 76).all()  # the luma of pure red, 0.299 * 255


def test_sixteen_bits_are_scaled(tmp_path: Path) -> None:
    levels = np.full((32, 32), 0x80FF, np.uint16)
    file = io.BytesIO()
    Image.fromarray(levels).save(file, "PNG")
    (tmp_path / "deep.png").write_bytes(file.getvalue())
    assert (ImageFolder(tmp_path).rows() == 0x80).all()


def test_the_exif_orientation_is_applied(tmp_path: Path) -> None:
    array = np.zeros((32, 32), np.uint8)
    array[:8] = 250
    exif = Image.Exif()
    exif[0x0112] = 3  # upside down
    Image.fromarray(array).save(tmp_path / "a.png", exif=exif)
    rows = ImageFolder(tmp_path).rows()
    assert (rows[0, 0, -8:] == 250).all()
    assert (rows[0, 0, :-8] == 0).all()


def test_invalid_sizes_and_channels_raise(tmp_path: Path) -> None:
    file_cases.write_images(tmp_path, 1)
    with pytest.raises(ValueError, match="size and crop must be at least 1, but are 0"):
        ImageFolder(tmp_path, size=0).rows()
    with pytest.raises(ValueError, match="channels must be 1, 3 or None, but is 2"):
        ImageFolder(tmp_path, channels=2).rows()


def test_large_images_are_decoded_by_one_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file_cases.write_images(tmp_path, 12, 32, 32, 3)
    expected, threads = ImageFolder(tmp_path, size=16).rows(), set()
    decode = image_decoding.ImageDecoder._decode_pixels

    def note_thread(self: image_decoding.ImageDecoder, image: Image.Image) -> object:
        threads.add(get_ident())
        time.sleep(0.01)  # so that other threads would take the next images
        return decode(self, image)

    monkeypatch.setattr(image_decoding.ImageDecoder, "_decode_pixels", note_thread)
    for largest, most in ((32 * 32 - 1, 1), (32 * 32, 32)):
        threads.clear()
        monkeypatch.setattr(image_decoding, "LARGE_PIXELS", largest)
        assert torch.equal(ImageFolder(tmp_path, size=16).rows(), expected)
        assert min(2, most) <= len(threads) <= most
