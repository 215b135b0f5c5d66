"""Numeric arrays in MATLAB files of version 5.

A file is a header of 128 bytes and a list of elements: a type, a size, and as many bytes.
An element is a matrix, which is again a list of elements, or a compressed element.

The reader in scipy is made for files that one trusts: it can crash on damaged ones.

Reference:
    MathWorks, MAT-File Format, chapter 1.
"""

import math
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import DataError

MAGIC = b"\x00\x01IM"
"""Version 5, little-endian; at byte 124."""

MATRIX, COMPRESSED = 14, 15
NUMBERS = {
    1: "i1", 2: "u1", 3: "<i2", 4: "<u2", 5: "<i4", 6: "<u4", 7: "<f4", 9: "<f8",
    12: "<i8", 13: "<u8",
}  # fmt: skip
"""Types of elements that hold numbers."""

NUMERIC = range(6, 16)
"""Classes of matrices that hold numbers; others hold text or structures."""

LIMIT = 2**30
"""An element that would unpack to more bytes than this is refused."""


def read_mat(path: Path) -> dict[str, npt.NDArray[Any]]:
    """Read the numeric arrays of a file.

    Args:
        path: The file.

    Returns:
        The arrays by name.

    Raises:
        DataError: If the file is damaged, or of another version.
    """
    content = path.read_bytes()
    try:
        if content[124:128] != MAGIC:
            raise DataError("no header of version 5")
        return dict(filter(None, (_matrix(*e) for e in _elements(memoryview(content)[128:]))))
    except (ValueError, IndexError, struct.error, zlib.error) as error:
        raise DataError(f"{path} is not a whole .mat file: {error}") from error


def _elements(content: memoryview) -> Iterator[tuple[int, memoryview]]:
    position = 0
    while position < len(content):
        kind, size = struct.unpack_from("<II", content, position)
        start = position + 8
        if kind > 0xFFFF:  # a small element: size and type share four bytes, the data follow
            kind, size, start = kind & 0xFFFF, kind >> 16, position + 4
        if start + size > len(content):
            raise DataError("it ends early")
        yield kind, content[start : start + size]
        position = start + size
        if kind != COMPRESSED:
            position += -position % 8


def _matrix(kind: int, content: memoryview) -> tuple[str, npt.NDArray[Any]] | None:
    if kind == COMPRESSED:
        unpacker = zlib.decompressobj()
        unpacked = unpacker.decompress(content, LIMIT)
        if not unpacker.eof:
            raise DataError("a compressed array is cut off or too large")
        ((kind, content),) = _elements(memoryview(unpacked))
    if kind != MATRIX:
        return None
    (_, flags), (_, shape), (_, name), *data = _elements(content)
    if flags[0] not in NUMERIC or not data:
        return None
    kind, raw = data[0]
    if kind not in NUMBERS:
        raise DataError(f"an array of type {kind}")
    values = np.frombuffer(raw, NUMBERS[kind])
    sizes = np.frombuffer(shape, "<i4").tolist()
    if min(sizes) < 0 or math.prod(sizes) != values.size:
        raise DataError(f"{values.size} numbers for an array of shape {sizes}")
    return bytes(name).decode("latin-1"), values.reshape(sizes, order="F")
