"""Folders and zip files of images. They are read in place and never unpacked."""

import hashlib
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Protocol

from fdsm.untrusted import expansion_limit, quote, read_file, require_file

from ..download import checksums
from ..errors import DataError

SUFFIXES = {
    ".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp",
}  # fmt: skip
"""Suffixes of image files."""

MAX_BYTES = 2**28
"""Largest size of an image file: 256 MiB, which an image of 8192 × 8192 pixels does not exceed."""


class Archive(Protocol):
    """A collection of image files."""

    @property
    def path(self) -> Path:
        """Path of the folder or zip file."""
        ...

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the images, sorted."""
        ...

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        ...

    def sha256(self) -> str:
        """Return a checksum of all images."""
        ...


def open_archive(path: Path) -> Archive:
    """Open a folder or zip file of images.

    Args:
        path: Path of the folder or zip file.

    Returns:
        The images.

    Raises:
        DataError: If it is neither, is unsafe or has no images.
    """
    archive: Archive = Folder(path) if path.is_dir() else Zip(path)
    if not archive.names:
        raise DataError(
            f"{path} contains no images. Their names must end in {', '.join(sorted(SUFFIXES))}"
        )
    return archive


@dataclass(frozen=True)
class Folder:
    """The images in a folder and its subfolders.

    Attributes:
        path: Path of the folder.
    """

    path: Path

    @cached_property
    def _checksums(self) -> dict[str, str]:
        """Checksums of the files that were read."""
        return {}

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Paths of the images relative to the folder, sorted."""
        files = (file.relative_to(self.path) for file in self.path.rglob("*") if file.is_file())
        return _images(file.as_posix() for file in files)

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        content = read_file(self.path / name, DataError, MAX_BYTES)
        (self._checksums[name],) = checksums(content, "sha256")
        return content

    def sha256(self) -> str:
        """Return a checksum of the names and checksums of all images."""
        for name in self.names:
            if name not in self._checksums:
                self.read(name)
        lines = [f"{self._checksums[name]}  {name}\n" for name in self.names]
        return hashlib.sha256("".join(lines).encode()).hexdigest()


@dataclass(frozen=True)
class Zip:
    """The images in a zip file.

    Attributes:
        path: Path of the zip file.
    """

    path: Path

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the images, sorted."""
        members = self._file.namelist()
        for name in members:
            require_inside(self.path, name)
        images = _images(members)
        size = sum(self._file.getinfo(name).file_size for name in images)
        most = expansion_limit(self.path.stat().st_size)
        if size > most:
            raise DataError(
                f"{self.path} expands to {size:,} bytes of images, more than {most:,}. If this is "
                "right, unpack it and give the folder"
            )
        return images

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        try:
            if (size := self._file.getinfo(name).file_size) > MAX_BYTES:
                raise DataError(
                    f"{self.path}: {name} has {size:,} bytes, more than {MAX_BYTES:,}. Remove it"
                )
            require_method(self.path, self._file.getinfo(name))
            return self._file.read(name)
        except DataError:
            raise
        except Exception as error:  # each method of compression has errors of its own
            raise DataError(
                f"{self.path}: {name} is damaged: {error}. Create the zip file again"
            ) from error

    def sha256(self) -> str:
        """Return the checksum of the zip file."""
        (sha256,) = checksums(self.path, "sha256")
        return sha256

    @cached_property
    def _file(self) -> zipfile.ZipFile:
        require_file(self.path, DataError)
        try:
            return zipfile.ZipFile(self.path)
        except Exception as error:  # damaged lists of members raise many types
            raise DataError(
                f"{self.path} is not a readable zip file: {error}. Create or download it again"
            ) from error


def require_method(path: Path, member: zipfile.ZipInfo) -> None:
    """Check a member that may ask for any amount of memory.

    Args:
        path: The zip file.
        member: One of its members.

    Raises:
        DataError: If the member is larger than its file, or compressed with LZMA.
    """
    if member.compress_size > path.stat().st_size:
        raise DataError(f"{path}: {member.filename} is damaged: it is larger than the file")
    if member.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2}:
        raise DataError(
            f"{path}: {member.filename} is compressed with a method that is not supported. Create "
            "the zip file again with the method deflate"
        )


def require_inside(path: Path, name: str) -> None:
    """Raise `DataError` if the path of a member of an archive leads out of the archive."""
    parts = PurePosixPath(name.replace("\\", "/"))
    if parts.is_absolute() or ".." in parts.parts or ":" in name:
        raise DataError(
            f"{path} has a member {quote(name)} with a path that leads out of the archive. Do not "
            "use this file: it is malicious or broken"
        )


def _images(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(name for name in names if _is_image(PurePosixPath(name))))


def _is_image(name: PurePosixPath) -> bool:
    hidden = any(part.startswith((".", "__MACOSX")) for part in name.parts)
    return name.suffix.lower() in SUFFIXES and not hidden
