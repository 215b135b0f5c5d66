"""The error that is raised for unusable data."""

from ..untrusted import InputError


class DataError(InputError):
    """Data is missing, damaged or unusable. The message names the file and says what to do.

    Attributes:
        setting: Field of the source that can solve the problem, such as `"columns"`, if any.
    """

    def __init__(self, message: str, *, setting: str | None = None) -> None:
        super().__init__(message)
        self.setting = setting
