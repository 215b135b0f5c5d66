"""Recognize the user's images by their file."""

from pathlib import Path

from ..download import resolve_path
from ..errors import DataError
from .archives import SUFFIXES
from .arrays import ImageArray
from .images import ImageFolder


def from_path(path: str | Path, key: str | None = None) -> ImageFolder | ImageArray:
    """Return the source that reads a file or folder of images.

    Args:
        path: A folder or `.zip` file of images, or a `.npy` or `.npz` array of images.
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
    if suffix in {".npy", ".npz"}:
        return ImageArray(path, key)
    advice = "Give the folder it is in" if suffix in SUFFIXES else "Convert it to one of these"
    raise DataError(
        f"{source} has an unsupported format. Supported are a folder or .zip file of images, "
        f".npy and .npz. {advice}. For a table use `fdsm train`"
    )
