"""The rows of a table that a model is trained on."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..errors import DataError
from .copies import without_copies
from .schema import TableSchema

MIN_ROWS = 10
"""Smallest number of different rows with values that a model is trained on."""


@dataclass(frozen=True)
class TrainingRows:
    """The rows of a table that a model is trained on.

    Attributes:
        codes: Codes of the used columns, shape `(N, C)`, in random order. NaN in missing cells.
        dropped: Number of rows that were dropped because all used cells are missing.
        copies: Number of rows that were left out because they are copies of other rows.
        equal_rows: Number of rows that equal an earlier row, if that may be a mistake.
    """

    codes: npt.NDArray[np.float64]
    dropped: int
    copies: int
    equal_rows: int


def training_rows(frame: pa.Table, schema: TableSchema, seed: int = 0) -> TrainingRows:
    """Return the codes of a table in random order, without empty rows and copies.

    Args:
        frame: The table.
        schema: Types of its columns.
        seed: Random seed of the order.

    Returns:
        The rows, and the numbers of those that were left out.

    Raises:
        DataError: If no column can be used, or there are too few rows.
    """
    if frame.num_rows < MIN_ROWS:
        rows = "1 row" if frame.num_rows == 1 else f"{frame.num_rows} rows"
        raise DataError(f"{rows}, but at least {MIN_ROWS} are needed")
    if not schema.used:
        raise DataError(
            f"no column can be used: {schema.describe()}. A model needs numbers, categories or "
            "dates that vary",
            setting="columns",
        )
    codes, _ = schema.encode(frame)
    empty = np.isnan(codes).all(1)
    if dropped := int(empty.sum()):
        codes = codes[~empty]
    codes, copies, equal_rows = without_copies(codes)
    if len(codes) < MIN_ROWS:
        raise DataError(
            f"{len(codes)} different rows with values, but at least {MIN_ROWS} are needed"
        )
    order = np.random.RandomState(seed).permutation(len(codes))
    return TrainingRows(codes[order], dropped, copies, equal_rows)
