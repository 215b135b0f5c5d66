"""Files of images that once caused a traceback, a wait without end, or took too much memory."""

import os
import struct
import zipfile
import zlib
from pathlib import Path

import pytest
from PIL import Image

from paper.data import CIFAR10, MNIST, SVHN, DataError, ImageFolder, from_path
from paper.data.files import image_decoding
from paper.tests.data.file_cases import encode_png, random_bytes, write_images, write_zip


@pytest.mark.parametrize("suffix", ["npy", "npz", "zip"])
def test_pipes_devices_folders_and_empty_files_are_refused(tmp_path: Path, suffix: str) -> None:
    """Reading a pipe would wait without end."""
    pipe, empty, device = (tmp_path / f"{n}.{suffix}" for n in ("pipe", "empty", "device"))
    os.mkfifo(pipe)
    empty.touch()
    device.symlink_to("/dev/zero")
    for path, reason in {pipe: "is a pipe", device: "is a device", empty: ""}.items():
        with pytest.raises(DataError, match=rf"{path.name}.*{reason}"):
            from_path(path).load()
    with pytest.raises(DataError, match=r"nothing\.zip does not exist"):
        from_path(tmp_path / "nothing.zip").load()
    folder = tmp_path / f"folder.{suffix}"
    folder.mkdir()
    with pytest.raises(DataError, match=rf"folder\.{suffix} (contains no images|is a folder)"):
        from_path(folder).load()


@pytest.mark.parametrize("source", [MNIST(), CIFAR10((1,)), SVHN(part="part.mat")])
def test_published_files_that_are_pipes_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: MNIST | CIFAR10 | SVHN
) -> None:
    for name in ("mnist/train-images-idx3-ubyte.gz", "cifar-10-python.tar.gz", "svhn/part.mat"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        os.mkfifo(tmp_path / name)
    monkeypatch.setenv("FDSM_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with pytest.raises(DataError):
        source.load()


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2])
def test_damaged_members_of_zip_files(tmp_path: Path, method: int) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", method) as archive:
        for i in range(12):
            archive.writestr(f"{i}.png", encode_png(random_bytes(8, 8, seed=i)))
    content = bytearray(path.read_bytes())
    content[60:120] = b"\xff" * 60
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"a\.zip: 0\.png is (damaged|compressed with a method)"):
        ImageFolder(path).load()


def test_a_png_with_an_empty_profile_after_its_pixels(tmp_path: Path) -> None:
    write_images(tmp_path, 12, 8, 8, 3)
    content = (tmp_path / "00.png").read_bytes()
    chunk = struct.pack(">I", 0) + b"iCCP" + struct.pack(">I", zlib.crc32(b"iCCP"))
    (tmp_path / "00.png").write_bytes(content[:-12] + chunk + content[-12:])
    with pytest.raises(DataError, match=r"00\.png is not a readable image"):
        ImageFolder(tmp_path).load()


def test_files_that_pillow_gives_to_other_programs_are_not_images(tmp_path: Path) -> None:
    write_images(tmp_path, 12, 8, 8, 3)
    (tmp_path / "00.png").write_bytes(
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\n"
    )
    with pytest.raises(
        DataError, match=r"00\.png is not a readable image \(UnidentifiedImageError"
    ):
        ImageFolder(tmp_path).load()


def test_pixels_have_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for i in range(12):
        with Image.new("L", (300, 200)) as image:
            image.save(tmp_path / f"{i:02}.png")
    assert ImageFolder(tmp_path).load().train.shape == (10, 1, 32, 32)
    monkeypatch.setattr(image_decoding, "MAX_PIXELS", 59_999)
    with pytest.raises(DataError, match=r"\d\d\.png has 60,000 pixels, more than 59,999"):
        ImageFolder(tmp_path).load()
    monkeypatch.setattr(image_decoding, "MAX_PIXELS", 60_000)
    monkeypatch.setattr(image_decoding, "MIN_TOTAL_PIXELS", 11 * 60_000)
    with pytest.raises(DataError, match=r"the images up to \d\d\.png have 720,000 pixels"):
        ImageFolder(tmp_path).load()


def test_a_zip_file_that_expands_too_much_is_not_unpacked(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "a.zip", {f"{i}.bmp": bytes(2**24) for i in range(9)})
    with pytest.raises(DataError, match=r"a\.zip expands to 150,994,944 bytes of images"):
        ImageFolder(path).load()
