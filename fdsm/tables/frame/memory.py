"""Take tables that are in memory as `pyarrow.Table`."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ...untrusted import quote
from ..errors import DataError
from .plain_types import plain_types
from .text_format import positions, require_names

_NOT_A_TABLE = (
    "is not a table. Give a pandas, polars or pyarrow table, a list of dictionaries, a dictionary "
    "of columns, or an array of shape (N, C)"
)
MAX_SHOWN = 5
"""Largest number of names that a message lists."""


@runtime_checkable
class _Lazy(Protocol):
    """A table that is not computed yet, such as a polars `LazyFrame`."""

    def collect(self) -> object:
        """Compute the table."""
        ...


@runtime_checkable
class _HasColumns(Protocol):
    """A table whose columns are found by name, such as a pandas `DataFrame`."""

    @property
    def columns(self) -> Any:  # ruff: ignore[any-type]
        """Names of the columns."""
        ...

    def __getitem__(self, name: object) -> Any: ...  # ruff: ignore[any-type]


def frame_from(table: object, columns: Collection[str] = ()) -> pa.Table:
    """Return a table in memory as `pyarrow.Table`.

    Args:
        table: A pandas, polars or pyarrow table; any object with `__arrow_c_stream__` or
            `__dataframe__`; a list of rows, each a dictionary; a dictionary of columns; or an
            array `(N, C)`, whose columns are called `"0"`, `"1"` and so on.
        columns: Names that the keys of rows may have. Those that all rows lack are added.

    Returns:
        The table. The index of a pandas table is left out. A column that mixes types is text. A
        key that a row does not have is a missing cell.

    Raises:
        DataError: If the object is not a table, two columns have the same name, or rows have none
            of `columns`.

    Example:
        >>> frame_from({"x": [1.5, None], "kind": ["a", "b"]}).column_names
        ['x', 'kind']
        >>> frame_from([{"x": 1.5, "kind": "a"}, {"kind": "b"}]).to_pydict()
        {'x': [1.5, None], 'kind': ['a', 'b']}
    """
    if isinstance(table, Sequence) and any(isinstance(row, Mapping) for row in table):
        frame = _from_rows(table, columns)
    else:
        frame = _convert(table)
    require_names(frame.column_names, "the table")
    return plain_types(frame)


def _convert(table: object) -> pa.Table:
    if isinstance(table, pa.Table):
        return table
    if isinstance(table, Mapping):
        return _from_columns({str(name): values for name, values in table.items()})
    if hasattr(table, "__arrow_c_stream__"):
        try:
            return _without_index(pa.table(table))
        except (ValueError, TypeError, OverflowError, NotImplementedError) as error:
            # A column mixes types or is sparse, or a name is repeated.
            if not isinstance(table, _HasColumns):
                raise DataError(f"a {type(table).__name__} {_NOT_A_TABLE}") from error
            require_names([str(name) for name in table.columns], "the table")
            return _from_columns({str(name): table[name] for name in table.columns})
    if hasattr(table, "__dataframe__"):
        from pyarrow.interchange import from_dataframe

        return from_dataframe(table)
    if isinstance(table, _Lazy):
        raise DataError(
            f"a {type(table).__name__} has no rows yet. Give the table that its collect() returns"
        )
    return _from_array(np.asarray(table), type(table).__name__)


def unknown_keys(keys: Collection[str], columns: Collection[str]) -> str:
    """Return the error message for rows that have none of the columns of a model."""
    shown = [", ".join(map(quote, list(names)[:MAX_SHOWN])) for names in (keys, columns)]
    return f"has the keys {shown[0]}, but none of the columns {shown[1]}"


def _from_rows(rows: Sequence[Mapping[str, object]], columns: Collection[str]) -> pa.Table:
    for i, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise DataError(
                f"row {i + 1:,} is a {type(row).__name__}, but others are dictionaries"
            )
    names = dict.fromkeys(name for row in rows for name in row)
    if columns and names and set(map(str, names)).isdisjoint(columns):
        raise DataError(f"the list of rows {unknown_keys(list(map(str, names)), columns)}")
    absent = dict.fromkeys(columns, [None] * len(rows))
    return _from_columns(absent | {str(n): [row.get(n) for row in rows] for n in names})


def _from_columns(columns: Mapping[str, object]) -> pa.Table:
    arrays = {name: _to_array(name, values) for name, values in columns.items()}
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name!r} {n:,}" for name, n in list(lengths.items())[:5])
        more = f" and {len(lengths) - 5:,} more" if len(lengths) > 5 else ""
        raise DataError(
            f"the columns have different numbers of rows: {shown}{more}. Give "
            "columns of the same length"
        )
    return pa.table(arrays)


def _to_array(name: str, values: Any) -> pa.Array:  # ruff: ignore[any-type]
    if isinstance(values, str | bytes | Mapping) or not hasattr(values, "__iter__"):
        raise DataError(
            f"column {name!r} has the type {type(values).__name__}, but must be a list or an "
            "array of cells. Put a dictionary that is a row into a list: [row]"
        )
    try:
        return pa.array(values, from_pandas=True)
    except (ValueError, TypeError, OverflowError, NotImplementedError):
        cells = np.asarray(values) if hasattr(values, "__array__") else values
    kind = cells.dtype.kind if isinstance(cells, np.ndarray) else "O"
    if kind == "c":
        raise DataError(
            f"column {name!r} has complex numbers. Give the real and the imaginary part as two "
            "columns"
        )
    if kind == "f":  # a sparse column, or more digits than float64
        return pa.array(cells.astype(np.float64), from_pandas=True)
    return pa.array([None if v is None or v != v else str(v) for v in cells], pa.string())


def _from_array(array: npt.NDArray[Any], given: str) -> pa.Table:
    if array.ndim != 2 or array.dtype.kind not in "biufUSOM":
        raise DataError(f"a {given} of shape {array.shape} and type {array.dtype} {_NOT_A_TABLE}")
    values = array.astype(str) if array.dtype.kind == "S" else array
    return _from_columns(dict(zip(positions(array.shape[1]), values.T, strict=True)))


def _without_index(frame: pa.Table) -> pa.Table:
    metadata = frame.schema.pandas_metadata or {}
    index = [name for name in metadata.get("index_columns", []) if isinstance(name, str)]
    return frame.drop_columns([name for name in index if name in frame.column_names])
