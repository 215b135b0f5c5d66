"""Arrays of numbers or images in numpy's file formats."""

import io
import math
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fdsm.untrusted import expansion_limit, quote, read_file, require_file
from ..dataset import Dataset, build_dataset
from ..download import checksums, resolve_path
from ..errors import DataError, problems_of
from ..split import MIN_ROWS, index_splits, train_val_test_split
from ..tables import TableSchema, frame_from
from ..transforms import Dequantize, EncodeColumns, Transform
from .archives import require_method
from fdsm.tables.frame.table_file import limit_cells, split_frame

if TYPE_CHECKING:
    import pyarrow as pa

    from fdsm.tables.schema.columns import Problems

T = TypeVar("T")

MAX_HEADER = 2**16
"""Largest number of bytes before the numbers of an array. numpy accepts 10,000 characters."""


@dataclass(frozen=True)
class Array:
    """The rows of a numeric array `(N, C)` in a `.npy` or `.npz` file, as a table.

    The columns are called `"0"`, `"1"` and so on. NaN is a missing cell. See `Table` for the
    stored rows.

    Attributes:
        path: Path of the file: absolute, or relative to the working directory or the data
            directory.
        key: Name of the array in a `.npz` file with several arrays.
        validation: Fraction of the rows for validation.
        test: Fraction of the rows for the test.
        seed: Random seed of the split.
        transform: Transform from stored rows to model inputs.
        categorical: Names of columns to take as categorical.
        numeric: Names of columns to take as numeric.
        ignore: Names of columns that the model must not see.
        schema: Types of the columns. Default: inferred from the array.
    """

    path: str | Path
    key: str | None = None
    validation: float = 0.1
    test: float = 0.1
    seed: int = 0
    transform: Transform = EncodeColumns()
    categorical: tuple[str, ...] = ()
    numeric: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    schema: TableSchema | None = None

    def load(self) -> Dataset:
        """Read and split the array. Raises `DataError` with all problems of the file."""
        path, sha256, frame = self._read()
        frame, sampled = limit_cells(frame, path.stat().st_size, self.seed)
        with problems_of(path):
            schema = self.schema or TableSchema.infer(
                frame, categorical=self.categorical, numeric=self.numeric, ignore=self.ignore
            )
            return split_frame(
                self, frame, schema, {"file": path.name, "sha256": sha256, **sampled}
            )

    def read_codes(self) -> "tuple[npt.NDArray[np.float64], Problems, pa.Table]":
        """Read the array to score its rows with a model that was trained on another one.

        Returns:
            The codes, shape `(N, C)`, the problems of the rows, and the array as a table.

        Raises:
            DataError: If the file is not an array, or lacks columns of the schema.
            ValueError: If there is no schema.
        """
        path, _, frame = self._read()
        if self.schema is None:
            raise ValueError("Array has no schema: give the one of the training data, schema=...")
        with problems_of(path):
            codes, problems = self.schema.encode(frame)
        return codes, problems, frame

    def _read(self) -> "tuple[Path, str, pa.Table]":
        path = resolve_path(self.path)
        array, sha256 = read_array(path, self.key)
        if array.ndim != 2:
            raise DataError(
                f"{path} has shape {array.shape}, but Array needs (N, C). Reshape it, or use "
                "ImageArray for images"
            )
        return path, sha256, frame_from(array)


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


def read_ndim(path: Path, key: str | None = None) -> int:
    """Return the number of dimensions of an array. Reads only the header of the array."""
    require_file(path, DataError)
    with path.open("rb") as file:
        return _read_member(file, path, key, _parse_ndim)


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
            f"{'' if key is None else f', but not {quote(key)}'}. Select one with key=...",
            setting="key",
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


def _parse_ndim(file: BinaryIO, size: int) -> int:
    return len(_parse_header(file)[0])


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
