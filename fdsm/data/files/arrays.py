"""Your own arrays of numbers or of images, in numpy's formats."""

import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..dataset import Dataset, build_dataset, taken
from ..download import checksum, resolved
from ..errors import DataError
from ..split import train_val_test_split
from ..transforms import Dequantize, Standardize, Transform
from .csv import Numbers, finite
from .table import MIN_ROWS, split_rows

LIMIT = 2**34
"""More bytes than this in one array are refused: 16 GiB."""

SHAPES = "(N, H, W) or (N, C, H, W) with 1 to 4 channels"


@dataclass(frozen=True)
class Array:
    """The rows of a numeric array `(N, D)` in a `.npy` or `.npz` file, as float32.

    Attributes:
        path: The file; absolute, or relative to here or to the folder of the data.
        key: Which array of a `.npz`; needed if there are several.
        validation: The share of the rows for validation.
        test: The share for the test.
        seed: Decides which.
        transform: From the numbers to what the model sees.
    """

    path: str | Path
    key: str | None = None
    validation: float = 0.1
    test: float = 0.1
    seed: int = 0
    transform: Transform = Standardize()

    def rows(self) -> Tensor:
        """Return all rows in the order of the file, say to score them, shape `(N, D)`."""
        return torch.from_numpy(self._numbers().values).to(torch.float32)

    def load(self) -> Dataset:
        """Read and split the array; raises `DataError` if that is impossible."""
        path = resolved(self.path)
        rows = split_rows(
            self._numbers(), path, validation=self.validation, test=self.test, seed=self.seed
        )
        return build_dataset(self, rows, files=[{"file": path.name, "sha256": checksum(path)}])

    def _numbers(self) -> Numbers:
        path = resolved(self.path)
        array = read_array(path, self.key)
        if array.ndim != 2:
            raise DataError(
                f"{path} has shape {array.shape}, but Array takes (N, D): use ImageArray for "
                "images, or reshape it"
            )
        columns = tuple(map(str, range(array.shape[1])))
        return Numbers(columns, finite(path, columns, array.astype(np.float64)))


@dataclass(frozen=True)
class ImageArray:
    """The images of an array `(N, H, W)` or `(N, C, H, W)` in a `.npy` or `.npz` file.

    Integers are levels 0 to 255; floating-point numbers are in [0, 1]. Stored rows are
    `(N, C, H, W)` in units of levels: bytes, or float32 where the numbers lie in between.

    Attributes:
        path: The file; absolute, or relative to here or to the folder of the data.
        key: Which array of a `.npz`; needed if there are several.
        validation: The share of the images for validation.
        test: The share for the test.
        seed: Decides which.
        transform: From levels to what the model sees.
    """

    path: str | Path
    key: str | None = None
    validation: float = 0.1
    test: float = 0.1
    seed: int = 0
    transform: Transform = Dequantize()

    def rows(self) -> Tensor:
        """Return all images in the order of the file, say to score them, `(N, C, H, W)`."""
        path = resolved(self.path)
        array = read_array(path, self.key)
        if array.ndim == 3:
            array = array[:, None]
        if array.ndim != 4 or not 1 <= array.shape[1] <= 4:
            hint = ""
            if array.ndim == 4 and array.shape[3] <= 4:
                hint = ". Channels come first: save x.transpose(0, 3, 1, 2)"
            raise DataError(f"{path} has shape {array.shape}, but images are {SHAPES}{hint}")
        return _levels(path, array)

    def load(self) -> Dataset:
        """Read and split the images; raises `DataError` if that is impossible."""
        path, images = resolved(self.path), self.rows()
        if len(images) < MIN_ROWS:
            raise DataError(f"{path} has {len(images)} images: at least {MIN_ROWS} are needed")
        if images.max() <= 1:
            raise DataError(
                f"{path} holds no level above {float(images.max()):g} of 255: save images of 0 "
                "and 1 as floating-point numbers"
            )
        order = train_val_test_split(
            len(images), validation=self.validation, test=self.test, seed=self.seed
        )
        files = [{"file": path.name, "sha256": checksum(path)}]
        return build_dataset(self, taken(images, order), files=files)


def read_array(path: Path, key: str | None = None) -> npt.NDArray[Any]:
    """Read a numeric array without ever unpickling.

    Args:
        path: A `.npy` or `.npz` file.
        key: Which array of a `.npz`; needed if there are several.

    Returns:
        The array.

    Raises:
        DataError: If it is damaged, holds objects, or is not numeric.
    """
    try:
        array = _from_npz(path, key) if zipfile.is_zipfile(path) else _from_npy(path)
    except DataError:
        raise
    except Exception as error:  # numpy raises whatever the damage leads to
        raise DataError(
            f"{path} cannot be read as a numpy array: {error}. Save it again with "
            "numpy.save or numpy.savez, as numbers and not as objects"
        ) from error
    if array.dtype.kind not in "biuf":
        raise DataError(f"{path} holds {array.dtype}, not real numbers. Convert it before saving")
    return array


def _from_npy(path: Path) -> npt.NDArray[Any]:
    # np.load leaves a file open that it cannot read, unless it is given an open one.
    with path.open("rb") as file:
        array: npt.NDArray[Any] = np.load(file, allow_pickle=False)
        return array


def _from_npz(path: Path, key: str | None) -> npt.NDArray[Any]:
    with zipfile.ZipFile(path) as archive:
        sizes = {i.filename.removesuffix(".npy"): i.file_size for i in archive.infolist()}
    if key is None and len(sizes) == 1:
        (key,) = sizes
    if key not in sizes:
        raise DataError(
            f"{path} holds the arrays {', '.join(map(repr, sizes)) or '(none)'}"
            f"{'' if key is None else f', not {key!r}'}: choose one with key=…, on the command "
            "line `--set data.key=…`"
        )
    if sizes[key] > LIMIT:
        raise DataError(f"{path}, array {key!r}: {sizes[key]:,} bytes are more than {LIMIT:,}")
    with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        array: npt.NDArray[Any] = archive[key]
        return array


def _levels(path: Path, array: npt.NDArray[Any]) -> Tensor:
    if array.dtype == np.uint8:
        return torch.from_numpy(np.array(array))
    top = 255 if array.dtype.kind in "iu" else 1
    low, high = (array.min(), array.max()) if array.size else (0, 0)
    if not (low >= 0 and high <= top):
        raise DataError(
            f"{path} holds {array.dtype} from {low:g} to {high:g}, but images are integers from "
            "0 to 255 or floating-point numbers from 0 to 1. Rescale them before saving"
        )
    scaled = array.astype(np.float32) * (255 // top)
    whole = np.abs(scaled - scaled.round()).max(initial=0) < 1e-3
    return torch.from_numpy(scaled.round().astype(np.uint8) if whole else scaled)
