"""Small files that would become large, and what reading them costs.

`python -m tests.nightly.fuzz.bombs` reads each in a process of its own and prints the time, the memory and
the answer. A file of less than 10 MB must cost less than 10 s and 1 GB, or be refused.
"""

import gzip
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from PIL import Image
from pyarrow import feather, parquet

from fdsm.untrusted import InputError
from paper.tests.data.file_cases import idx, write_cifar, write_mnist, write_tar

from .readers import READERS
from .seeds import mat

READ = {reader.name: reader.read for reader in READERS}
LIMITED = 12 * 10**6
"""Largest number of bytes of a bomb, a little more than the promised 10 MB."""

Make = Callable[[Path], Path]
"""Writes the bomb into a folder and returns its path."""


def pictures(count: int, side: int, mode: str) -> Make:
    """Return a maker of a folder of PNG files with pixels of one color."""

    def make(folder: Path) -> Path:
        (folder / "photos").mkdir()
        with Image.new(mode, (side, side)) as image:
            image.save(folder / "photos" / "0.png")
        for i in range(1, count):
            shutil.copy(folder / "photos" / "0.png", folder / "photos" / f"{i}.png")
        return folder / "photos" / "0.png"

    return make


def zipped_bitmaps(count: int, side: int) -> Make:
    """Return a maker of a zip file of bitmaps, which deflate by a factor of a thousand."""

    def make(folder: Path) -> Path:
        with Image.new("RGB", (side, side)) as image:
            image.save(folder / "a.bmp")
        with zipfile.ZipFile(folder / "photos.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            for i in range(count):
                archive.write(folder / "a.bmp", f"{i}.bmp")
        return folder / "photos.zip"

    return make


def repeated(name: str, head: bytes, block: bytes, size: int) -> Make:
    """Return a maker of a file of `size` bytes that repeats a block. A name with `.gz` packs it."""

    def make(folder: Path) -> Path:
        many, path = block * (2**20 // len(block) + 1), folder / name
        with gzip.open(path, "wb", 9) if path.suffix == ".gz" else path.open("wb") as file:
            file.write(head)
            for _ in range(size // len(many) + 1):
                file.write(many[: min(len(many), size)])
        return folder / name

    return make


def written(name: str, write: Callable[[Path], object]) -> Make:
    """Return a maker of a file that a function writes."""

    def make(folder: Path) -> Path:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write(folder / name)
        return folder / name

    return make


def table_of(columns: int, rows: int, cell: object = 0.5) -> pa.Table:
    """Return a table whose cells are two values."""
    part = pa.array([cell, cell * 2 if isinstance(cell, (float, str)) else cell])
    column = pa.chunked_array([part.take(pa.array(np.arange(rows) >= rows // 2, pa.int8()))])
    return pa.table({f"c{i}": column for i in range(columns)})


def zeros_npz(path: Path, count: int, dtype: str, *, declared: int | None = None) -> None:
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("x.npy", "w", force_zip64=True) as file,
    ):
        shape = (declared or count // 4, 4)
        np.lib.format.write_array_header_1_0(
            file, {"descr": dtype, "fortran_order": False, "shape": shape}
        )
        block = bytes(2**20)
        for _ in range(count * np.dtype(dtype).itemsize // 2**20):
            file.write(block)


def mat_bomb(path: Path) -> None:
    content = mat(np.zeros((32, 32, 3, 300_000), np.uint8), np.zeros((1, 1)))
    path.write_bytes(content)


def in_run(name: str, content: bytes) -> Make:
    """Return a maker of a run folder with one file of a given content."""

    def make(folder: Path) -> Path:
        (folder / "run").mkdir(exist_ok=True)
        config = {"format": 2, "seed": 0, "device": "cpu", "recipe": {}}
        (folder / "run" / "config.json").write_text(json.dumps(config), encoding="utf-8")
        (folder / "run" / name).write_bytes(content)
        return folder / "run" / name

    return make


def grid_bomb(path: Path) -> None:
    in_run("x", b"")(path.parents[1])
    zeros_npz(path, 2**28, "<f8")


BOMBS: dict[str, tuple[str, Make]] = {
    "12 PNGs of 13,000 × 13,000": ("image folders", pictures(12, 13_000, "L")),
    "12 PNGs of 8192 × 8192": ("image folders", pictures(12, 8192, "L")),
    "12 RGBA PNGs of 4500 × 4500": ("image folders", pictures(12, 4500, "RGBA")),
    "12 RGBA PNGs of 2048 × 2048": ("image folders", pictures(12, 2048, "RGBA")),
    "zip of 12 bitmaps of 200 MB": ("zips of images", zipped_bitmaps(12, 8192)),
    "zip of 12 bitmaps of 11 MB": ("zips of images", zipped_bitmaps(12, 1900)),
    "csv.gz of 4 GB": ("text tables", repeated("t.csv.gz", b"a,b\n", b"1,2\n3,4\n", 2**32)),
    "csv.gz of 130 MB of digits": ("text tables", repeated("t.csv.gz", b"a,b\n", b"1,2\n3,4\n", 130 * 10**6)),
    "csv.gz of 65 MB of digits": ("text tables", repeated("t.csv.gz", b"a,b\n", b"1,2\n3,4\n", 65 * 10**6)),
    "csv with one line of commas": ("text tables", repeated("t.csv", b"", b",", 10**7)),
    "csv with a second line of commas": ("text tables", repeated("t.csv", b"a,b\n1,2\n", b",", 10**7)),
    "csv with a cell of digits": ("text tables", repeated("t.csv", b"a,b\n1,", b"1", 10**7)),
    "csv with a column of digits": ("text tables", repeated("t.csv", b"a\n", b"1\n2\n", 10**7)),
    "csv of quotes": ("text tables", repeated("t.csv", b"a,b\n", b'"', 10**7)),
    "csv of empty lines": ("text tables", repeated("t.csv", b"a,b\n", b"\n", 10**7)),
    "txt of spaces": ("text tables", repeated("t.txt", b"a b\n1 2\n", b" ", 10**7)),
    "csv of 50,000 columns": ("text tables", written("t.csv", lambda p: p.write_text(",".join(f"c{i}" for i in range(50_000)) + "\n" + (",".join(["1.5", "2.5"] * 25_000) + "\n" + ",".join(["2.5", "1.25"] * 25_000) + "\n") * 12))),
    "csv of texts of 1 MB": ("text tables", written("t.csv", lambda p: p.write_text("a,b\n" + "".join(f"{i},{'x' * 10**6}{i % 2}\n" for i in range(10))))),
    "parquet of 1 billion rows": ("binary tables", written("t.parquet", lambda p: big_parquet(p, 10**9))),
    "parquet of 130 million cells": ("binary tables", written("t.parquet", lambda p: big_parquet(p, 130 * 10**6))),
    "parquet of 16 million cells": ("binary tables", written("t.parquet", lambda p: parquet.write_table(table_of(16, 10**6), p))),
    "parquet of a text of 1 MB, 100,000 times": ("binary tables", written("t.parquet", lambda p: parquet.write_table(long_text(), p))),
    "feather of 1 billion rows": ("binary tables", written("t.feather", lambda p: feather.write_feather(pa.table({"a": np.zeros(10**8)}), p, compression="zstd"))),
    "feather of 120 million bytes of int8": ("binary tables", written("t.feather", lambda p: feather.write_feather(pa.table({"a": np.arange(120 * 10**6, dtype=np.int64).astype(np.int8)}), p, compression="zstd"))),
    "npz of 4 GB": ("arrays", written("x.npz", lambda p: zeros_npz(p, 2**29, "<f8"))),
    "npz of 130 MB of bytes": ("arrays", written("x.npz", lambda p: zeros_npz(p, 124 * 2**20, "|u1"))),
    "npz that declares 8 TB": ("arrays", written("x.npz", lambda p: zeros_npz(p, 2**20, "<f8", declared=2**38))),
    "mat of 920 MB": ("SVHN", written("part.mat", mat_bomb)),
    "idx.gz of 4 GB": ("MNIST", lambda folder: mnist_bomb(folder)),
    "pickle of 10 million dictionaries": ("CIFAR-10", lambda folder: cifar_bomb(folder)),
    "tar.gz of 1 GB": ("CIFAR-10 tar", written("cifar-10-python.tar.gz", lambda p: tar_bomb(p))),
    "config of 3 million lists": ("configs", in_run("config.json", b'{"a": [' + b"[]," * 3_300_000 + b"[]]}")),
    "config of 5 million brackets": ("configs", in_run("config.json", b"[" * 5_000_000 + b"]" * 5_000_000)),
    "metrics of 600,000 lines": ("reports", in_run("metrics.jsonl", b'{"iteration":1}\n' * 600_000)),
    "result of 3 million lists": ("reports", in_run("result.json", b'{"metrics": {"a": [' + b"[]," * 3_300_000 + b"[]]}}")),
    "density grid of 2 GB": ("reports", written("run/density_grid.npz", grid_bomb)),
    "checkpoint with a header of 10 MB": ("checkpoints", written("c.safetensors", lambda p: p.write_bytes((10**7).to_bytes(8, "little") + b'{"a":[' + b"[]," * 3_300_000))),
}  # fmt: skip


def big_parquet(path: Path, rows: int) -> None:
    part = pa.table({"a": np.zeros(10**7), "b": np.ones(10**7)})
    with parquet.ParquetWriter(path, part.schema) as writer:
        for _ in range(rows // 2 // 10**7):
            writer.write_table(part, row_group_size=10**7)


def long_text() -> pa.Table:
    text = pa.array(["x" * 10**6, "y"])
    column = pa.DictionaryArray.from_arrays(pa.array(np.arange(100_000) % 2, pa.int32()), text)
    return (
        pa
        .table({"a": column, "n": np.arange(100_000)})
        .cast(pa.schema([("a", pa.dictionary(pa.int32(), pa.string())), ("n", pa.int64())]))
        .replace_schema_metadata(None)
    )


def mnist_bomb(folder: Path) -> Path:
    write_mnist(folder / "mnist")
    path = folder / "mnist" / "train-images-idx3-ubyte.gz"
    head = (
        idx(np.zeros((0, 28, 28), np.uint8))[:4]
        + (5_000_000).to_bytes(4, "big")
        + (28).to_bytes(4, "big") * 2
    )
    repeated("x.gz", head, bytes(1000), 2**32)(folder)
    (folder / "x.gz").replace(path)
    return path


def cifar_bomb(folder: Path) -> Path:
    write_cifar(folder / "cifar-10-batches-py", ["data_batch_1", "test_batch"], 2)
    path = folder / "cifar-10-batches-py" / "data_batch_1"
    path.write_bytes(b"\x80\x02" + b"}" * 10**7 + b".")
    return path


def tar_bomb(path: Path) -> None:
    write_tar(path, {f"cifar-10-batches-py/{i}": bytes(2**25) for i in range(32)})


def cost(name: str) -> None:
    """Read a bomb in this process, and print the time, the memory and the answer."""
    reader, _ = BOMBS[name]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "case"
        folder.mkdir()
        subprocess.run(
            [sys.executable, "-m", "tests.nightly.fuzz.bombs", "--make", name, str(folder)],
            check=True,
        )
        path = Path((folder / "path").read_text(encoding="utf-8"))
        size = path.stat().st_size
        assert size < LIMITED, f"{name} has {size:,} bytes"
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        start = time.process_time()
        try:
            list(READ[reader](folder, path))
            answer = "accepted"
        except (InputError, OSError) as error:
            answer = str(error).replace(temporary, "")
        seconds = time.process_time() - start
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1e6
    print(
        json.dumps({
            "name": name,
            "bytes": size,
            "seconds": seconds,
            "gigabytes": grown,
            "answer": answer,
        })
    )


def main() -> None:
    """Read all bombs, or make or read the one that is named."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["--make"]:
        folder = Path(arguments[2])
        path = BOMBS[arguments[1]][1](folder)
        (folder / "path").write_text(str(path), encoding="utf-8")
        return
    if arguments[:1] == ["--cost"]:
        cost(arguments[1])
        return
    for name in BOMBS:
        if any(text not in name for text in arguments):
            continue
        done = subprocess.run(
            [sys.executable, "-m", "tests.nightly.fuzz.bombs", "--cost", name],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            print(
                f"{name}: {done.stderr.strip().splitlines()[-1] if done.stderr else done.returncode}"
            )
            continue
        found = json.loads(done.stdout)
        print(
            f"{name:45} {found['bytes'] / 1e6:6.2f} MB {found['seconds']:6.1f} s {found['gigabytes']:6.2f} GB  {found['answer'][:110]}",
            flush=True,
        )


if __name__ == "__main__":
    main()
