"""Recognize the user's data by its file."""

from pathlib import Path

from ..download import resolve_path
from ..errors import DataError
from fdsm.tables.frame.reading import TABLE_SUFFIXES, table_suffix
from .archives import SUFFIXES
from .arrays import Array, ImageArray, read_ndim
from .images import ImageFolder
from fdsm.tables.frame.table_file import Table


def from_path(
    path: str | Path, key: str | None = None
) -> ImageFolder | Table | Array | ImageArray:
    """Return the source that reads a file or folder.

    Args:
        path: A folder or `.zip` file of images; a `.npy` or `.npz` array of numbers or images; a
            `.csv`, `.tsv`, `.txt`, `.data` (also `.gz`), `.parquet`, `.feather` or `.arrow` table.
        key: Name of the array in a `.npz` file with several arrays.

    Returns:
        The source with its default settings. `dataclasses.replace` changes them.

    Raises:
        DataError: If there is no such file, or its format is not supported.
    """
    source = resolve_path(path)
    suffix = source.suffix.lower()
    if source.is_dir() or suffix == ".zip":
        return ImageFolder(path)
    if table_suffix(source) in TABLE_SUFFIXES:
        return Table(path)
    if suffix in {".npy", ".npz"}:
        return Array(path, key) if read_ndim(source, key) <= 2 else ImageArray(path, key)
    advice = "Give the folder it is in" if suffix in SUFFIXES else "Convert it to one of these"
    raise DataError(
        f"{source} has an unsupported format. Supported are a folder or .zip file of images, "
        f".npy, .npz, .csv, .tsv, .txt, .data, .parquet, .feather and .arrow. {advice}"
    )
