"""Tables of numbers in parquet files."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..errors import DataError
from .csv import select_columns
from .numeric_table import BadCell, NumericTable, Problem


def parse_parquet(
    content: bytes, path: Path, columns: Sequence[str] | None = None
) -> NumericTable:
    """Parse a parquet file of numbers.

    Args:
        content: Content of the file.
        path: Path of the file, for errors.
        columns: Names of the columns to read. Default: all.

    Returns:
        The table. Missing values are bad cells; columns of other types are problems.

    Raises:
        DataError: If the file is damaged.
        ImportError: If pyarrow is missing.
    """
    try:
        import pyarrow as pa  # type: ignore[import-untyped]
        from pyarrow import parquet
    except ImportError as error:
        raise ImportError("parquet files need pyarrow: pip install 'fdsm[parquet]'") from error
    try:
        with parquet.ParquetFile(pa.BufferReader(content)) as file:
            chosen, problems = select_columns(file.schema_arrow.names, columns)
            table = file.read(columns=list(chosen))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DataError(
            f"{path} is not a readable parquet file: {error}. Write or download it again"
        ) from error
    numeric = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean)
    values, bad_cells, names = [], [], []
    for name in chosen:
        column = table.column(name)
        if not any(is_type(column.type) for is_type in numeric):
            problems.append(f"column {name!r} has the type {column.type}, which is not a number")
            continue
        for row in np.flatnonzero(column.is_null().to_numpy()).tolist():
            bad_cells.append(BadCell(row, name, Problem.EMPTY, ""))
        values.append(column.cast(pa.float64(), safe=False).to_numpy())
        names.append(name)
    stacked = np.stack(values, 1) if values else np.empty((table.num_rows, 0))
    return NumericTable.checked(names, stacked, bad_cells, problems)
