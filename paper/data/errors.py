"""The error that is raised for unusable data."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from fdsm.untrusted import InputError


class DataError(InputError):
    """Data is missing, damaged or unusable. The message names the file and says what to do."""


@contextmanager
def problems_of(file: Path | str) -> Generator[None]:
    """Put the name of a file before the text of each error about its content."""
    try:
        yield
    except ValueError as error:  # also of a transform that cannot be fitted to the rows
        raise DataError(f"{file}: {error}") from error
