"""The error that is raised for tables that cannot be used."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from ..untrusted import InputError


class DataError(InputError):
    """A table is missing, damaged or unusable. The message names the file and says what to do.

    Attributes:
        setting: Argument that can solve the problem, such as `"columns"`, if any.
    """

    def __init__(self, message: str, *, setting: str | None = None) -> None:
        super().__init__(message)
        self.setting = setting


@contextmanager
def problems_of(file: Path | str) -> Generator[None]:
    """Put the name of a file before errors about its content that do not name it."""
    try:
        yield
    except DataError as error:
        if str(error).startswith(str(file)):
            raise
        raise DataError(f"{file}: {error}", setting=error.setting) from error
    except ValueError as error:  # an encoder that cannot be fitted to the rows
        raise DataError(f"{file}: {error}") from error
