"""Write small files in the formats of the published data sets."""

import gzip
import io
import struct
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

Bytes = npt.NDArray[np.uint8]


def random_bytes(*shape: int, seed: int = 0) -> Bytes:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def idx(array: Bytes) -> bytes:
    head = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return head + array.tobytes()


def write_mnist(folder: Path, *, train: int = 30, test: int = 10) -> dict[str, Bytes]:
    """Write the four files of MNIST and return their arrays."""
    folder.mkdir(parents=True, exist_ok=True)
    arrays = {
        "train-images-idx3-ubyte": random_bytes(train, 28, 28),
        "train-labels-idx1-ubyte": random_bytes(train, seed=1) % 10,
        "t10k-images-idx3-ubyte": random_bytes(test, 28, 28, seed=2),
        "t10k-labels-idx1-ubyte": random_bytes(test, seed=3) % 10,
    }
    for name, array in arrays.items():
        (folder / f"{name}.gz").write_bytes(gzip.compress(idx(array), 1))
    return arrays


def cifar_batch(images: Bytes, labels: list[int]) -> bytes:
    """Return a CIFAR-10 batch as Python 2 pickles it, opcode by opcode."""
    raw = images.tobytes()
    shape = b"".join(b"J" + struct.pack("<i", size) for size in (len(images), 3072))
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\n"
        b"(cnumpy\nndarray\nK\x00\x85U\x01btRq\x05(K\x01" + shape + b"\x86"
        b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNN"
        b"J\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89T"
        + struct.pack("<i", len(raw))
        + raw
        + b"tb"
    )
    listed = b"](" + b"".join(b"K" + bytes([label]) for label in labels) + b"e"
    return b"\x80\x02}q\x01(U\x06labelsq\x02" + listed + b"U\x04dataq\x04" + array + b"u."


def write_cifar(folder: Path, names: list[str], n: int = 20) -> dict[str, Bytes]:
    """Write batches and return their images."""
    folder.mkdir(parents=True, exist_ok=True)
    images = {name: random_bytes(n, 3, 32, 32, seed=i) for i, name in enumerate(names)}
    for name, array in images.items():
        (folder / name).write_bytes(cifar_batch(array, [i % 10 for i in range(n)]))
    return images


def write_tar(path: Path, members: Mapping[str, bytes]) -> None:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


def encode_png(array: Bytes) -> bytes:
    """Return the PNG file of an image of shape (H, W) or (H, W, 3)."""
    file = io.BytesIO()
    Image.fromarray(array).save(file, "PNG")
    return file.getvalue()


def write_images(folder: Path, n: int = 20, *shape: int) -> list[Bytes]:
    """Write color images called 00.png, 01.png, … and return them."""
    folder.mkdir(parents=True, exist_ok=True)
    arrays = [random_bytes(*(shape or (32, 32, 3)), seed=i) for i in range(n)]
    for i, array in enumerate(arrays):
        (folder / f"{i:02}.png").write_bytes(encode_png(array))
    return arrays


def write_zip(path: Path, members: Mapping[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def require_real(folder: Path, *names: str) -> None:
    """Skip the test if one of the real files is missing."""
    for name in names:
        if not (folder / name).exists():
            pytest.skip(f"there is no {name}")
