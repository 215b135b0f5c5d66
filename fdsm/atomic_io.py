"""Write files so that a failure leaves the previous file unchanged."""

import errno
import os
import re
import secrets
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["create_folder", "flush", "replace_file", "sweep"]

try:
    import fcntl
except ImportError:  # Windows, where an open file cannot be renamed
    fcntl = None  # type: ignore[assignment]


@contextmanager
def replace_file(path: Path) -> Generator[Path, None, None]:
    """Write a draft in the same folder, flush it to disk, rename it to `path` and flush the name.

    The draft is locked while it is written. Drafts of `path` without a lock were left by processes
    that were killed, and are deleted first.

    Args:
        path: The file to create or replace.

    Yields:
        The path of the draft. If writing fails, the draft is deleted and `path` is unchanged.

    Raises:
        OSError: If the file cannot be written. Its `filename` is `path`, not the draft.
    """
    sweep(path.parent, re.escape(path.name))
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}.draft")
    try:
        with errors_name(path, draft), _locked(draft):
            yield draft
            flush(draft)
            os.replace(draft, path)
            flush_folder(path.parent)
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)


@contextmanager
def _locked(draft: Path) -> Generator[None, None, None]:
    """Create a draft and hold a lock on it, which ends with the process."""
    with draft.open("wb") as file:
        if fcntl is None:
            file.close()
        else:
            with suppress(OSError):  # some network file systems have no locks
                fcntl.flock(file, fcntl.LOCK_EX)
        yield


def flush(path: Path) -> None:
    """Wait until the content of a file is on the disk."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def flush_folder(folder: Path) -> None:
    """Wait until the names of the files in a folder are on the disk, where the system can do so.

    Args:
        folder: The folder.

    Raises:
        OSError: If the disk fails.
    """
    if not hasattr(os, "O_DIRECTORY"):
        return
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    except OSError as error:
        if error.errno not in {errno.EINVAL, errno.ENOTSUP}:
            raise
    finally:
        os.close(number)


def create_folder(folder: Path) -> None:
    """Create a folder and its parents, if they do not exist, and flush their names to disk."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for path in missing:
        flush_folder(path.parent)


@contextmanager
def errors_name(path: Path, draft: Path | None = None) -> Generator[None, None, None]:
    """Add `path` to system errors that name no file, such as those of a full disk.

    Args:
        path: The file that is being written.
        draft: A temporary file. Errors that name it name `path` instead.

    Raises:
        OSError: The same error, with the same `errno`.
    """
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename not in {None, draft and str(draft)}:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def require_writable(path: Path) -> None:
    """Check that a file or folder can be created, before its content is computed.

    Args:
        path: The file or folder.

    Raises:
        NotADirectoryError: If the folder that it is to be created in is a file.
        PermissionError: If that folder is read-only.
    """
    folder = next(folder for folder in path.absolute().parents if folder.exists())
    if not folder.is_dir():
        raise NotADirectoryError(f"{path} cannot be written: {folder} is not a folder")
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"{path} cannot be written: the folder {folder} is read-only")


def sweep(folder: Path, names: str) -> None:
    """Delete drafts left by processes that were killed while writing.

    Args:
        folder: The folder.
        names: A regular expression for the file names whose drafts are deleted.
    """
    draft = re.compile(rf"\.(?:{names})\.(?:[0-9a-f]{{8}}\.draft|\d+)")  # a number until 0.2.0
    for path in folder.iterdir() if folder.is_dir() else ():
        if draft.fullmatch(path.name) and path.is_file() and not _is_locked(path):
            path.unlink(missing_ok=True)


def _is_locked(path: Path) -> bool:
    """Return whether a process holds the lock of a file, or no lock can be taken to find out."""
    if fcntl is None:
        return False
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    return False
