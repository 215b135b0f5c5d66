"""What is raised when data cannot be read."""


class DataError(ValueError):
    """A file that is missing, damaged or not what it should be; the message says what to do."""
