"""Writing files so that a failure leaves what was there before."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Generator[Path, None, None]:
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
