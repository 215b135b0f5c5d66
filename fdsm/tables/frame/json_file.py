"""JSON tables: an object in each line, or one array of objects."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

import pyarrow as pa

from ...untrusted import MAX_EXPANSION, MAX_JSON_BYTES, InputError, parse_json, quote
from ..errors import DataError
from .memory import frame_from, unknown_keys
from .text_file import Frame
from .text_format import MAX_COLUMNS, require_names

JSON_SUFFIXES = frozenset({".json", ".jsonl", ".ndjson"})
SPARSE_CELLS = 12_000_000
"""Rows may lack keys that others have, if the table has at most this number of cells, or 20 for
each cell that is given. Otherwise a small file with many different keys would be a huge table."""
EXAMPLE = '{"x": 1.5, "kind": "a"}'
"""A row, for messages."""
MAX_SHOWN = 5
"""Largest number of lines that a message lists."""
MAX_PROBLEMS = 1000
"""A table to train on is refused after this number of rows that cannot be read."""


class JsonRow(NamedTuple):
    """A row of a JSON table.

    Attributes:
        cells: The cells by the name of their column. None if the row cannot be read.
        problem: Why the row cannot be read, or an empty text.
    """

    cells: dict[str, Any]
    problem: str


def parse_line(line: bytes, number: int) -> JsonRow:
    """Return the row of a line, or its problem with the number of the line.

    Example:
        >>> parse_line(b'{"x": 1.5}', 1)
        JsonRow(cells={'x': 1.5}, problem='')
        >>> parse_line(b'{"x": 1.5', 7).problem
        "line 7 is not JSON (Expecting ',' delimiter: column 10 (char 9))"
    """
    try:
        value = _parse(line)
    except InputError as error:
        problem = str(error).removeprefix("it ").replace(": line 1 column", ": column")
        return JsonRow({}, f"line {number:,} {problem}")
    return _row(value, "line", number)


def parse_rows(file: IO[bytes], path: Path) -> Iterator[JsonRow]:
    """Yield the rows of a JSON file. Empty lines are skipped.

    Args:
        file: The open file.
        path: Path of the file, for errors.

    Yields:
        The rows. Lines that are not objects have a problem.

    Raises:
        DataError: If the file is an array that is not JSON or has more than 64 MiB.
    """
    is_first = True
    for number, line in enumerate(file, 1):
        text = line.removeprefix(b"\xef\xbb\xbf").strip()
        if is_first and text[:1] == b"[":
            yield from _array(line + file.read(MAX_JSON_BYTES), path)
            return
        if text:
            is_first = False
            yield parse_line(text, number)


def parse_json_table(file: IO[bytes], path: Path) -> pa.Table:
    """Return a JSON file as a table with types, to train on.

    Args:
        file: The open file.
        path: Path of the file, for errors.

    Returns:
        The table. Keys that a row does not have are missing cells. Lists and objects are text.

    Raises:
        DataError: If a row cannot be read, or there are no cells.
    """
    rows: list[dict[str, Any]] = []  # Python's garbage collection skips dicts of plain cells
    names: dict[str, Any] = {}
    problems: list[str] = []
    for row in parse_rows(file, path):
        rows.append(row.cells)
        names.update(row.cells)
        for name, cell in row.cells.items():
            if type(cell) not in _TEXT:
                row.cells[name] = json.dumps(cell)
        if row.problem:
            problems.append(row.problem)
            if len(problems) == MAX_PROBLEMS:
                break
    if problems:
        first = "the first " if len(problems) == MAX_PROBLEMS else ""
        more = f" and {len(problems) - MAX_SHOWN:,} more" if len(problems) > MAX_SHOWN else ""
        raise DataError(
            f"{path} cannot be used as it is: {len(problems):,} of {first}{len(rows):,} rows "
            f"cannot be read: {'; '.join(problems[:MAX_SHOWN])}{more}. Correct them"
        )
    _require_columns(names, path, "there are no rows")
    _require_given_cells(rows, names, path)
    return frame_from({name: [row.get(name) for row in rows] for name in names})


def json_names(rows: Iterable[JsonRow], path: Path) -> tuple[str, ...]:
    """Return the keys of all rows in the order in which they come first.

    Raises:
        DataError: If there are none, or too many.
    """
    names: dict[str, Any] = {}
    problem = "there are no rows"
    for row in rows:
        names.update(row.cells)
        problem = row.problem or problem
        if len(names) > MAX_COLUMNS:
            break
    _require_columns(names, path, problem)
    return tuple(names)


def text_frame(
    rows: Sequence[JsonRow], names: Sequence[str], path: Path, columns: Collection[str] = ()
) -> Frame:
    """Return a block of rows as text, so that all blocks have one type.

    Args:
        rows: The rows.
        names: The columns of the block.
        path: Path of the file, for errors.
        columns: Names that the columns may have. Those that the block lacks are missing cells. A
            row with none of them has a problem.

    Returns:
        The block.

    Raises:
        DataError: If most rows lack most columns of a large block.
    """
    _require_given_cells([row.cells for row in rows], names, path)
    ragged = {i: row.problem for i, row in enumerate(rows) if row.problem}
    for i, row in enumerate(rows):
        if columns and row.cells and row.cells.keys().isdisjoint(columns):
            ragged[i] = unknown_keys(row.cells, columns)
    original = pa.table({
        name: pa.array([_text(row.cells.get(name)) for row in rows], pa.string()) for name in names
    })
    absent = dict.fromkeys(columns, pa.nulls(len(rows), pa.string()))
    given = dict(zip(names, original.columns, strict=True))
    return Frame(pa.table(absent | given), ragged, original)


def _array(content: bytes, path: Path) -> Iterator[JsonRow]:
    if len(content) > MAX_JSON_BYTES:
        raise DataError(
            f"{path} is an array of more than {MAX_JSON_BYTES:,} bytes. Write one object per "
            "line, without brackets around them, into a .jsonl file"
        )
    try:
        values = _parse(content)
    except InputError as error:
        raise DataError(
            f"{path} cannot be read: {error}. Give an array of objects, or one object per line"
        ) from error
    yield from (_row(value, "element", number) for number, value in enumerate(values, 1))


def _parse(content: bytes) -> Any:  # ruff: ignore[any-type]
    """Return the value of a JSON document whose text can be written again."""
    value = parse_json(content)
    if b"\\u" in content:
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            raise InputError("it is not JSON (half of a pair of surrogates)") from error
    return value


def _row(value: object, what: str, number: int) -> JsonRow:
    if isinstance(value, dict):
        return JsonRow(value, "")
    return JsonRow(
        {}, f"{what} {number:,} is {quote(value)}, but must be an object such as {EXAMPLE}"
    )


def _require_columns(names: Collection[str], path: Path, problem: str) -> None:
    require_names(tuple(names), path)
    if not names:
        raise DataError(f"{path} has no cells: {problem}. Give objects such as {EXAMPLE}")


def _require_given_cells(
    rows: Sequence[Mapping[str, Any]], names: Collection[str], path: Path
) -> None:
    given = sum(map(len, rows))
    if len(rows) * len(names) > max(SPARSE_CELLS, MAX_EXPANSION * given):
        raise DataError(
            f"{path} has {len(names):,} different keys in {len(rows):,} rows, but only {given:,} "
            "cells. Give all rows the same keys"
        )


_TEXT: Mapping[type, Any] = {
    type(None): lambda cell: None,
    str: lambda cell: cell,
    bool: lambda cell: str(cell).lower(),
    int: str,
    float: lambda cell: None if cell != cell else repr(cell).removesuffix(".0"),
}
"""Text of cells that are not lists or objects. The number 5.0 has the text `5`."""


def _text(cell: object) -> str | None:
    text: str | None = _TEXT.get(type(cell), json.dumps)(cell)
    return text
