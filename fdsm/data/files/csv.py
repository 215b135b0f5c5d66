"""Tables of numbers in text files."""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..errors import DataError
from .numeric_table import BadCell, NumericTable, Problem, list_names

DELIMITERS = (";", "\t", ",")
"""Possible delimiters in order of precedence. The comma is last: it may be a decimal comma."""

_NUMBER = r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"
_DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?")
_THOUSANDS = re.compile(r"[+-]?\d{1,3}([ '_,.\u00a0\u2009\u202f]\d{3})+([.,]\d+)?")
_UNIT = re.compile(rf"[^\d\s.,+-]{{0,3}}\s?{_NUMBER}\s?[^\d\s.,+-]{{0,5}}")


def parse_csv(content: bytes, path: Path, columns: Sequence[str] | None = None) -> NumericTable:
    """Parse a text file of numbers.

    The delimiter is a semicolon, a tab or a comma: the first of these that is in the first line.
    This line has the names of the columns if none of its cells is a number. Decimal commas are
    read if the delimiter is not a comma and no number has a decimal point.

    Args:
        content: Content of the file.
        path: Path of the file, for errors.
        columns: Names of the columns to read. Default: all.

    Returns:
        The table, with all cells that are not numbers as bad cells.

    Raises:
        DataError: If the file is not text, or is empty.
    """
    lines = _decode(content, path)
    delimiter = next((d for d in DELIMITERS if d in lines[0]), ",")
    reader = csv.reader(lines, delimiter=delimiter)
    first = [cell.strip() for cell in next(reader)]
    has_header = all(
        _to_number(cell) is None and not _DECIMAL_COMMA.fullmatch(cell) for cell in first
    )
    names = first if has_header else [str(i) for i in range(len(first))]
    body = lines[reader.line_num :] if has_header else lines
    if not body:
        raise DataError(f"{path} has a header but no rows. Add rows")
    chosen, problems = select_columns(names, columns)
    text = _Text(body, delimiter, len(names), tuple(chosen.values()), tuple(chosen))
    try:
        values, bad_cells = text.parse()
    except csv.Error as error:
        raise DataError(f"{path} is not a readable table: {error}. Check its quotes") from error
    return NumericTable.checked(tuple(chosen), values, bad_cells, problems)


def select_columns(
    names: Sequence[str], columns: Sequence[str] | None
) -> tuple[dict[str, int], list[str]]:
    """Find columns by name.

    Args:
        names: Names of all columns of a file.
        columns: Names of the columns to read. Default: all.

    Returns:
        The position of each column that exists once, and the problems of the others.
    """
    wanted = list(names if columns is None else columns)
    counts, positions = Counter(names), {name: i for i, name in enumerate(names)}
    missing = [name for name in wanted if name not in counts]
    selected = Counter(wanted)
    repeated = [name for name in selected if max(counts[name], selected[name]) > 1]
    problems = []
    if missing or not wanted:
        problems.append(
            f"no {list_names(missing) if missing else 'columns are selected'}; the file has "
            f"{list_names(names)}"
        )
    if repeated:
        problems.append(f"{list_names(repeated)} occurs more than once: rename or remove one")
    return {name: positions[name] for name in wanted if counts[name] == 1}, problems


@dataclass(frozen=True)
class _Text:
    """Lines of text with cells between delimiters.

    Attributes:
        lines: The lines without the header.
        delimiter: The delimiter.
        width: Number of cells that each row must have.
        positions: Positions of the cells to read.
        columns: Names of the cells to read.
    """

    lines: list[str]
    delimiter: str
    width: int
    positions: tuple[int, ...]
    columns: tuple[str, ...]

    def parse(self) -> tuple[npt.NDArray[np.float64], list[BadCell]]:
        """Return the numbers, shape `(N, D)`, with NaN for bad cells, and the bad cells."""
        if not self.positions or any(len(cells) != self.width for cells in self._rows()):
            return self._parse_cells(self._has_decimal_commas())
        try:
            return self._parse_numbers(self.lines), []
        except ValueError:  # a decimal comma, or a bad cell
            decimal_comma = self._has_decimal_commas()
        if decimal_comma:
            with suppress(ValueError):
                return self._parse_numbers([line.replace(",", ".") for line in self.lines]), []
        return self._parse_cells(decimal_comma)

    def _parse_numbers(self, lines: list[str]) -> npt.NDArray[np.float64]:
        return np.loadtxt(
            lines,
            delimiter=self.delimiter,
            usecols=self.positions,
            ndmin=2,
            comments=None,
            quotechar='"',
        )

    def _parse_cells(self, decimal_comma: bool) -> tuple[npt.NDArray[np.float64], list[BadCell]]:
        """Parse cell by cell, which is slower than `numpy.loadtxt` but finds every bad cell."""
        wanted = list(enumerate(self.positions))
        rows, bad = [], []
        for row, cells in enumerate(self._rows()):
            values = np.full(len(wanted), np.nan)
            rows.append(values)
            if len(cells) != self.width:
                found = f"{len(cells)} instead of {self.width}"
                bad.append(BadCell(row, None, Problem.WRONG_LENGTH, found))
                continue
            for i, position in wanted:
                text = cells[position].strip()
                if decimal_comma and "," in text and _DECIMAL_COMMA.fullmatch(text):
                    values[i] = float(text.replace(",", "."))
                elif (value := _to_number(text)) is not None:
                    values[i] = value
                else:
                    bad.append(BadCell(row, self.columns[i], _classify(text), text))
        return np.stack(rows), bad

    def _has_decimal_commas(self) -> bool:
        """Return whether numbers have decimal commas, and none has a point or two commas."""
        if self.delimiter == ",":
            return False
        found = False
        for cells in self._rows():
            for position in self.positions:
                text = cells[position].strip() if position < len(cells) else ""
                if "," in text and _DECIMAL_COMMA.fullmatch(text):
                    found = True
                elif ("." in text and _to_number(text) is not None) or (
                    text.count(",") > 1 and _THOUSANDS.fullmatch(text)
                ):
                    return False
        return found

    def _rows(self) -> Iterator[list[str]]:
        return csv.reader(self.lines, delimiter=self.delimiter)


def _decode(content: bytes, path: Path) -> list[str]:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not a UTF-8 text file: {error}. Save it as UTF-8") from error
    lines = [line for line in io.StringIO(text, newline=None) if line.strip()]
    if not lines:
        raise DataError(f"{path} is empty. Add rows of numbers")
    return lines


def _to_number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return None if "_" in text else value  # float reads "1_000", but numpy.loadtxt does not


def _classify(text: str) -> Problem:
    if not text:
        return Problem.EMPTY
    if _THOUSANDS.fullmatch(text):
        return Problem.THOUSANDS
    if _DECIMAL_COMMA.fullmatch(text):
        return Problem.DECIMAL_COMMA
    return Problem.UNIT if _UNIT.fullmatch(text) else Problem.NOT_A_NUMBER
