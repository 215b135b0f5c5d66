"""Parse the content of text tables with pyarrow."""

import csv
import re
from collections.abc import Collection, Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import IO, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from pyarrow import csv as arrow_csv

from ..errors import DataError
from .text_format import (
    DECIMAL_COMMA,
    MISSING,
    WHITESPACE,
    TextFormat,
    detect_format,
    require_different,
)

HEAD_BYTES = 2**20
"""Number of bytes that the format is recognized from."""
BLOCK_BYTES = 2**22
"""Number of bytes that pyarrow parses at once."""
MAX_OPEN_LINES = 10_000
"""Largest number of lines of a quoted cell at the end of a block."""

_NULLS = [*MISSING, *(f" {text}" for text in MISSING)]


class Frame(NamedTuple):
    """A table that was read, and the rows that have a wrong number of cells.

    Attributes:
        table: The table. All cells of rows with a wrong number of cells are missing.
        ragged: The problem of each row with a wrong number of cells, by its index.
    """

    table: pa.Table
    ragged: Mapping[int, str]


def parse_text(content: bytes, path: Path, known: Collection[str] = ()) -> Frame:
    """Parse a text table. The types of the columns are those that pyarrow infers.

    Args:
        content: Content of the file.
        path: Path of the file, for errors.
        known: Names that the columns may have. They help to recognize the header.

    Returns:
        The table.

    Raises:
        DataError: If the file is not a table.
    """
    content = decode_text(content, path)
    text_format = _detect(content[:HEAD_BYTES], path, known)
    body = _remove_lines(content, text_format.skip)
    if not body.strip():
        raise DataError(f"{path} has a header but no rows. Add rows")
    return _parse(body, text_format, path, None)


def iter_text(
    file: IO[bytes], path: Path, rows: int, known: Collection[str] = ()
) -> Iterator[Frame]:
    """Parse a text table in blocks. All columns are text, so that all blocks have one type.

    Args:
        file: The open file.
        path: Path of the file, for errors.
        rows: Number of lines of a block.
        known: Names that the columns may have.

    Yields:
        The blocks.

    Raises:
        DataError: If the file is not a table.
    """
    head = file.readlines(HEAD_BYTES)
    if head and head[0][:2] in _UTF16:
        head = decode_text(b"".join(chain(head, file)), path).splitlines(keepends=True)
    text_format = _detect(decode_text(b"".join(head), path), path, known)
    lines = chain(head[text_format.skip :], file)
    types = dict.fromkeys(text_format.names, pa.string())
    while block := _take_lines(lines, rows):
        content = decode_text(block, path)
        if content.strip():
            yield _parse(content, text_format, path, types)


def decode_text(content: bytes, path: Path) -> bytes:
    """Return text as UTF-8 without a byte order mark, with line feeds between lines.

    Args:
        content: Text in UTF-8, UTF-16 with a byte order mark, or Latin-1.
        path: Path of the file, for errors.

    Returns:
        The same text in UTF-8.

    Raises:
        DataError: If the content is not text.
    """
    if content[:2] in _UTF16:
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
            content = content.decode("latin-1").encode()
    if b"\n" not in content:
        content = content.replace(b"\r", b"\n")
    return content


_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_CONTROL = re.compile(rb"[\x01-\x08\x0e-\x1f]")


def _detect(head: bytes, path: Path, known: Collection[str]) -> TextFormat:
    text = head.decode(errors="ignore")
    if len(head) == HEAD_BYTES:
        text = text[: text.rfind("\n") + 1] or text
    if all(line[:1] in {"", "#"} for line in map(str.strip, text.splitlines())):
        raise DataError(f"{path} is empty. Add rows")
    try:
        found = detect_format(text, known)
    except csv.Error as error:
        raise DataError(f"{path} is not a readable table: {error}. Check its quotes") from error
    require_different(found.names, path)
    return found


def _remove_lines(content: bytes, count: int) -> bytes:
    position = 0
    for _ in range(count):
        position = content.find(b"\n", position) + 1
        if position == 0:
            return b""
    return content[position:]


def _take_lines(lines: Iterator[bytes], count: int) -> bytes:
    """Return the next lines. A quoted cell with line breaks is not cut."""
    block = b"".join(islice(lines, count))
    if block.count(b'"') % 2:
        more = b""
        for line in islice(lines, MAX_OPEN_LINES):
            more += line
            if line.count(b'"') % 2:
                break
        block += more
    return block


def _parse(
    body: bytes, text_format: TextFormat, path: Path, types: dict[str, pa.DataType] | None
) -> Frame:
    if text_format.delimiter == WHITESPACE:
        body = _single_spaces(body)
    body = _without_final_comments(body, text_format)
    ragged: list[pa.lib.InvalidRow] = []
    try:
        table = _read(body, text_format, types, ragged, threads=True)
        if ragged:  # only a single thread counts the rows
            ragged.clear()
            table = _read(body, text_format, types, ragged, threads=False)
    except pa.ArrowInvalid as error:
        raise DataError(f"{path} is not a readable table: {error}. Check its quotes") from error
    _require_closed_quotes(body, table, path)
    if text_format.decimal == ",":
        table = _with_points(table)
    problems = {
        row.number - 1: f"has {row.actual_columns} cells instead of {row.expected_columns}"
        for row in ragged
    }
    return Frame(_with_empty_rows(table, problems), problems)


def _read(
    body: bytes,
    text_format: TextFormat,
    types: dict[str, pa.DataType] | None,
    ragged: list["pa.lib.InvalidRow"],
    *,
    threads: bool,
) -> pa.Table:
    def skip(row: "pa.lib.InvalidRow") -> str:
        ragged.append(row)
        return "skip"

    def read(block_size: int) -> pa.Table:
        ragged.clear()
        return arrow_csv.read_csv(
            pa.BufferReader(body),
            arrow_csv.ReadOptions(
                use_threads=threads, block_size=block_size, column_names=text_format.names
            ),
            arrow_csv.ParseOptions(
                delimiter=text_format.delimiter,
                newlines_in_values=b'"' in body,
                invalid_row_handler=skip,
            ),
            arrow_csv.ConvertOptions(
                check_utf8=False,
                column_types=types,
                null_values=_NULLS,
                true_values=["true", "True", "TRUE"],
                false_values=["false", "False", "FALSE"],
                strings_can_be_null=True,
                decimal_point=text_format.decimal,
            ),
        )

    try:
        return read(BLOCK_BYTES)
    except pa.ArrowInvalid:  # a line is longer than a block
        if len(body) <= BLOCK_BYTES:
            raise
        return read(min(len(body), 2**31 - 1))


def _single_spaces(body: bytes) -> bytes:
    if b'"' not in body:
        return re.sub(rb"(?m)^ | (?=\r?$)", b"", re.sub(rb"[ \t]+", b" ", body))
    parts = re.split(rb'("[^"]*")', body)
    parts[::2] = [re.sub(rb"[ \t]+", b" ", part) for part in parts[::2]]
    return re.sub(rb"(?m)^ | (?=\r?$)", b"", b"".join(parts))


def _without_final_comments(body: bytes, text_format: TextFormat) -> bytes:
    while True:
        body = body.rstrip(b"\r\n")
        start = body.rfind(b"\n") + 1
        cells = body[start:].count(text_format.delimiter.encode()) + 1
        if body[start : start + 1] != b"#" or cells == len(text_format.names):
            return body + b"\n"
        body = body[:start]


def _require_closed_quotes(body: bytes, table: pa.Table, path: Path) -> None:
    if body.count(b'"') % 2 == 0 or not table.num_rows:
        return
    last = [column[-1].as_py() for column in table.columns if pa.types.is_string(column.type)]
    if any(text is not None and "\n" in text for text in last):
        raise DataError(
            f"{path} is not a readable table: a quote is not closed, at the latest in row "
            f"{table.num_rows:,}. Check its quotes"
        )


def _with_points(table: pa.Table) -> pa.Table:
    """Replace decimal commas of numbers in columns of text, such as those with bad cells."""
    for i, field in enumerate(table.schema):
        if pa.types.is_string(field.type):
            column = table.column(i)
            commas = pc.match_substring_regex(column, DECIMAL_COMMA)
            points = pc.replace_substring(column, ",", ".")
            table = table.set_column(i, field.name, pc.if_else(commas, points, column))
    return table


def _with_empty_rows(table: pa.Table, rows: Collection[int]) -> pa.Table:
    """Insert rows of missing cells, so that they have the given indices."""
    if not rows:
        return table
    count = table.num_rows + len(rows)
    good = iter(range(table.num_rows))
    order = [None if i in rows else next(good) for i in range(count)]
    return table.take(pa.array(order, pa.int64()))
