"""The columns of a table, and its conversion to and from numbers."""

import difflib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..errors import DataError
from .columns import (
    Categorical,
    Column,
    Constant,
    DateTime,
    Empty,
    Identifier,
    Ignored,
    Numeric,
    Problems,
    UsedColumn,
)
from .decoding import decode_columns
from .encoding import encode_frame
from .inference import infer_column

WRITTEN = b"written"
"""Name of the metadata of a column of timestamps with its format in a text file."""
MAX_NAMES = 12
"""Largest number of numeric columns whose names are shown."""


@dataclass(frozen=True)
class TableSchema:
    """The types of the columns of a table.

    Attributes:
        columns: The columns in the order of the table.

    Example:
        >>> import pyarrow as pa
        >>> frame = pa.table({"x": [0.5, None, 2.5, 1.0], "kind": ["a", "b", "a", "a"]})
        >>> schema = TableSchema.infer(frame)
        >>> schema.describe()
        '1 numeric (x), 1 categorical (kind)'
        >>> codes, problems = schema.encode(frame)
        >>> codes.tolist()
        [[0.5, 0.0], [nan, 1.0], [2.5, 0.0], [1.0, 0.0]]
        >>> schema.decode(codes).to_pydict() == frame.to_pydict()
        True
    """

    columns: tuple[Column, ...]

    @classmethod
    def infer(
        cls,
        frame: pa.Table,
        *,
        categorical: Sequence[str] = (),
        numeric: Sequence[str] = (),
        ignore: Sequence[str] = (),
    ) -> Self:
        """Infer the types of the columns from the values.

        Args:
            frame: The table.
            categorical: Names of columns to take as categorical.
            numeric: Names of columns to take as numeric.
            ignore: Names of columns that the model must not see.

        Returns:
            The schema.

        Raises:
            DataError: If names do not exist, are given twice or contradict each other.
        """
        _require_names(
            frame.column_names,
            {"categorical": categorical, "numeric": numeric, "ignore": ignore},
        )
        inferred: list[Column] = []
        for name, values in zip(frame.column_names, frame.columns, strict=True):
            if name in ignore:
                inferred.append(Ignored(name, str(values.type), missing=values.null_count))
                continue
            column = infer_column(
                name, values, categorical=name in categorical, numeric=name in numeric
            )
            metadata = frame.schema.field(name).metadata or {}
            if isinstance(column, DateTime) and WRITTEN in metadata:
                column = replace(column, written=metadata[WRITTEN].decode())
            inferred.append(column)
        return cls(tuple(inferred))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all columns."""
        return tuple(column.name for column in self.columns)

    @property
    def used(self) -> tuple[UsedColumn, ...]:
        """The columns that the model sees, in the order of the codes."""
        return tuple(c for c in self.columns if isinstance(c, UsedColumn))

    @property
    def num_levels(self) -> tuple[int, ...]:
        """Number of categories of each used column. 0 for numbers and dates."""
        return tuple(len(c.levels) if isinstance(c, Categorical) else 0 for c in self.used)

    def encode(self, frame: pa.Table) -> tuple[npt.NDArray[np.float64], Problems]:
        """Convert a table to numbers.

        Columns are found by name, in any order and among other columns. If only one of the two
        tables has a header, they are found by position.

        Args:
            frame: The table.

        Returns:
            The codes, shape `(N, C)` for `C` used columns, and the problems of the rows. A code is
            the number itself, the index of the category, or the seconds since 1970. It is NaN if
            the cell is missing or has a problem. Problems are unreadable numbers and dates,
            unknown categories, and new values in constant columns.

        Raises:
            DataError: If used columns are missing or have another type.
        """
        return encode_frame(self.columns, self.used, frame)

    def decode(self, codes: npt.NDArray[np.float64]) -> pa.Table:
        """Convert numbers, for example samples, to a table like the training data.

        Args:
            codes: Codes of the used columns, shape `(N, C)`.

        Returns:
            A table with all columns. Numbers are rounded to integers or levels where the column
            has them. Constants are repeated. NaN becomes a missing cell. Cells of columns that the
            model does not see are missing.

        Raises:
            ValueError: If the codes have another number of columns.
        """
        if codes.ndim != 2 or codes.shape[1] != len(self.used):
            raise ValueError(
                f"codes must have shape (N, {len(self.used)}), but have shape {codes.shape}"
            )
        return decode_columns(self.columns, codes)

    def describe(self) -> str:
        """Return the number of columns of each type as one line of text."""
        parts = []
        if numbers := self._names_of(Numeric):
            few = len(numbers) <= MAX_NAMES
            parts.append(
                f"{len(numbers):,} numeric{_list(numbers, MAX_NAMES) if few else ' columns'}"
            )
        for kind, text in _KINDS.items():
            if names := self._names_of(kind):
                parts.append(f"{len(names):,} {text}{_list(names)}")
        reasons = [
            f"{c.name}: {c.reason}" for c in self.columns if isinstance(c, Identifier | Ignored)
        ]
        if reasons:
            parts.append(f"{len(reasons):,} ignored{_list(reasons)}")
        return ", ".join(parts)

    def summary(self) -> list[tuple[str, str, str, int]]:
        """Return the name, the type, the details and the missing cells of each column."""
        return [(c.name, type(c).__name__, details(c), _missing(c)) for c in self.columns]

    def _names_of(self, kind: type[Column]) -> list[str]:
        return [c.name for c in self.columns if isinstance(c, kind)]


_KINDS: dict[type[Column], str] = {
    Categorical: "categorical",
    DateTime: "date",
    Constant: "constant",
    Empty: "empty",
}


def details(column: Column) -> str:
    """Return a description of a column for people.

    Args:
        column: The column.

    Returns:
        The levels, the range of dates, the reason or the value, depending on the type.

    Example:
        >>> details(Categorical("c", "string", ("red", "blue")))
        '2 categories: red, blue'
    """
    match column:
        case Numeric():
            return _number_details(column)
        case Categorical():
            shown = ", ".join(column.levels[:5]) + (", …" if len(column.levels) > 5 else "")
            merged = f" ({column.merged:,} rare ones merged)" if column.merged else ""
            return f"{len(column.levels)} categories{merged}: {shown}"
        case DateTime():
            shown = column.format or f"to the {column.resolution or 'microsecond'}"
            return ", ".join([shown, *_unreadable(column.unreadable, "dates")])
        case Constant():
            share = 100 * column.missing / max(column.rows, 1)
            return f"always {column.value}" + (f", {share:.3g} % missing" if share else "")
        case Identifier() | Ignored():
            return column.reason
        case Empty():
            return "all cells are missing"


def _number_details(column: Numeric) -> str:
    parts = ["integer"] if column.integer else []
    if unit := f"{column.prefix}{column.suffix}".strip():
        parts.append(f"unit {unit}")
    if column.levels is not None:
        parts.append(f"{len(column.levels)} levels")
    return ", ".join(parts + _unreadable(column.unreadable, "numbers"))


def _unreadable(count: int, what: str) -> list[str]:
    return [f"{count:,} cells are not {what}"] if count else []


def _missing(column: Column) -> int:
    return 0 if isinstance(column, Identifier) else column.missing


def _list(names: Sequence[str], most: int = 5) -> str:
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return f" ({', '.join(names[:most])}{more})"


def _require_names(existing: Sequence[str], given: dict[str, Sequence[str]]) -> None:
    """Raise `DataError` with all names that do not exist, are repeated or contradict others."""
    problems = [f"{o}: {text}" for o, names in given.items() for text in _unknown(existing, names)]
    for first, second in combinations(given, 2):
        for name in sorted(set(given[first]) & set(given[second])):
            problems.append(f"column {name!r} is given as {first} and as {second}")
    if problems:
        shown = ", ".join(map(repr, existing[:20])) + (", …" if len(existing) > 20 else "")
        lines = "".join(f"\n- {line}" for line in problems)
        raise DataError(
            f"the columns cannot be selected:{lines}\nThe table has {shown}", setting="columns"
        )


def _unknown(columns: Sequence[str], names: Sequence[str]) -> Iterator[str]:
    existing = set(columns)
    for name, count in Counter(names).items():
        if name not in existing:
            close = difflib.get_close_matches(name, columns, 1)
            yield f"there is no column {name!r}" + (
                f". Did you mean {close[0]!r}?" if close else ""
            )
        if count > 1:
            yield f"column {name!r} is given more than once"
