r"""Untrusted files: what may be read, how large it may become, and how it is quoted.

A reader of this package checks the kind and size of a file before it reads it, and raises an
`InputError` if the file cannot be used. The limits are far above those of real data. They bound
what a small file can cost: less than a gigabyte of memory and ten seconds below 10 MB.
"""

import gzip
import io
import json
import re
import stat
import zlib
from pathlib import Path
from typing import Any

__all__ = [
    "MAX_QUOTE",
    "Decompressed",
    "InputError",
    "expansion_limit",
    "parse_json",
    "printable",
    "quote",
    "read_file",
    "read_json",
    "require_file",
    "shorten",
]

MAX_MESSAGE = 2000
"""Longest message of an error, in characters. The middle of a longer one is left out."""
MAX_QUOTE = 120
"""Longest quotation of a cell, name or value in a message, in characters."""
MAX_JSON_BYTES = 2**26
"""Largest JSON file: 64 MiB. A `config.json` with 50,000 columns has 10 MB."""
MAX_JSON_DEPTH = 64
"""Deepest nesting of a JSON file. The recipes of this package have a depth of ten."""
MAX_EXPANSION, MIN_EXPANDED = 20, 2**27
"""A compressed file may expand to 20 times its size, and in any case to 128 MiB."""

_UNPRINTABLE = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


class InputError(ValueError):
    """A file, record or setting that cannot be used.

    All errors of this package about its input are of this type. The command line prints them in
    one line. Characters that control a terminal are replaced, and the middle of a long message is
    left out, since a message may quote the content of a file.
    """

    def __init__(self, message: str) -> None:
        lines = "\n".join(map(printable, str(message).split("\n")))
        super().__init__(shorten(lines, MAX_MESSAGE))


def printable(text: str) -> str:
    r"""Return a line of text in which characters that control a terminal are replaced.

    These are control characters, such as the beginning of an escape sequence, marks that change
    the direction of text, line separators, and half of a pair of surrogates.

    Example:
        >>> printable("\x1b[31mred")
        '�[31mred'
    """
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def shorten(text: str, most: int) -> str:
    """Return text without its middle if it has more than a number of characters.

    Example:
        >>> shorten("a long sentence about nothing", 16)
        'a long s…nothing'
    """
    if len(text) <= most:
        return text
    end = (most - 1) // 2
    return f"{text[: most - 1 - end]}…{text[len(text) - end :]}"


def quote(value: object) -> str:
    """Return a value of a file as it is quoted in a message: its `repr`, shortened."""
    if isinstance(value, str):  # the representation of a long text is expensive
        value = shorten(value, MAX_QUOTE)
    return shorten(printable(repr(value)), MAX_QUOTE + 2)


def not_a_formula(text: str, before: str) -> str:
    r"""Return text that spreadsheets do not execute when they open a csv file.

    Args:
        text: The text.
        before: Harmless text to put before it if it begins like a formula.

    Returns:
        The same text, or both.

    Example:
        >>> not_a_formula("width", "column "), not_a_formula("=1+1", "column ")
        ('width', 'column =1+1')
    """
    formula = text[:1] in _INVISIBLE or text.lstrip()[:1] in _FORMULA
    return before + text if formula else text


_FORMULA, _INVISIBLE = frozenset("=+-@＝＋－＠"), frozenset("\t\r\n")
"""How a formula begins, and characters that are skipped before it."""


def require_file(path: Path, error: type[InputError] = InputError) -> int:
    """Return the size of a regular file.

    Pipes and devices are refused: reading them may take forever.

    Args:
        path: The file.
        error: Type of the error.

    Returns:
        The number of bytes.

    Raises:
        InputError: If there is no such file, or it is a folder, a pipe or a device.
    """
    try:
        status = path.stat()
    except (OSError, ValueError) as problem:  # a null byte in the path is a ValueError
        reason = getattr(problem, "strerror", None) or str(problem)
        raise error(f"{path} cannot be read: {reason}") from problem
    if stat.S_ISREG(status.st_mode):
        return status.st_size
    kind = next((name for test, name in _KINDS.items() if test(status.st_mode)), "a device")
    raise error(f"{path} is {kind}, but a file is needed")


_KINDS = {
    stat.S_ISDIR: "a folder",
    stat.S_ISFIFO: "a pipe",
    stat.S_ISSOCK: "a socket",
}


def read_file(path: Path, error: type[InputError] = InputError, most: int | None = None) -> bytes:
    """Read a regular file.

    Args:
        path: The file.
        error: Type of the error.
        most: Largest accepted number of bytes.

    Returns:
        The content.

    Raises:
        InputError: If it is not a regular file, is too large, or cannot be read.
    """
    size = require_file(path, error)
    if most is not None and size > most:
        raise error(f"{path} has {size:,} bytes, more than {most:,}")
    try:
        return path.read_bytes()
    except OSError as problem:
        raise error(f"{path} cannot be read: {problem.strerror}") from problem


def read_json(path: Path, error: type[InputError] = InputError) -> Any:  # ruff: ignore[any-type]
    """Read a JSON file.

    Args:
        path: The file.
        error: Type of the error.

    Returns:
        The value.

    Raises:
        InputError: If the file is not JSON, or is too large or too deeply nested.
    """
    content = read_file(path, error, MAX_JSON_BYTES)
    try:
        return parse_json(content)
    except InputError as problem:
        raise error(f"{path} is damaged: {problem}") from problem


def parse_json(content: bytes | str) -> Any:  # ruff: ignore[any-type]
    """Return the value of a JSON document in UTF-8.

    Raises:
        InputError: If it is not JSON or too deeply nested.
    """
    try:
        text = content if isinstance(content, str) else content.decode()
        value, end = _DECODER.raw_decode(text, len(text) - len(text.lstrip(_BLANK)))
    except RecursionError as problem:
        raise InputError(f"it is nested more than {MAX_JSON_DEPTH} times") from problem
    except ValueError as problem:
        raise InputError(f"it is not JSON ({problem})") from problem
    if end < len(text) and (rest := text[end:].strip(_BLANK)):
        raise InputError(f"it is not JSON (after its end comes {quote(rest)})")
    if text.count("[") + text.count("{") <= MAX_JSON_DEPTH:
        return value
    level, depth = [value], 0
    while inner := [item for item in level if isinstance(item, (dict, list))]:
        if depth == MAX_JSON_DEPTH:
            raise InputError(f"it is nested more than {MAX_JSON_DEPTH} times")
        items = (item.values() if isinstance(item, dict) else item for item in inner)
        level, depth = [element for part in items for element in part], depth + 1
    return value


_DECODER, _BLANK = json.JSONDecoder(), "\ufeff \t\r\n"


def expansion_limit(size: int) -> int:
    """Return the largest accepted number of decompressed bytes of a file of `size` bytes.

    Example:
        >>> expansion_limit(1000), expansion_limit(10**9)
        (134217728, 20000000000)
    """
    return max(MAX_EXPANSION * size, MIN_EXPANDED)


class Decompressed(io.RawIOBase):
    """The content of a gzip file, up to a limit.

    Reading more raises `InputError`, and damage raises `InputError` too.
    """

    def __init__(self, file: io.IOBase, limit: int) -> None:
        self._file, self._left = gzip.GzipFile(fileobj=file), limit
        self._limit = limit

    def readable(self) -> bool:
        """Return that it can be read."""
        return True

    def readinto(self, buffer: Any) -> int:  # ruff: ignore[any-type]
        """Read bytes into a buffer, and return their number."""
        view = memoryview(buffer)
        try:
            block = self._file.read(min(len(view), 2**20))
        except (OSError, EOFError, zlib.error) as problem:
            raise InputError(f"is damaged: {problem}") from problem
        self._left -= len(block)
        if self._left < 0:
            raise InputError(
                f"expands to more than {self._limit:,} bytes. If this is right, decompress it "
                "with gunzip first"
            )
        view[: len(block)] = block
        return len(block)
