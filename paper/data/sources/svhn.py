"""SVHN: house numbers, 73,257 + 26,032 color images of 32x32."""

import math
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fdsm.untrusted import expansion_limit, quote, read_file

from ..dataset import Dataset, build_dataset
from ..download import RemoteFile, file_record, find_file
from ..errors import DataError, problems_of
from ..split import holdout_split, index_splits, train_val_test_split
from ..transforms import Dequantize, Transform

FOLDERS = ("svhn", "SVHN", "")


@dataclass(frozen=True)
class SVHN:
    """Digits of house numbers: `(N, 3, 32, 32)` bytes, with labels 0 to 9.

    Reference:
        Netzer et al. (2011), Reading digits in natural images.

    Attributes:
        part: Name or path of a single `.mat` file. It is split at random into training,
            validation and test, and replaces the official pair of files.
        validation: Fraction of the training images to hold out for validation.
        test: Fraction of the images of `part` for the test.
        seed: Random seed of the split.
        transform: Transform from stored images to model inputs.
    """

    part: str | None = None
    validation: float = 0.1
    test: float = 0.1
    seed: int = 2020
    transform: Transform = Dequantize()

    def load(self) -> Dataset:
        """Read the data set. Raises `DataError` if a file is missing or damaged."""
        return self._load_official() if self.part is None else self._load_part(self.part)

    def _load_official(self) -> Dataset:
        (images, labels), train_file = _TRAIN.read(parse_images)
        (test, test_labels), test_file = _TEST.read(parse_images)
        with problems_of(_TRAIN.fetch()):
            kept, held = holdout_split(len(images), self.validation, self.seed)
        return build_dataset(
            self,
            (images[kept], images[held], test),
            labels=(labels[kept], labels[held], test_labels),
            files=[train_file, test_file],
        )

    def _load_part(self, name: str) -> Dataset:
        path = find_file(name, FOLDERS)
        content = read_file(path, DataError)
        images, labels = parse_images(content, path)
        rows = train_val_test_split(
            len(images), validation=self.validation, test=self.test, seed=self.seed
        )
        return build_dataset(
            self,
            index_splits(images, rows),
            labels=index_splits(labels, rows),
            files=[file_record(path, content)],
            parts=[f"the {len(images):,} images of {path.name}, split at random"],
        )


def parse_images(content: bytes, path: Path) -> tuple[Tensor, Tensor]:
    """Parse a MATLAB file of images and labels.

    Args:
        content: Content of a `.mat` file with `X` of shape `(32, 32, 3, N)` and `y` of shape
            `(N, 1)`.
        path: Path of the file, for errors.

    Returns:
        Images of shape `(N, 3, 32, 32)`, uint8, and labels, int64, with 0 for the digit 0.

    Raises:
        DataError: If the file is damaged or has other variables.
    """
    try:
        arrays = parse_mat(content)
    except Exception as error:  # damaged sizes raise many types of errors
        raise DataError(f"{path} is not a readable MATLAB file: {error}") from error
    x, y = arrays.get("X", np.empty(0)), arrays.get("y", np.empty(0))
    if x.dtype != np.uint8 or x.ndim != 4 or x.shape[:3] != (32, 32, 3) or y.size != x.shape[-1]:
        shapes = {name: f"{array.dtype} {array.shape}" for name, array in arrays.items()}
        raise DataError(
            f"{path} has the arrays {quote(shapes)}, expected X, bytes of shape (32, 32, 3, N), "
            "and y of shape (N, 1)"
        )
    images = np.ascontiguousarray(x.transpose(3, 2, 0, 1))
    return torch.from_numpy(images), torch.from_numpy(y.ravel().astype(np.int64)) % 10


def parse_mat(content: bytes) -> dict[str, npt.NDArray[Any]]:
    """Parse the numeric arrays of a MATLAB file of version 5.

    A file is a header of 128 bytes and a list of elements. An element has a type, a size and
    data. It is a matrix, which is again a list of elements, or a compressed element.
    `scipy.io.loadmat` is not used, because single damaged bytes make it crash the process.

    Reference:
        MathWorks, MAT-File Format, chapter 1.

    Args:
        content: Content of the file.

    Returns:
        The arrays by name. Text and structures are left out.

    Raises:
        ValueError: If the file is damaged, of another version, or expands to too many bytes. The
            official files expand by less than a third.
    """
    if content[124:128] != b"\x00\x01IM":
        raise ValueError("it has no header of version 5")
    left, arrays = expansion_limit(len(content)), {}
    for kind, element in _elements(memoryview(content)[128:]):
        if kind == _COMPRESSED:
            kind, element = _decompress(element, left)
            left -= len(element)
        if (matrix := _parse_matrix(kind, element)) is not None:
            arrays[matrix[0]] = matrix[1]
    return arrays


def _elements(content: memoryview) -> Iterator[tuple[int, memoryview]]:
    position = 0
    while position < len(content):
        kind, size = struct.unpack_from("<II", content, position)
        start = position + 8
        if kind > 0xFFFF:  # a small element: size and type share four bytes
            kind, size, start = kind & 0xFFFF, kind >> 16, position + 4
        if start + size > len(content):
            raise ValueError("it is truncated")
        yield kind, content[start : start + size]
        position = start + size
        if kind != _COMPRESSED:
            position += -position % 8


def _decompress(content: memoryview, most: int) -> tuple[int, memoryview]:
    decompressor = zlib.decompressobj()
    decompressed = decompressor.decompress(content, max(most, 1))
    if not decompressor.eof:
        raise ValueError("an array is truncated, or the file expands to too many bytes")
    (element,) = _elements(memoryview(decompressed))
    return element


def _parse_matrix(kind: int, content: memoryview) -> tuple[str, npt.NDArray[Any]] | None:
    if kind != _MATRIX:
        return None
    (_, flags), (_, shape), (_, name), *data = _elements(content)
    if flags[0] not in _NUMERIC_CLASSES or not data:
        return None
    kind, raw = data[0]
    if kind not in _DTYPES:
        raise ValueError(f"an array has the unknown type {kind}")
    values, sizes = np.frombuffer(raw, _DTYPES[kind]), np.frombuffer(shape, "<i4").tolist()
    if min(sizes) < 0 or math.prod(sizes) != values.size:
        raise ValueError(f"an array of shape {sizes} has {values.size} numbers")
    return bytes(name).decode("latin-1"), values.reshape(sizes, order="F")


_MATRIX, _COMPRESSED = 14, 15
_NUMERIC_CLASSES = range(6, 16)
_DTYPES = {
    1: "i1", 2: "u1", 3: "<i2", 4: "<u2", 5: "<i4", 6: "<u4", 7: "<f4", 9: "<f8",
    12: "<i8", 13: "<u8",
}  # fmt: skip

_SITE = "http://ufldl.stanford.edu/housenumbers/"
_TRAIN, _TEST = (
    RemoteFile((name,), FOLDERS, f"md5:{md5}", (f"{_SITE}{name}",))
    for name, md5 in {
        "train_32x32.mat": "e26dedcc434d2e4c54c9b2d4a06d8373",
        "test_32x32.mat": "eb5a983be6a315427106f1b164d9cef3",
    }.items()
)
