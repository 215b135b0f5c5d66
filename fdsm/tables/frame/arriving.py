"""Tables that arrive line by line, for example through a pipe."""

from collections import deque
from collections.abc import Collection, Iterator
from itertools import islice
from pathlib import Path
from typing import Protocol

from ..errors import DataError
from .json_file import JsonRow, parse_line, text_frame
from .reading import GZIP, require_short_cells
from .text_file import MAX_OPEN_BYTES, Frame, iter_text
from .text_format import SAMPLE_LINES, TITLE_LINES, UTF16, require_names

SOURCE = Path("standard input")
"""Name of the table in errors."""
READ_BYTES = 2**20
"""Largest number of bytes that are read at once."""
BLOCK_ROWS = 50_000
"""Largest number of rows of a block."""


class Source(Protocol):
    """A file that gives what has arrived, such as `sys.stdin.buffer`."""

    def read1(self, size: int = ..., /) -> bytes:
        """Wait for bytes and return at most `size` of them. Empty at the end."""
        ...


class ArrivingLines:
    """The lines of a source. Lines that have arrived are known before they are read.

    Attributes:
        number: Number of lines that were read.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._lines: deque[bytes] = deque()
        self._rest = b""
        self.number = 0

    def ready(self) -> int:
        """Wait for lines, and return how many have arrived. 0 at the end."""
        while not self._lines and (block := self._source.read1(READ_BYTES)):
            *lines, self._rest = (self._rest + block).split(b"\n")
            self._lines.extend(line + b"\n" for line in lines)
            if len(self._rest) > MAX_OPEN_BYTES:
                raise DataError(f"{SOURCE} has a line of more than {MAX_OPEN_BYTES:,} bytes")
        if not self._lines and self._rest:
            self._lines.append(self._rest)
            self._rest = b""
        return len(self._lines)

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        if not self.ready():
            raise StopIteration
        self.number += 1
        return self._lines.popleft()

    def readlines(self, hint: int) -> list[bytes]:
        """Return enough lines to recognize the format of a text table, up to `hint` bytes."""
        lines: list[bytes] = []
        for line in islice(self, TITLE_LINES + SAMPLE_LINES):
            lines.append(line)
            hint -= len(line)
            if hint <= 0:
                break
        return lines

    def start(self) -> bytes:
        """Return the first line that is not empty, without removing it."""
        while self.ready() and not self._lines[0].strip():
            next(self)
        return self._lines[0] if self._lines else b""


def is_json(lines: ArrivingLines) -> bool:
    """Return whether JSON lines arrive, and not a text table.

    Raises:
        DataError: If it is neither.
    """
    start = lines.start().removeprefix(b"\xef\xbb\xbf").lstrip()
    if start[:2] in {GZIP, *UTF16}:
        raise DataError(f"{SOURCE} is compressed or UTF-16. Decompress it, or write it as UTF-8")
    if start[:1] == b"[":
        raise DataError(f"{SOURCE} is an array. Write one object per line, without brackets")
    return start[:1] == b"{"


def iter_arriving_text(lines: ArrivingLines, columns: Collection[str]) -> Iterator[Frame]:
    """Yield the blocks of a text table as they arrive, after the first 220 lines."""
    for frame in iter_text(lines, SOURCE, BLOCK_ROWS, columns, lines.ready):
        require_short_cells(frame.table, SOURCE)
        yield frame


def iter_arriving_json(
    lines: ArrivingLines, columns: Collection[str]
) -> Iterator[tuple[list[JsonRow], Frame]]:
    """Yield the blocks of JSON lines as they arrive: the rows, and the same rows as text."""
    while count := min(lines.ready(), BLOCK_ROWS):
        numbered = enumerate(islice(lines, count), lines.number + 1)
        rows = [parse_line(line.strip(), i) for i, line in numbered if line.strip()]
        names = tuple(dict.fromkeys(name for row in rows for name in row.cells))
        require_names(names, SOURCE)
        if rows:
            frame = text_frame(rows, names, SOURCE, columns)
            require_short_cells(frame.table, SOURCE)
            yield rows, frame
