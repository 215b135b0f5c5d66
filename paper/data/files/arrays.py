"""Arrays of images in numpy's file formats."""

import io
import math
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fdsm.untrusted import expansion_limit, quote, read_file

from ..dataset import Dataset, build_dataset
from ..download import checksums, resolve_path
from ..errors import DataError
from ..split import MIN_ROWS, index_splits, train_val_test_split
from ..transforms import Dequantize, Transform
from .archives import require_method

T = TypeVar("T")

MAX_HEADER = 2**16
"""Largest number of bytes before the numbers of an array. numpy accepts 10,000 characters."""


@dataclass(frozen=True)
class ImageArray:
    """The images of an array `(N, H, W)` or `(N, C, H, W)` in a `.npy` or `.npz` file.

    Integers must be in 0 to 255, floating-point numbers in [0, 1]. Stored rows have the shape
    `(N, C, H, W)` and range from 0 to 255: bytes, or float32 if some values are not integers.

    Attributes:
        path: Path of the file: absolute, or relative to the working directory or the data
            directory.
        key: Name of the array in a `.npz` file with several arrays.
        validation: Fraction of the images for validation.
        test: Fraction of the images for the test.
        seed: Random seed of the split.
        transform: Transform from stored images to model inputs.
    """

    path: str | Path
    key: str | None = None
    validation: float = 0.1
    test: float = 0.1
    seed: int = 0
    transform: Transform = Dequantize()

    def rows(self) -> Tensor:
        """Return all images in the order of the file, shape `(N, C, H, W)`, without a split."""
        return self._read()[2]

    def load(self) -> Dataset:
        """Read and split the images. Raises `DataError` if the file cannot be used."""
        path, sha256, images = self._read()
        if len(images) < MIN_ROWS:
            raise DataError(
                f"{path} has {len(images)} images, but at least {MIN_ROWS} are needed for a split "
                "into training, validation and test"
            )
        if images.max() <= 1:
            raise DataError(
                f"{path} has no integer above {float(images.max()):g}, but integers are read as "
                "levels 0 to 255. Save images of 0 and 1 as floating-point numbers"
            )
        order = train_val_test_split(
            len(images), validation=self.validation, test=self.test, seed=self.seed
        )
        files = [{"file": path.name, "sha256": sha256}]
        return build_dataset(self, index_splits(images, order), files=files)

    def _read(self) -> tuple[Path, str, Tensor]:
        path = resolve_path(self.path)
        array, sha256 = read_array(path, self.key)
        if array.ndim == 3:
            array = array[:, None]
        if array.ndim != 4 or not 1 <= array.shape[1] <= 4:
            channels_last = array.ndim == 4 and array.shape[3] <= 4
            advice = ". Put the channels first: x.transpose(0, 3, 1, 2)" if channels_last else ""
            raise DataError(
                f"{path} has shape {array.shape}, but ImageArray needs (N, H, W) or (N, C, H, W) "
                f"with 1 to 4 channels{advice}"
            )
        return path, sha256, _to_levels(path, array)


def read_array(path: Path, key: str | None = None) -> tuple[npt.NDArray[Any], str]:
    """Read a numeric array. Never unpickles.

    Args:
        path: A `.npy` or `.npz` file.
        key: Name of the array in a `.npz` file with several arrays.

    Returns:
        The array, and the SHA-256 of the file.

    Raises:
        DataError: If the file is damaged, or the array is not numeric.
    """
    content = read_file(path, DataError)
    array = _read_member(io.BytesIO(content), path, key, _parse_npy)
    if array.dtype.kind not in "biuf":
        raise DataError(
            f"{path} has the type {array.dtype}, but real numbers are needed. Convert the array"
        )
    (sha256,) = checksums(content, "sha256")
    return array, sha256


def _read_member(
    file: BinaryIO, path: Path, key: str | None, parse: Callable[[BinaryIO, int], T]
) -> T:
    """Apply `parse` to a `.npy` file or to a member of a `.npz` file, and its size."""
    try:
        is_npz = file.read(2) == b"PK"
        size = file.seek(0, io.SEEK_END)
        file.seek(0)
        if not is_npz:
            return parse(file, size)
        with zipfile.ZipFile(file) as archive:
            selected = _select_member(archive, path, key)
            with archive.open(selected) as member:
                return parse(cast(BinaryIO, member), selected.file_size)
    except DataError:
        raise
    except Exception as error:  # numpy and zipfile raise many types for damaged files
        raise DataError(
            f"{path} cannot be read as a numpy array: {error}. Save it again with numpy.save or "
            "numpy.savez, as numbers and not as objects"
        ) from error


def _select_member(archive: zipfile.ZipFile, path: Path, key: str | None) -> zipfile.ZipInfo:
    members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
    if key is None and len(members) == 1:
        (key,) = members
    if key not in members:
        raise DataError(
            f"{path} has the arrays {', '.join(map(quote, members)) or '(none)'}"
            f"{'' if key is None else f', but not {quote(key)}'}. Select one with key=..., or "
            "--set data.key=..."
        )
    size, most = members[key].file_size, expansion_limit(path.stat().st_size)
    if size > most:
        raise DataError(
            f"{path}: array {quote(key)} expands to {size:,} bytes, more than {most:,}. If this "
            "is right, save it with numpy.save"
        )
    require_method(path, members[key])
    return members[key]


def _parse_npy(file: BinaryIO, size: int) -> npt.NDArray[Any]:
    shape, dtype = _parse_header(file)
    declared = math.prod(shape) * dtype.itemsize
    if declared > size:
        raise ValueError(f"its header declares {declared:,} bytes, but it has {size:,}")
    file.seek(0)
    array: npt.NDArray[Any] = np.lib.format.read_array(file, allow_pickle=False)
    return array


def _parse_header(file: BinaryIO) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Return the shape and the type of an array."""
    file = io.BytesIO(file.read(MAX_HEADER))  # the declared length of a header is not trusted
    version = np.lib.format.read_magic(file)
    first = version == (1, 0)
    parse = np.lib.format.read_array_header_1_0 if first else np.lib.format.read_array_header_2_0
    shape, _, dtype = parse(file)
    return shape, dtype


def _to_levels(path: Path, array: npt.NDArray[Any]) -> Tensor:
    """Return images with values from 0 to 255, as bytes if all values are integers."""
    if array.dtype == np.uint8:
        return torch.from_numpy(np.array(array))
    top = 255 if array.dtype.kind in "iu" else 1
    low, high = (array.min(), array.max()) if array.size else (0, 0)
    if not (low >= 0 and high <= top):
        raise DataError(
            f"{path} has {array.dtype} values from {low:g} to {high:g}, but images need integers "
            "from 0 to 255 or floating-point numbers from 0 to 1. Rescale them"
        )
    scaled = array.astype(np.float32) * (255 // top)
    are_integers = np.abs(scaled - scaled.round()).max(initial=0) < 1e-3
    return torch.from_numpy(scaled.round().astype(np.uint8) if are_integers else scaled)
