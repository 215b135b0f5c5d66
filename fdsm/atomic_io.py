"""Write files so that a failure leaves the previous file unchanged."""

import os
import re
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replace_file(path: Path) -> Generator[Path, None, None]:
    """Write a draft in the same folder, flush it to disk and rename it to `path`.

    Args:
        path: The file to create or replace.

    Yields:
        The path of the draft. If writing fails, the draft is deleted and `path` is unchanged.

    Raises:
        OSError: If the file cannot be written. Its `filename` is `path`, not the draft.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with errors_name(path, draft):
            yield draft
            with draft.open("rb+") as file:
                os.fsync(file.fileno())
            os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)


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


class BusyError(OSError):
    """Another process holds the lock of a folder."""


@contextmanager
def exclusive(folder: Path) -> Generator[None, None, None]:
    """Lock a folder against other processes. The lock ends with the process that holds it.

    Args:
        folder: An existing folder.

    Yields:
        Nothing, while the folder is locked.

    Raises:
        BusyError: If another process holds the lock.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(folder / ".lock", timeout=0)
    try:
        lock.acquire()
    except Timeout as error:
        raise BusyError(
            f"another process is writing to {folder}. Wait until it has finished"
        ) from error
    try:
        yield
    finally:
        lock.release()


def sweep(folder: Path, names: str) -> None:
    """Delete drafts left by processes that were killed while writing.

    Args:
        folder: The folder.
        names: A regular expression for the file names whose drafts are deleted.
    """
    for path in folder.glob(".*"):
        if re.fullmatch(rf"\.(?:{names})\.\d+", path.name) and path.is_file():
            path.unlink(missing_ok=True)
