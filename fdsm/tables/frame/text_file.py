"""Parse the content of text tables with pyarrow."""

import csv
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

from ..errors import DataError
from ..schema.cells import MISSING, has_codes, iso_format
from ..schema.schema import WRITTEN
from .text_format import (
    DECIMAL_COMMA,
    HEAD_BYTES,
    UTF16,
    WHITESPACE,
    TextFormat,
    cells_of_any_length,
    decode_text,
    detect_format,
    require_names,
)

if TYPE_CHECKING:
    from .arriving import ArrivingLines

BLOCK_BYTES = 2**22
"""Number of bytes that pyarrow parses at once."""
WIDE = 1000
"""Number of columns of a wide table."""
MAX_OPEN_BYTES = 2**24
"""Largest size of the rest of a quoted cell at the end of a block."""

_NULLS = [*MISSING, *(f" {text}" for text in MISSING)]
_OTHER_FORMATS = {
    "HTML or XML": re.compile(r"\s*<(!doctype|html|\?xml)", re.I),
    "JSON": re.compile(r'\s*(\{\s*"|\[\s*[\[{])'),
    "PDF": re.compile(r"%PDF-"),
}
"""How text begins that is not a table."""


class Frame(NamedTuple):
    """A table that was read, and the rows that have a wrong number of cells.

    Attributes:
        table: The table. All cells of rows with a wrong number of cells are missing.
        ragged: The problem of each row with a wrong number of cells, by its index.
        original: The cells as they are in the file, if it was read in blocks. Rows with a wrong
            number of cells have theirs; the last cell of a row that is too long has the rest of
            the row. Otherwise the same as `table`.
    """

    table: pa.Table
    ragged: Mapping[int, str]
    original: pa.Table


def parse_text(
    content: bytes, path: Path, column_names: Collection[str] = (), as_text: Collection[str] = ()
) -> Frame:
    """Parse a text table. The types of the columns are those that pyarrow infers.

    Args:
        content: Content of the file.
        path: Path of the file, for errors.
        column_names: Names that the columns may have. They help to recognize the header.
        as_text: Names of columns that are text even if all cells are numbers, such as `01067`.

    Returns:
        The table.

    Raises:
        DataError: If the file is not a table.
    """
    content = decode_text(content, path)
    text_format = _detect(_head(content), path, column_names)
    body = _clean(_remove_lines(content, text_format.skip), text_format)
    body = _without_final_comments(body, text_format)
    if not body:
        raise DataError(f"{path} has a header but no rows. Add rows")
    types = dict.fromkeys(set(as_text) & set(text_format.names), pa.string())
    try:
        table, ragged = _parse(
            body, text_format, path, _fractions(body, text_format) | types, _NULLS
        )
    except DataError:  # a column that begins with a fraction has other cells
        table, ragged = _parse(body, text_format, path, types, _NULLS)
    if integers := _possible_codes(table, body, text_format.delimiter):
        as_strings = dict.fromkeys(integers, pa.string())
        texts, _ = _parse(body, text_format, path, as_strings, _NULLS, integers)
        for name in filter(lambda name: has_codes(texts.column(name)), integers):
            table = table.set_column(text_format.names.index(name), name, texts.column(name))
    table = _insert_missing_rows(_with_points(table, text_format), ragged)
    table = _with_formats(table, _head(body), text_format.delimiter)
    return Frame(table, _problems(ragged), table)


def iter_text(
    file: "IO[bytes] | ArrivingLines",
    path: Path,
    rows: int,
    column_names: Collection[str] = (),
    ready: Callable[[], int] | None = None,
) -> Iterator[Frame]:
    """Parse a text table in blocks. All columns are text, so that all blocks have one type.

    Args:
        file: The open file.
        path: Path of the file, for errors.
        rows: Number of lines of a block.
        column_names: Names that the columns may have.
        ready: Waits for lines and returns how many can be read without waiting. A block has no
            more than these.

    Yields:
        The blocks.

    Raises:
        DataError: If the file is not a table.
    """
    head = file.readlines(HEAD_BYTES)
    if head and (head[0][:2] in UTF16 or b"\n" not in head[0]):
        content = decode_text(b"".join(chain(head, file)), path)
        head = content.splitlines(keepends=True)
    text_format = _detect(decode_text(b"".join(head), path), path, column_names)
    lines = chain(head[text_format.skip :], file)
    types = dict.fromkeys(text_format.names, pa.string())
    pending = b""
    count = rows if ready is None else max(len(head) - text_format.skip, 1)
    while block := _take_lines(lines, count):
        content = _clean(pending + decode_text(block, path), text_format)
        body = _without_final_comments(content, text_format)
        pending = content[len(body) :]  # comments if nothing follows, otherwise rows
        if body:
            cells, ragged = _parse(body, text_format, path, types, [""])
            cells = _with_points(cells, text_format)
            yield Frame(
                _insert_missing_rows(cells, ragged),
                _problems(ragged),
                _insert_ragged_rows(cells, ragged, text_format.delimiter),
            )
        count = rows if ready is None else min(rows, ready())


def _with_formats(table: pa.Table, head: bytes, delimiter: str) -> pa.Table:
    """Return a table whose columns of timestamps have the format of their text as metadata."""
    if not any(map(pa.types.is_timestamp, table.schema.types)):
        return table
    rows = list(csv.reader(head.decode().splitlines(), delimiter=delimiter))
    for i, field in enumerate(table.schema):
        texts = (row[i] for row in rows if i < len(row))
        written = next(filter(None, map(iso_format, texts)), None)
        if pa.types.is_timestamp(field.type) and written:
            field = field.with_metadata({WRITTEN: written})
            table = table.set_column(i, field, table.column(i))
    return table


def _head(content: bytes) -> bytes:
    """Return the first lines: at least three, and more than a given number of bytes."""
    end = 0
    for _ in range(3):
        end = content.find(b"\n", end) + 1 or len(content)
    end = content.find(b"\n", max(end - 1, HEAD_BYTES)) + 1 or len(content)
    return content[:end]


def _detect(head: bytes, path: Path, column_names: Collection[str]) -> TextFormat:
    text = head.decode()
    if all(line[:1] in {"", "#"} for line in map(str.strip, text.splitlines())):
        raise DataError(f"{path} is empty. Add rows")
    for name, beginning in _OTHER_FORMATS.items():
        if beginning.match(text):
            raise DataError(f"{path} is not a table but {name}. Give a table of text cells")
    try:
        text_format = detect_format(text, column_names)
    except (DataError, csv.Error) as error:
        raise DataError(f"{path} is not a readable table: {error}. Check its quotes") from error
    require_names(text_format.names, path)
    return text_format


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
        more, size = [block], 0
        for line in lines:
            more.append(line)
            size += len(line)
            if line.count(b'"') % 2 or size > MAX_OPEN_BYTES:
                break
        block = b"".join(more)
    return block


def _fractions(body: bytes, text_format: TextFormat) -> dict[str, pa.DataType]:
    """Return the columns of a wide table that can only be numbers or text.

    pyarrow would infer the same types, but tries all others first.
    """
    if len(text_format.names) < WIDE:
        return {}
    cells = body[: body.find(b"\n")].decode().split(text_format.delimiter)
    fraction = re.compile(rf"[+-]?\d{{1,15}}{re.escape(text_format.decimal)}\d{{1,15}}")
    named = zip(text_format.names, cells, strict=False)
    return {name: pa.float64() for name, cell in named if fraction.fullmatch(cell)}


def _parse(
    body: bytes,
    text_format: TextFormat,
    path: Path,
    types: dict[str, pa.DataType],
    nulls: Sequence[str],
    include: Sequence[str] = (),
) -> tuple[pa.Table, list["pa.lib.InvalidRow"]]:
    """Return the rows with the right number of cells, and all other rows."""
    ragged: list[pa.lib.InvalidRow] = []
    try:
        threads = len(body) > BLOCK_BYTES  # with a single block they only cost time
        table = _read(body, text_format, types, nulls, include, ragged, threads=threads)
        if ragged:  # only a single thread counts the rows
            table = _read(body, text_format, types, nulls, include, ragged, threads=False)
    except pa.ArrowInvalid as error:
        raise DataError(f"{path} is not a readable table: {error}. Check its quotes") from error
    _require_closed_quotes(body, table, ragged, path)
    return table, ragged


def _read(
    body: bytes,
    text_format: TextFormat,
    types: dict[str, pa.DataType],
    nulls: Sequence[str],
    include: Sequence[str],
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
                include_columns=include,
                column_types=types,
                null_values=nulls,
                true_values=["true"],  # other spellings stay text, for samples
                false_values=["false"],
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


def _clean(body: bytes, text_format: TextFormat) -> bytes:
    """Return rows without surrounding spaces and lines of spaces. Ends with a line feed."""
    if text_format.delimiter == WHITESPACE:
        parts = re.split(rb'("[^"]*")', body) if b'"' in body else [body]
        parts[::2] = [re.sub(rb"[ \t]+", b" ", part) for part in parts[::2]]
        body = re.sub(rb"(?m)^ | (?=\r?$)", b"", b"".join(parts))
    elif body[:1] == b" " or b"\n " in body:
        body = re.sub(rb"(?m)^ +\r?$", b"", body)
    body = body.strip(b"\r\n")
    return body + b"\n" if body else b""


def _without_final_comments(body: bytes, text_format: TextFormat) -> bytes:
    """Remove the last lines that begin with `#` and do not have the cells of a row."""
    end, delimiter = len(body), text_format.delimiter.encode()
    while end:
        start = body.rfind(b"\n", 0, end - 1) + 1
        line = body[start:end].strip()
        is_row = line[:1] != b"#" or line.count(delimiter) + 1 == len(text_format.names)
        if line and is_row:
            break
        end = start
    return body[:end]


def _require_closed_quotes(
    body: bytes, table: pa.Table, ragged: Sequence["pa.lib.InvalidRow"], path: Path
) -> None:
    if body.count(b'"') % 2 == 0 or not table.num_rows + len(ragged):
        return
    count = table.num_rows + len(ragged)
    if ragged and ragged[-1].number == count:
        last = [ragged[-1].text]
    else:
        last = [column[-1].as_py() for column in table.columns if pa.types.is_string(column.type)]
    if any(text is not None and "\n" in text for text in last):
        long = f", or its cell has more than {MAX_OPEN_BYTES:,} bytes"
        raise DataError(
            f"{path} is not a readable table: a quote is not closed"
            f"{long if len(body) > MAX_OPEN_BYTES else ''}, at the latest in row {count:,}. Check "
            "its quotes"
        )


def _possible_codes(table: pa.Table, body: bytes, delimiter: str) -> list[str]:
    """Return the columns of integers if any cell may begin with a zero and another digit."""
    integers = [field.name for field in table.schema if pa.types.is_integer(field.type)]
    starts = np.isin(np.arange(256), [*delimiter.encode(), *b'\n" '])
    for start in range(0, len(body) if integers else 0, BLOCK_BYTES):
        part = np.frombuffer(body[max(start - 2, 0) : start + BLOCK_BYTES], np.uint8)
        zeros = (part[1:-1] == ord("0")) & (part[2:] >= ord("0")) & (part[2:] <= ord("9"))
        if (zeros & starts[part[:-2]]).any() or body[:1] == b"0":
            return integers
    return []


def _with_points(table: pa.Table, text_format: TextFormat) -> pa.Table:
    """Replace decimal commas of numbers in columns of text, such as those with bad cells."""
    if text_format.decimal != ",":
        return table
    columns = table.columns
    for i, column in enumerate(columns):
        if pa.types.is_string(column.type):
            commas = pc.match_substring_regex(column, DECIMAL_COMMA)
            points = pc.replace_substring(pc.replace_substring(column, ".", ""), ",", ".")
            columns[i] = pc.if_else(commas, points, column)
    return pa.Table.from_arrays(columns, schema=table.schema)


def _problems(ragged: Sequence["pa.lib.InvalidRow"]) -> dict[int, str]:
    return {
        row.number - 1: f"has {row.actual_columns} cells instead of {row.expected_columns}"
        for row in ragged
    }


def _insert_missing_rows(table: pa.Table, ragged: Sequence["pa.lib.InvalidRow"]) -> pa.Table:
    """Insert rows of missing cells where rows have a wrong number of cells."""
    if not ragged:
        return table
    missing = [pa.nulls(len(ragged), kind) for kind in table.schema.types]
    return _insert(table, ragged, pa.Table.from_arrays(missing, schema=table.schema))


def _insert_ragged_rows(
    table: pa.Table, ragged: Sequence["pa.lib.InvalidRow"], delimiter: str
) -> pa.Table:
    """Insert the rows with a wrong number of cells into a table of text."""
    if not ragged:
        return table
    width, rows = table.num_columns, []
    for row in ragged:
        with cells_of_any_length():
            cells = next(csv.reader([row.text], delimiter=delimiter))
        if len(cells) > width:
            cells[width - 1 :] = [delimiter.join(cells[width - 1 :])]
        rows.append(cells + [None] * (width - len(cells)))
    columns = [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
    return _insert(table, ragged, pa.Table.from_arrays(columns, schema=table.schema))


def _insert(table: pa.Table, ragged: Sequence["pa.lib.InvalidRow"], rows: pa.Table) -> pa.Table:
    """Insert rows into a table at the numbers of ragged rows."""
    count = table.num_rows + len(ragged)
    positions = np.array([row.number - 1 for row in ragged])
    order = np.empty(count, np.int64)
    order[positions] = np.arange(table.num_rows, count)
    order[np.delete(np.arange(count), positions)] = np.arange(table.num_rows)
    return pa.concat_tables([table, rows]).take(pa.array(order))
