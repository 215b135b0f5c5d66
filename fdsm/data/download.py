"""Where the files of data sets lie, and how they get there."""

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from ..serialize import Json
from .errors import DataError

ENVIRONMENT = "FDSM_DATA"
"""The variable that names the folder of your data."""

T = TypeVar("T")


def cache() -> Path:
    """Return the user's cache folder for this library, where downloads go."""
    import pooch  # type: ignore[import-untyped]

    return Path(pooch.os_cache("fdsm"))


def root() -> Path:
    """Return the folder of the data: `$FDSM_DATA`, else the user's cache folder."""
    return places()[0]


def places() -> list[Path]:
    """Return the folders to look in: `$FDSM_DATA` if it is set, then the user's cache folder.

    Returns:
        One or two folders.

    Raises:
        DataError: If the variable names something that is not a folder.
    """
    given = os.environ.get(ENVIRONMENT)
    if not given:
        return [cache()]
    folder = Path(given).expanduser()
    if not folder.is_dir():
        raise DataError(
            f"{ENVIRONMENT}={given} is not a folder: create it, or unset {ENVIRONMENT}"
        )
    return [folder, cache()]


def resolved(path: Path | str) -> Path:
    """Return a path that the user gave, which may be relative to the folder of the data.

    Args:
        path: Absolute, relative to where we are, or relative to `root()`.

    Returns:
        The path of something that exists.

    Raises:
        DataError: If there is nothing.
    """
    given = Path(path).expanduser()
    candidates = [given, *(place / given for place in places())]
    for candidate in candidates:
        if candidate.exists():
            return candidate
    raise DataError(
        f"there is no {given}: give the path of a file or folder that exists, absolute, "
        f"relative to {Path.cwd()} or relative to {root()}"
    )


def checksum(path: Path, algorithm: str = "sha256") -> str:
    """Return the checksum of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()


@dataclass(frozen=True)
class Published:
    """A file of a published data set.

    Attributes:
        names: What it may be called; the first is the official name.
        folders: The folders it may lie in, under any of `places()`; downloads go to the first.
        official: The checksum of the official file, `"sha256:…"` or `"md5:…"`.
        mirrors: The addresses to download it from.
        page: Where a person can get it, if there are no mirrors.
    """

    names: tuple[str, ...]
    folders: tuple[str, ...]
    official: str
    mirrors: tuple[str, ...] = ()
    page: str = ""

    @property
    def place(self) -> Path:
        """Where the user should put it."""
        return root() / self.folders[0] / self.names[0]

    def find(self) -> Path | None:
        """Return where the file is, if it is anywhere."""
        for place in places():
            for folder in self.folders:
                for name in self.names:
                    if (place / folder / name).is_file():
                        return place / folder / name
        return None

    def fetch(self) -> Path:
        """Return where the file is, downloading it if need be."""
        return self.find() or self._download()

    def read(self, reader: Callable[[Path], T]) -> tuple[T, Json]:
        """Read the file, wherever it is.

        Args:
            reader: Reads a path, or raises `DataError` with what is wrong with the file.

        Returns:
            What the reader returns, and which file that was, for the record.

        Raises:
            DataError: If there is no such file or it cannot be read, with what to do.
        """
        path = self.fetch()
        try:
            return reader(path), self.provenance(path)
        except DataError as error:
            raise DataError(
                f"{error}. Delete {path} and load again to download it, or put the official "
                f"file there: {self.source} ({self.official})"
            ) from error

    @property
    def source(self) -> str:
        """Where the official file can be had."""
        return self.mirrors[0] if self.mirrors else self.page

    def provenance(self, path: Path) -> Json:
        """Return what to put on record about a file: its name, sha256, and if it is official."""
        algorithm, _, digest = self.official.partition(":")
        sha256 = checksum(path)
        found = sha256 if algorithm == "sha256" else checksum(path, algorithm)
        return {
            "file": f"{path.parent.name}/{path.name}",
            "sha256": sha256,
            "official": found == digest,
        }

    def _download(self) -> Path:
        import pooch

        place, failures = cache() / self.folders[0], []
        for url in self.mirrors:
            try:
                return Path(pooch.retrieve(url, self.official, fname=self.names[0], path=place))
            except (OSError, ValueError) as error:
                failures.append(f"{url} ({_brief(error)})")
        name, looked = Path(self.folders[0], self.names[0]), " or ".join(map(str, places()))
        tried = f"; tried {', '.join(failures)}" if failures else ""
        raise DataError(
            f"{name} is not in {looked} and could not be downloaded{tried}. Get it from "
            f"{self.source} and put it at {self.place}"
        )


def _brief(error: Exception) -> str:
    if not isinstance(error, OSError):
        return "what came has another checksum and was deleted"
    return str(error) if len(str(error)) < 160 else type(error).__name__


def named(name: str, folders: tuple[str, ...]) -> tuple[Path, Json]:
    """Find a file that the user names, say a part of a data set.

    Args:
        name: The name of the file in one of the folders, or its path.
        folders: The folders it may lie in, under any of `places()`.

    Returns:
        Where it is, and what to put on record.

    Raises:
        DataError: If it is nowhere.
    """
    beside = [place / folder / name for place in places() for folder in folders]
    for path in [*beside, Path(name).expanduser()]:
        if path.is_file():
            record: Json = {"file": f"{path.parent.name}/{path.name}", "sha256": checksum(path)}
            return path, record
    raise DataError(f"there is no file {name!r}: put it at {beside[0]}, or give its path")
