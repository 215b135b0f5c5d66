"""Arrays of numbers in numpy's file formats, as tables."""

import io
import math
import zipfile
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ...untrusted import expansion_limit, quote
from ..errors import DataError
from .memory import frame_from

ARRAY_SUFFIXES = frozenset({".npy", ".npz"})
MAX_HEADER = 2**16
"""Largest number of bytes before the numbers of an array. numpy accepts 10,000 characters."""
_METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2}
"""Methods of compression that take little memory. LZMA may ask for any amount."""


def parse_array(content: bytes, path: Path, key: str | None = None) -> pa.Table:
    """Return the array `(N, C)` of numbers in a file as a table. Never unpickles.

    Args:
        content: Content of a `.npy` or `.npz` file.
        path: Path of the file, for errors.
        key: Name of the array in a `.npz` file with several arrays.

    Returns:
        The table. Its columns are called `"0"`, `"1"` and so on. NaN is a missing cell.

    Raises:
        DataError: If the file is damaged, or does not hold numbers of shape `(N, C)`.
    """
    try:
        array = _read(content, path, key)
    except DataError:
        raise
    except Exception as error:  # numpy and zipfile raise many types for damaged files
        raise DataError(
            f"{path} cannot be read as a numpy array: {error}. Save it again with numpy.save or "
            "numpy.savez, as numbers and not as objects"
        ) from error
    if array.dtype.kind not in "biuf":
        raise DataError(
            f"{path} has the type {array.dtype}, but real numbers are needed. Convert the array"
        )
    if array.ndim != 2:
        images = " For images, see the repository's paper/ folder" if array.ndim > 2 else ""
        raise DataError(
            f"{path} has shape {array.shape}, but a table needs (N, C). Reshape it.{images}"
        )
    return frame_from(array)


def _read(content: bytes, path: Path, key: str | None) -> npt.NDArray[Any]:
    if content[:2] != b"PK":
        return _parse_npy(io.BytesIO(content), len(content))
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        member = _select_member(archive, path, len(content), key)
        with archive.open(member) as file:
            return _parse_npy(cast(BinaryIO, file), member.file_size)


def _select_member(
    archive: zipfile.ZipFile, path: Path, size: int, key: str | None
) -> zipfile.ZipInfo:
    """Return the member of a `.npz` file of `size` bytes, if it takes little memory."""
    members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
    if key is None and len(members) == 1:
        (key,) = members
    if key not in members:
        others = "" if key is None else f", but not {quote(key)}"
        raise DataError(
            f"{path} has the arrays {', '.join(map(quote, members)) or '(none)'}{others}. Select "
            "one with key=..., or save it alone with numpy.save"
        )
    member, most = members[key], expansion_limit(size)
    if member.file_size > most:
        raise DataError(
            f"{path}: array {quote(key)} expands to {member.file_size:,} bytes, more than "
            f"{most:,}. If this is right, save it with numpy.save"
        )
    if member.compress_size > size:
        raise DataError(f"{path}: {member.filename} is damaged: it is larger than the file")
    if member.compress_type not in _METHODS:
        raise DataError(
            f"{path}: {member.filename} is compressed with a method that is not supported. Save "
            "it again with numpy.savez_compressed"
        )
    return member


def _parse_npy(file: BinaryIO, size: int) -> npt.NDArray[Any]:
    """Return the array in a file of `size` bytes. The sizes in its header are not trusted."""
    header = io.BytesIO(file.read(MAX_HEADER))
    if np.lib.format.read_magic(header) == (1, 0):
        shape, _, dtype = np.lib.format.read_array_header_1_0(header)
    else:
        shape, _, dtype = np.lib.format.read_array_header_2_0(header)
    declared = math.prod(shape) * dtype.itemsize
    if declared > size:
        raise ValueError(f"its header declares {declared:,} bytes, but it has {size:,}")
    file.seek(0)
    array: npt.NDArray[Any] = np.lib.format.read_array(file, allow_pickle=False)
    return array
