"""The user's own data, by what it is."""

from pathlib import Path

from ..download import resolved
from ..errors import DataError
from .archives import SUFFIXES
from .arrays import Array, ImageArray, read_array
from .images import ImageFolder
from .table import PARQUET, Table

TEXT = {".csv", ".tsv", ".txt", ".data"}


def own(path: str | Path, key: str | None = None) -> ImageFolder | Table | Array | ImageArray:
    """Return the source that reads your data.

    Args:
        path: A folder or `.zip` of images; a `.npy` or `.npz` array of numbers or images; a
            `.csv`, `.tsv`, `.txt` or `.data` text file or a `.parquet` file of numbers.
        key: Which array of a `.npz`, if it has several.

    Returns:
        The source, with its defaults; `dataclasses.replace` changes them.

    Raises:
        DataError: If there is no such file, or it is something else.
    """
    found = resolved(path)
    suffix = found.suffix.lower()
    if found.is_dir() or suffix == ".zip":
        return ImageFolder(path)
    if suffix in TEXT | PARQUET:
        return Table(path)
    if suffix in {".npy", ".npz"}:
        rows = read_array(found, key).ndim <= 2
        return Array(path, key) if rows else ImageArray(path, key)
    hint = "give the folder it is in" if suffix in SUFFIXES else "convert it to one of these"
    raise DataError(
        f"{found} is neither a folder nor a .zip of images, nor .npy, .npz, "
        f".csv, .tsv, .txt, .data or .parquet: {hint}"
    )
