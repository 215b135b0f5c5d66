"""Small files that would become large; see tests/nightly/fuzz/bombs.py.

`python -m paper.tests.nightly.fuzz.bombs` reads each in a process of its own.
"""

import json
import shutil
import zipfile
from pathlib import Path

import numpy as np
from PIL import Image

from paper.tests.data.file_cases import idx, write_cifar, write_mnist, write_tar
from tests.nightly.fuzz.bombs import Bombs, Make, main, repeated, written, zeros_npz

from .readers import READERS
from .seeds import mat


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


BOMBS: Bombs = {
    "12 PNGs of 13,000 × 13,000": ("image folders", pictures(12, 13_000, "L")),
    "12 PNGs of 8192 × 8192": ("image folders", pictures(12, 8192, "L")),
    "12 RGBA PNGs of 4500 × 4500": ("image folders", pictures(12, 4500, "RGBA")),
    "12 RGBA PNGs of 2048 × 2048": ("image folders", pictures(12, 2048, "RGBA")),
    "zip of 12 bitmaps of 200 MB": ("zips of images", zipped_bitmaps(12, 8192)),
    "zip of 12 bitmaps of 11 MB": ("zips of images", zipped_bitmaps(12, 1900)),
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
}  # fmt: skip


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


if __name__ == "__main__":
    main(BOMBS, READERS, "paper.tests.nightly.fuzz.bombs")
