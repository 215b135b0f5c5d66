"""Folders that one process writes to at a time."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

__all__ = ["BusyError", "exclusive"]


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
