"""Writing files so that a failure leaves what was there before."""

import os
import re
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replace_file(path: Path) -> Generator[Path, None, None]:
    """Write a file beside its place and move it there when it is whole and on the disk.

    Args:
        path: The file to make or replace.

    Yields:
        The file to write instead. If that fails it is deleted, and `path` left as it was.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield draft
        with draft.open("rb+") as file:
            os.fsync(file.fileno())
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)


class BusyError(OSError):
    """Another process is writing to a folder."""


@contextmanager
def exclusive(folder: Path) -> Generator[None, None, None]:
    """Keep other processes from a folder as long as this one lives; killed ones let go.

    Args:
        folder: A folder that is there.

    Yields:
        Nothing, once the folder is ours.

    Raises:
        BusyError: If another process has it.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(folder / ".lock", timeout=0)
    try:
        lock.acquire()
    except Timeout as error:
        raise BusyError(f"another process is writing to {folder}: let it finish") from error
    try:
        yield
    finally:
        lock.release()


def sweep(folder: Path, names: str) -> None:
    """Delete what was being written when an earlier process was killed.

    Args:
        folder: Where.
        names: Which files of ours, as a regular expression; drafts of no others are touched.
    """
    for path in folder.glob(".*"):
        if re.fullmatch(rf"\.(?:{names})\.\d+", path.name) and path.is_file():
            path.unlink(missing_ok=True)
