"""Files of data that once caused a traceback, a wait without end, or took too much memory."""

import io
import os
import struct
import zipfile
import zlib
from datetime import date, time, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from PIL import Image
from pyarrow import feather, parquet

from paper.data import CIFAR10, MNIST, SVHN, Array, DataError, ImageFolder, Table, from_path
from paper.data.files import image_decoding, table
from paper.data.tables import text_format
from fdsm.tables.frame.reading import MAX_CELL, iter_frames

from paper.tests.data.file_cases import encode_png, random_bytes, write_images, write_zip

CSV = "a,b\n" + "".join(f"{i}.5,{i % 7}\n" for i in range(30))


@pytest.mark.parametrize(
    "suffix", ["csv", "tsv", "txt", "parquet", "feather", "npy", "npz", "zip"]
)
def test_pipes_devices_folders_and_empty_files_are_refused(tmp_path: Path, suffix: str) -> None:
    """Reading a pipe would wait without end."""
    pipe, empty, device = (tmp_path / f"{n}.{suffix}" for n in ("pipe", "empty", "device"))
    os.mkfifo(pipe)
    empty.touch()
    device.symlink_to("/dev/zero")
    for path, reason in {pipe: "is a pipe", device: "is a device", empty: ""}.items():
        with pytest.raises(DataError, match=rf"{path.name}.*{reason}"):
            from_path(path).load()
    with pytest.raises(DataError, match=r"nothing\.csv does not exist"):
        from_path(tmp_path / "nothing.csv").load()
    folder = tmp_path / f"folder.{suffix}"
    folder.mkdir()
    with pytest.raises(DataError, match=rf"folder\.{suffix} (contains no images|is a folder)"):
        (Table(folder) if suffix == "csv" else from_path(folder)).load()


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


def test_links_to_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(CSV)
    (tmp_path / "link.csv").symlink_to(tmp_path / "a.csv")
    assert len(Table(tmp_path / "link.csv").load().train) == 24


def test_cells_may_be_long_but_not_without_limit(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    for size in (131_072 + 1, MAX_CELL):
        path.write_text(CSV.replace("3.5", "x" * size, 1))
        assert Table(path, ignore=("a",)).load().train.shape == (24, 1)
    path.write_text(CSV.replace("3.5", "x" * (MAX_CELL + 1), 1))
    message = rf"a\.csv: a cell of column 'a' has {MAX_CELL + 1:,} bytes, more than {MAX_CELL:,}"
    with pytest.raises(DataError, match=message):
        Table(path).load()
    with pytest.raises(DataError, match=message):
        list(iter_frames(path, 10))


def test_long_cells_of_digits_take_linear_time() -> None:
    """A regular expression of numbers took quadratic time: a day for a cell of 1 MB."""
    found = text_format.detect_format("a,b\n" + f"{'1' * 10**6}x,2\n" * 3)
    assert found.names == ("a", "b")


def test_columns_have_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_format, "MAX_COLUMNS", 30)
    wide = pa.table({f"c{i}": np.arange(20.0) for i in range(31)})
    parquet.write_table(wide, tmp_path / "a.parquet")
    feather.write_feather(wide, tmp_path / "a.feather")
    (tmp_path / "a.csv").write_text(
        "\n".join([",".join(wide.column_names), *[",".join("1" * 31)] * 20])
    )
    np.save(tmp_path / "a.npy", np.zeros((20, 31)))
    for name in ("a.parquet", "a.feather", "a.csv", "a.npy"):
        with pytest.raises(DataError, match="has 31 columns, more than 30"):
            from_path(tmp_path / name).load()


def test_a_quoted_name_is_shortened_and_neutral(tmp_path: Path) -> None:
    name = "\x1b[31m" + "n" * 10_000
    (tmp_path / "a.csv").write_text(f"{name},{name}\n" + "1,2\n" * 20)
    with pytest.raises(DataError, match="more than one column is called") as raised:
        Table(tmp_path / "a.csv").load()
    assert len(str(raised.value)) < 400
    assert "\x1b" not in str(raised.value)


def test_dates_times_and_durations_of_parquet_are_read(tmp_path: Path) -> None:
    rows = range(40)
    frame = pa.table({
        "x": [i * 0.37 % 1 for i in rows],
        "day": [date(2024, 1, 1) + timedelta(days=i * i) for i in rows],
        "far": pa.array([date(1, 1, 1), date(9999, 12, 31)] * 20),
        "time": [time(i % 24, i * 7 % 60) for i in rows],
        "duration": pa.array([timedelta(seconds=i * i) for i in rows], pa.duration("ns")),
        "months": pa.array([(i, i, i) for i in rows], pa.month_day_nano_interval()),
        "stamp": pa.array([2**62 + i * i for i in rows], pa.timestamp("ns")),
    })
    feather.write_feather(frame, tmp_path / "a.feather")
    parquet.write_table(frame.drop_columns(["months"]), tmp_path / "a.parquet")
    for name in ("a.parquet", "a.feather"):
        data = Table(tmp_path / name).load()
        assert {"x", "day", "far", "time", "duration", "stamp"} <= set(data.columns or ())


def test_an_npz_file_with_a_junk_member(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, x=np.random.default_rng(0).normal(size=(30, 2)))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("junk", b"not an array")
    with pytest.raises(
        DataError, match=r"a\.npz has the arrays 'x', 'junk'. Select one with key="
    ):
        Array(path).load()
    assert len(Array(path, key="x").load().train) == 24
    with pytest.raises(DataError, match=r"a\.npz cannot be read as a numpy array"):
        Array(path, key="junk").load()


def test_an_array_that_declares_more_than_it_has(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    with path.open("wb") as file:
        header = {"descr": "<f8", "fortran_order": False, "shape": (10**12, 2)}
        np.lib.format.write_array_header_1_0(file, header)
        file.write(bytes(1000))
    with pytest.raises(DataError, match=r"a\.npy cannot .*declares 16,000,000,000,000 bytes"):
        from_path(path).load()


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


def test_too_many_cells_for_a_file_are_sampled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cells that take almost no space in the file would take 50 bytes each in memory."""
    monkeypatch.setattr(table, "FEW_CELLS", 4000)
    x = np.tile([0.5, 1.5, 2.5, 4.0], 5000)
    parquet.write_table(pa.table({"a": x, "b": x[::-1]}), tmp_path / "a.parquet")
    feather.write_feather(pa.table({"a": x, "b": x[::-1]}), tmp_path / "a.feather")
    np.savez_compressed(tmp_path / "a.npz", np.stack([x, x[::-1]], 1).astype(np.float16))
    for name in ("a.parquet", "a.feather", "a.npz"):
        data = from_path(tmp_path / name).load()
        (record,) = data.record["files"]  # type: ignore[misc, union-attr]
        size = max(4000, (tmp_path / name).stat().st_size)
        assert 0.4 * size < 2 * record["sampled_rows"] < 1.3 * size  # type: ignore[call-overload, index, operator]


def test_text_that_is_stored_once_and_used_often_is_not_repeated(tmp_path: Path) -> None:
    texts = pa.DictionaryArray.from_arrays(pa.array([0, 1] * 50_000), pa.array(["x" * 10**6, "y"]))
    for frame in (pa.table({"a": texts}), pa.table({"a": texts}).slice(0, 1000)):
        parquet.write_table(frame, tmp_path / "a.parquet")
        with pytest.raises(DataError, match=r"a\.parquet cannot be used: its text expands to"):
            Table(tmp_path / "a.parquet").load()


def test_gzip_files_expand_up_to_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import gzip

    path = tmp_path / "a.csv.gz"
    with gzip.open(path, "wb") as file:
        file.write(CSV.encode())
        for _ in range(140):
            file.write(bytes(2**20))
    for read in (lambda: Table(path).load(), lambda: list(iter_frames(path, 1000))):
        with pytest.raises(
            DataError, match=r"a\.csv\.gz (expands to more than|is not a text file)"
        ):
            read()
    with gzip.open(path, "wb") as file:
        file.write(CSV.encode() * 1)
        file.write(b"0.5,1\n" * 2000)
    whole = Table(path).load()
    monkeypatch.setattr(table, "SMALL_TEXT", 1000)
    monkeypatch.setattr(table, "MAX_TEXT_EXPANSION", 1)
    in_blocks = Table(path).load()
    assert whole.record["rows"] == in_blocks.record["rows"]
    assert io.BytesIO(path.read_bytes()).read(2) == b"\x1f\x8b"


@pytest.mark.parametrize("content", ['"', '"\n"', ",\n", '""', "\x0b\n", ";;;\n;", " \t \n "])
def test_text_without_cells_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.csv").write_text(content)
    with pytest.raises(DataError, match=r"a\.csv"):
        Table(tmp_path / "a.csv").load()
