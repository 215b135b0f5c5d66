"""Folders and zip files of images, read in place: nothing is ever unpacked."""

import hashlib
import zipfile
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Protocol

from ..download import checksum
from ..errors import DataError

SUFFIXES = {
    ".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp",
}  # fmt: skip
"""What the names of images end in."""

LIMIT = 2**28
"""A member of a zip that would unpack to more bytes than this is refused: 256 MiB."""


class Archive(Protocol):
    """Files by name."""

    @property
    def path(self) -> Path:
        """Where they are."""
        ...

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the images, in a fixed order."""
        ...

    def read(self, name: str) -> bytes:
        """Return the contents of a file."""
        ...

    def sha256(self) -> str:
        """Return a checksum of everything that is read."""
        ...


def opened(path: Path) -> Archive:
    """Return the folder or zip file at `path`.

    Args:
        path: Where it is.

    Returns:
        Its images by name.

    Raises:
        DataError: If it is neither, or unsafe, or has no images.
    """
    archive: Archive = Folder(path) if path.is_dir() else Zip(path)
    if not archive.names:
        raise DataError(
            f"{path} contains no images: their names must end in {', '.join(sorted(SUFFIXES))}"
        )
    return archive


@dataclass(frozen=True)
class Folder:
    """A folder and all below it.

    Attributes:
        path: Where it is.
    """

    path: Path

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The paths of the images relative to the folder, sorted."""
        files = (file.relative_to(self.path) for file in self.path.rglob("*") if file.is_file())
        return _images(file.as_posix() for file in files)

    def read(self, name: str) -> bytes:
        """Return the contents of a file."""
        return (self.path / name).read_bytes()

    def sha256(self) -> str:
        """Return the checksum of the names and checksums of all images."""
        lines = [f"{checksum(self.path / name)}  {name}\n" for name in self.names]
        return hashlib.sha256("".join(lines).encode()).hexdigest()


@dataclass(frozen=True)
class Zip:
    """A zip file.

    Attributes:
        path: Where it is.
    """

    path: Path

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the images, sorted."""
        members = self._file.namelist()
        for name in members:
            require_inside(self.path, name)
        return _images(members)

    def read(self, name: str) -> bytes:
        """Return the contents of a file."""
        try:
            if (size := self._file.getinfo(name).file_size) > LIMIT:
                raise DataError(f"{self.path}, {name}: {size:,} bytes unpacked are too many")
            return self._file.read(name)
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError) as error:
            raise DataError(f"{self.path}, {name}: {error}. Make the zip file again") from error

    def sha256(self) -> str:
        """Return the checksum of the zip file."""
        return checksum(self.path)

    @cached_property
    def _file(self) -> zipfile.ZipFile:
        try:
            return zipfile.ZipFile(self.path)
        except (zipfile.BadZipFile, OSError, RuntimeError, ValueError) as error:
            raise DataError(
                f"{self.path} is not a whole zip file: {error}. Make or download it again"
            ) from error


def require_inside(path: Path, name: str) -> None:
    """Raise `DataError` if a member of an archive names a place outside of it."""
    parts = PurePosixPath(name.replace("\\", "/"))
    if parts.is_absolute() or ".." in parts.parts or ":" in name:
        raise DataError(
            f"{path} has a member called {name!r}, which lies outside of it: the file is "
            "hostile or broken, do not use it"
        )


def _images(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(name for name in names if _is_image(PurePosixPath(name))))


def _is_image(name: PurePosixPath) -> bool:
    hidden = any(part.startswith((".", "__MACOSX")) for part in name.parts)
    return name.suffix.lower() in SUFFIXES and not hidden
