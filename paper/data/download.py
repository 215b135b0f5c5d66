"""Locate the files of data sets, download them and compute their checksums."""

import hashlib
import io
import os
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TypeVar

from fdsm.extras import name_missing_extra
from fdsm.serialize import Json
from fdsm.untrusted import read_file, require_file

from .errors import DataError

ENVIRONMENT_VARIABLE = "FDSM_DATA"
"""Environment variable with the directory of the data."""

T = TypeVar("T")


def cache_dir() -> Path:
    """Return the user's cache directory for fdsm. Downloads are stored here."""
    if given := os.environ.get("XDG_CACHE_HOME"):
        return Path(given, "fdsm")
    folders = {"darwin": "Library/Caches/fdsm", "win32": "AppData/Local/fdsm/fdsm/Cache"}
    return Path(os.path.expanduser("~"), folders.get(sys.platform, ".cache/fdsm"))


def data_dir() -> Path:
    """Return the directory of the data: `$FDSM_DATA` if set, else the user's cache directory."""
    return search_dirs()[0]


def search_dirs() -> list[Path]:
    """Return the directories to search: `$FDSM_DATA` if set, then the user's cache directory.

    Returns:
        One or two directories.

    Raises:
        DataError: If `$FDSM_DATA` is not a directory.
    """
    given = os.environ.get(ENVIRONMENT_VARIABLE)
    if not given:
        return [cache_dir()]
    directory = Path(given).expanduser()
    if not directory.is_dir():
        raise DataError(
            f"{ENVIRONMENT_VARIABLE}={given} is not a directory. Create it, or unset the variable"
        )
    return [directory, cache_dir()]


def resolve_path(path: Path | str) -> Path:
    """Return the path of an existing file or directory.

    Args:
        path: Absolute, relative to the working directory, or relative to one of `search_dirs()`.

    Returns:
        The first of these that exists.

    Raises:
        DataError: If none exists.
    """
    try:
        given = Path(path).expanduser()
        for candidate in [given, *(directory / given for directory in search_dirs())]:
            if candidate.exists():
                return candidate
    except (OSError, RuntimeError) as error:  # a name is too long, or ~name is nobody's home
        raise DataError(f"{path} cannot be read: {error}") from error
    raise DataError(
        f"{given} does not exist. Give an absolute path, or one relative to {Path.cwd()} or "
        f"{data_dir()}"
    )


def find_file(name: str, folders: tuple[str, ...]) -> Path:
    """Return the path of a file that is given by its name or its path.

    Args:
        name: Name of the file in one of the folders, or its path.
        folders: Folders to search, relative to each of `search_dirs()`.

    Returns:
        The path.

    Raises:
        DataError: If there is no such file.
    """
    candidates = list(_candidates(folders, (name,)))
    for path in [*candidates, Path(name).expanduser()]:
        if path.is_file():
            return path
    raise DataError(f"{name} was not found. Put it at {candidates[0]}, or give its path")


def checksums(content: bytes | Path, *algorithms: str) -> list[str]:
    """Return checksums of bytes or of a file, in hexadecimal. A file is read once."""
    digests = [hashlib.new(algorithm) for algorithm in algorithms]
    if isinstance(content, Path):
        require_file(content, DataError)
    with _open(content) as file:
        while block := file.read(2**20):
            for digest in digests:
                digest.update(block)
    return [digest.hexdigest() for digest in digests]


def file_record(path: Path, content: bytes | None = None) -> dict[str, Json]:
    """Return the record of a file: its folder and name, and its SHA-256.

    Args:
        path: The file.
        content: Its content, if it was read already.

    Returns:
        A dictionary with `"file"` and `"sha256"`.
    """
    (sha256,) = checksums(path if content is None else content, "sha256")
    return {"file": f"{path.parent.name}/{path.name}", "sha256": sha256}


@dataclass(frozen=True)
class RemoteFile:
    """A file of a published data set.

    Attributes:
        names: Possible names of the file. The first is the official name.
        folders: Folders to search, relative to each of `search_dirs()`. Downloads are stored in
            the first.
        checksum: Checksum of the official file, `"sha256:…"` or `"md5:…"`.
        urls: Addresses to download the file from, in order of preference.
        homepage: Web page to get the file from, if it cannot be downloaded by a program.
    """

    names: tuple[str, ...]
    folders: tuple[str, ...]
    checksum: str
    urls: tuple[str, ...] = ()
    homepage: str = ""

    @property
    def origin(self) -> str:
        """Address of the official file."""
        return self.urls[0] if self.urls else self.homepage

    def find(self) -> Path | None:
        """Return the path of the file, or `None` if it is not on this machine."""
        return next((p for p in _candidates(self.folders, self.names) if p.is_file()), None)

    def fetch(self) -> Path:
        """Return the path of the file. Downloads it if necessary."""
        return self.find() or self._download()

    def read(self, parse: Callable[[bytes, Path], T]) -> tuple[T, Json]:
        """Read and parse the file. Downloads it if necessary.

        Args:
            parse: Function of the content and the path. Raises `DataError` for a damaged file.

        Returns:
            The result of `parse`, and the record of the file.

        Raises:
            DataError: If the file cannot be found, downloaded or parsed.
        """
        path = self.fetch()
        content = read_file(path, DataError)
        with self.advise(path):
            return parse(content, path), self.record(path, content)

    @contextmanager
    def advise(self, path: Path) -> Generator[None, None, None]:
        """Add where to get the official file to any `DataError`.

        Args:
            path: The file that is being read.

        Yields:
            Nothing.

        Raises:
            DataError: The original error, with the advice.
        """
        try:
            yield
        except DataError as error:
            raise DataError(
                f"{error}. Delete {path} to download it again, or replace it with the official "
                f"file from {self.origin} ({self.checksum})"
            ) from error

    def record(self, path: Path, content: bytes | None = None) -> Json:
        """Return the record of a file: name, SHA-256 and whether it is the official file."""
        algorithm, _, official = self.checksum.partition(":")
        sha256, checksum = checksums(path if content is None else content, "sha256", algorithm)
        file = f"{path.parent.name}/{path.name}"
        return {"file": file, "sha256": sha256, "official": checksum == official}

    def _download(self) -> Path:
        with name_missing_extra("a download"):
            import pooch  # type: ignore[import-untyped]

        folder, failures = cache_dir() / self.folders[0], []
        for url in self.urls:
            try:
                return Path(pooch.retrieve(url, self.checksum, fname=self.names[0], path=folder))
            except (OSError, ValueError) as error:
                failures.append(f"{url} ({_summary(error)})")
        name, searched = Path(self.folders[0], self.names[0]), " or ".join(map(str, search_dirs()))
        tried = f"; tried {', '.join(failures)}" if failures else ""
        raise DataError(
            f"{name} is not in {searched} and could not be downloaded{tried}. Get it from "
            f"{self.origin} and put it at {data_dir() / name}"
        )


def _candidates(folders: tuple[str, ...], names: tuple[str, ...]) -> Iterator[Path]:
    for directory in search_dirs():
        for folder in folders:
            for name in names:
                yield directory / folder / name


def _open(content: bytes | Path) -> BinaryIO:
    return io.BytesIO(content) if isinstance(content, bytes) else content.open("rb")


def _summary(error: Exception) -> str:
    if not isinstance(error, OSError):
        return "the download has another checksum and was deleted"
    return str(error) if len(str(error)) < 160 else type(error).__name__
