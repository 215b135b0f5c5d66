"""Recognize the encoding, the delimiter, the decimal mark and the header of a text table."""

import csv
import re
from collections import Counter
from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ...untrusted import quote
from ..errors import DataError
from ..schema.cells import MISSING

DELIMITERS = ("\t", ";", "|", ",")
"""Delimiters in order of precedence. The comma is last: it may be a decimal comma."""

WHITESPACE = " "
"""Delimiter of cells that are separated by any number of spaces and tabs."""

MAX_COLUMNS = 50_000
"""Largest number of columns of a table."""
MAX_NUMBER = 200
"""Longest number or date with its unit, in characters. Regular expressions of longer cells would
be slow."""
HEAD_BYTES = 2**20
"""Number of bytes that the format is recognized from."""
UTF16 = (b"\xff\xfe", b"\xfe\xff")
"""How text in UTF-16 begins."""
SAMPLE_LINES = 200
"""Number of lines that the format is recognized from."""

TITLE_LINES = 20
"""Number of lines in which titles are recognized."""

_BEFORE = "[(+-]{0,2}([A-Z]{0,3}[$£€¥₹₩₽₺]|[A-Z]{3})?[ \u00a0\u202f]?[(+-]?"
_AFTER = "[ \u00a0\u202f]?[^0-9\\s.,;:()+-]{0,8}[)]?"
DECIMAL_COMMA = rf"^ *{_BEFORE}(\d{{1,3}}(\.\d{{3}})+|\d*),\d+([eE][+-]?\d+)?{_AFTER} *$"
"""Regular expression of a number with a decimal comma, also with a unit as in `620,32 €`."""

_CONTROL = re.compile(rb"[\x01-\x08\x0e-\x1f]")
_COMMA = re.compile(DECIMAL_COMMA)
_POINT = re.compile(rf"{_BEFORE}\d*\.\d+([eE][+-]?\d+)?{_AFTER}")
_GROUPED = re.compile(rf"{_BEFORE}\d{{1,3}}(,\d{{3}})+(\.\d+)?{_AFTER}")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+|\d*,\d+)([eE][+-]?\d+)?|[+-]?inf(inity)?", re.I)
_SEPARATOR = re.compile(r"sep=.", re.I)
_DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([T ].*)?")


@dataclass(frozen=True)
class TextFormat:
    """The format of a text table.

    Attributes:
        delimiter: The character between cells. A space stands for any number of spaces and tabs.
        decimal: The decimal mark, a point or a comma.
        names: Names of the columns. `"0"`, `"1"`, … if there is no header.
        skip: Number of lines before the first row: titles, comments, empty lines and the header.
    """

    delimiter: str
    decimal: str
    names: tuple[str, ...]
    skip: int


@contextmanager
def cells_of_any_length() -> Generator[None]:
    """Let Python's csv reader accept cells of more than 131,072 characters."""
    limit = csv.field_size_limit(2**31 - 1)
    try:
        yield
    finally:
        csv.field_size_limit(limit)


@cells_of_any_length()
def detect_format(text: str, column_names: Collection[str] = ()) -> TextFormat:
    r"""Recognize the format of a table from its beginning.

    Args:
        text: The first lines of the table. At least one is not empty.
        column_names: Names that the columns may have. The first line is a header if it has one of
            them.

    Returns:
        The format.

    Raises:
        DataError: If no line has a cell.

    Example:
        >>> detect_format("# made by hand\nlength;width\n1,5;2\n")
        TextFormat(delimiter=';', decimal=',', names=('length', 'width'), skip=2)
    """
    if "\n" not in text:
        text = text.replace("\r", "\n")
    lines = text.replace("\r", " ").split("\n")
    start = next((i for i, line in enumerate(lines) if line.strip() and line[0] != "#"), 0)
    start += _title_lines(lines[start : start + TITLE_LINES])
    start += next((i for i, line in enumerate(lines[start:]) if line.strip()), 0)
    delimiter = _find_delimiter(lines[start:])
    width = len(next(_rows(lines[start:], delimiter), ([], 0))[0])
    if not width:
        raise DataError("it has no cells")
    if start and lines[start - 1][:1] == "#":
        for line in (lines[start - 1], lines[start - 1].lstrip("# ") or "#"):
            names, _ = next(_rows([line], delimiter), ([], 0))
            if len(names) == width:  # not a comment but a header
                names[0] = names[0].lstrip("# ") or "#"
                rows = [row for row, _ in _rows(lines[start:], delimiter)]
                return TextFormat(delimiter, _decimal(rows, delimiter), _names(names), start)
    numbered = list(_rows(lines[start:], delimiter))
    rows = [row for row, _ in numbered]
    decimal = _decimal(rows[1:] or rows, delimiter)
    if not _is_header(rows[0], rows[1:], column_names):
        return TextFormat(delimiter, decimal, positions(_usual_width(rows)), start)
    first = rows[0]
    if rows[1:] and _usual_width(rows[1:]) == width + 1:
        ends = {row[-1] for row in rows[1:] if len(row) > width}
        # All rows end with a delimiter, or R has left out the name of the first column.
        first = [*first, ""] if ends == {""} else ["", *first]
    return TextFormat(delimiter, decimal, _names(first), start + numbered[0][1])


def decode_text(content: bytes, path: Path) -> bytes:
    """Return text as UTF-8 without a byte order mark, with line feeds between lines.

    Args:
        content: Text in UTF-8, UTF-16 with a byte order mark, Windows-1252 or Latin-1.
        path: Path of the file, for errors.

    Returns:
        The same text in UTF-8.

    Raises:
        DataError: If the content is not text.
    """
    if content[:2] in UTF16:
        content = content.decode("utf-16", errors="replace").encode()
    content = content.removeprefix(b"\xef\xbb\xbf")
    if b"\0" in content:
        raise DataError(f"{path} is not a text file but binary. Give a table of text cells")
    if not content.isascii():
        try:
            content.decode()
        except UnicodeDecodeError as error:
            if _CONTROL.search(content[:HEAD_BYTES]):
                raise DataError(
                    f"{path} is not a text file but binary. Give a table of text cells"
                ) from error
            content = _decode_bytes(content).encode()
    if b"\n" not in content:
        content = content.replace(b"\r", b"\n")
    return content


def _decode_bytes(content: bytes) -> str:
    try:
        return content.decode("cp1252")
    except UnicodeDecodeError:  # a byte that Windows-1252 does not have
        return content.decode("latin-1")


def positions(count: int) -> tuple[str, ...]:
    """Return the names of columns without a header: `"0"`, `"1"`, …."""
    return tuple(str(i) for i in range(count))


def require_names(names: Sequence[str], path: Path | str) -> None:
    """Raise `DataError` if there are too many columns, or two have the same name."""
    if len(names) > MAX_COLUMNS:
        raise DataError(
            f"{path} has {len(names):,} columns, more than {MAX_COLUMNS:,}. Write those that the "
            "model needs to another file"
        )
    repeated = [quote(name) for name, count in Counter(names).items() if count > 1]
    if repeated:
        more = f" and {len(repeated) - 10:,} more" if len(repeated) > 10 else ""
        raise DataError(
            f"{path} cannot be used as it is: more than one column is called "
            f"{', '.join(repeated[:10])}{more}. Rename the columns"
        )


def _names(cells: Sequence[str]) -> tuple[str, ...]:
    given = set(cells)
    unnamed = [f"unnamed {i}" if str(i) in given else str(i) for i in range(len(cells))]
    return tuple(cell or other for cell, other in zip(cells, unnamed, strict=True))


def _rows(lines: Sequence[str], delimiter: str) -> Iterator[tuple[list[str], int]]:
    """Yield the cells of each row that is not empty, and the number of lines up to its end."""
    if delimiter == WHITESPACE:
        lines = [" ".join(line.split()) for line in lines]
    reader = csv.reader([line + "\n" for line in lines], delimiter=delimiter)
    for count, row in enumerate(reader):
        if count == SAMPLE_LINES:
            return
        if any(cell.strip() for cell in row) or len(row) > 1:
            # One cell too many is enough to refuse a table with too many columns.
            yield [cell.strip() for cell in row[: MAX_COLUMNS + 1]], reader.line_num


def _usual_width(rows: Sequence[Sequence[str]]) -> int:
    return Counter(map(len, rows)).most_common(1)[0][0] if rows else 0


def _title_lines(lines: Sequence[str]) -> int:
    """Return the number of lines before the header, such as a title or Excel's `sep=;`."""
    if _SEPARATOR.fullmatch(lines[0].strip()):
        return 1
    for delimiter in DELIMITERS:
        rows = list(_rows(lines, delimiter))
        for i, (row, _) in enumerate(rows[:-1]):
            below = [cells for cells, _ in rows[i + 1 :]]
            is_header = len(row) > 1 and len(row) == _usual_width(below)
            if is_header and not any(map(_is_data, row)) and _names_numbers(row, below):
                titles = [len(cells) for cells, _ in rows[:i]]
                return rows[i - 1][1] if titles and max(titles) < len(row) else 0
    return 0


def _find_delimiter(lines: Sequence[str]) -> str:
    """Return the delimiter that splits most lines into the same number of cells."""
    best, best_delimiter = 0.5, ","
    for delimiter in (d for d in DELIMITERS if d in lines[0]):
        rows = [row for row, _ in _rows(lines, delimiter)]
        width = _usual_width(rows)
        share = sum(len(row) == width for row in rows) / max(len(rows), 1)
        if not rows or abs(len(rows[0]) - width) > 1 or min(len(rows[0]), width) < 2:
            continue
        if share > best:
            best, best_delimiter = share, delimiter
    if best > 0.5:
        return best_delimiter
    rows = [row for row, _ in _rows(lines, WHITESPACE)]
    columns = list(zip(*(row for row in rows if len(row) == _usual_width(rows)), strict=True))
    has_numbers = any(all(map(_is_data, column[1:] or column)) for column in columns)
    return WHITESPACE if len(columns) > 1 and has_numbers else ","


def _decimal(rows: Sequence[Sequence[str]], delimiter: str) -> str:
    """Return the decimal mark that most numbers have."""
    cells = [cell for row in rows for cell in row if len(cell) <= MAX_NUMBER]
    commas = [cell for cell in cells if "," in cell and _COMMA.fullmatch(cell)]
    grouped = [cell for cell in cells if "," in cell and _GROUPED.fullmatch(cell)]
    if any(cell.count(",") > 1 or "." in cell for cell in grouped):
        return "."
    if delimiter == "," and all(_GROUPED.fullmatch(cell) for cell in commas):
        return "."
    points = sum("." in cell and _POINT.fullmatch(cell) is not None for cell in cells)
    return "," if len(commas) > points else "."


def _is_header(
    first: Sequence[str], rows: Sequence[Sequence[str]], column_names: Collection[str]
) -> bool:
    """Return whether the first row has the names of the columns."""
    if _has_known_names(first, set(column_names)):
        return True
    if not any(first) or any(map(_is_data, first)):
        return _names_numbers(first, rows) or _is_numbered(first, rows)
    columns = zip(first, *(row for row in rows if len(row) == len(first)), strict=True)
    repeated = 0
    for name, *cells in columns:
        if any(map(_is_data, cells)):
            return True
        repeated += name in cells
    return not repeated


def _has_known_names(first: Sequence[str], column_names: set[str]) -> bool:
    """Return whether a row has names of columns. A single number may be a value instead."""
    if any(cell in column_names and not _is_data(cell) for cell in first):
        return True
    return column_names.issuperset(first) and tuple(first) != positions(len(first))


def _names_numbers(first: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Return whether most columns of numbers begin with text, although some do not."""
    votes = 0
    columns = zip(first, *(row for row in rows if len(row) == len(first)), strict=True)
    for name, *cells in columns:
        present = [cell for cell in cells if cell not in MISSING]
        if present and all(map(_is_data, present)) and name not in MISSING:
            votes += -1 if _is_data(name) else 1
    return votes > 0 and len(set(first)) == len(first)


def _is_numbered(first: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the first row has the numbers of columns, as pandas writes them."""
    if not first[0]:
        return tuple(first[1:]) == positions(len(first) - 1) != ()
    short = (cell for row in rows for cell in row if len(cell) <= MAX_NUMBER)
    fractions = any(map(_POINT.fullmatch, short))
    return len(first) > 1 and tuple(first) == positions(len(first)) and fractions


def _is_data(cell: str) -> bool:
    if len(cell) > MAX_NUMBER:
        return False
    return _NUMBER.fullmatch(cell) is not None or _DATE.fullmatch(cell) is not None
