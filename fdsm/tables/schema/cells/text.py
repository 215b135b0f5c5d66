"""Cells of a column as clean text."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Floats = npt.NDArray[np.float64]

MISSING = (
    "", "NA", "N/A", "n/a", "NaN", "nan", "NaT", "null", "NULL", "None", "?", "-", ".", "#N/A",
    "#NA", "#NV", "<NA>",
)  # fmt: skip
"""Texts that mean a missing cell, as the whole content of the cell."""

GAPS = (
    *dict.fromkeys(text.lower() for text in MISSING), "n.a.", "none", "nil", "missing", "--",
    "---", "..", "#value!", "#div/0!", "#num!", "#ref!", "#name?", "#null!",
)  # fmt: skip
"""Texts in lower case that mean a missing cell in a column of numbers or dates, in any case."""

_MISSING = pa.array(MISSING, pa.large_string())
_GAPS = pa.array(GAPS, pa.large_string())


class DistinctText(NamedTuple):
    """The distinct texts of a column.

    Attributes:
        values: The distinct texts, without missing ones.
        indices: The position of the text of each row in `values`, shape `(N,)`. -1 if the cell is
            missing.
    """

    values: pa.Array
    indices: npt.NDArray[np.int64]

    def counts(self) -> npt.NDArray[np.int64]:
        """Return the number of cells with each text."""
        return np.bincount(self.indices[self.indices >= 0], minlength=len(self.values))

    def spread(self, per_value: Floats) -> Floats:
        """Return the number of each row from the number of each text. NaN for missing cells."""
        return np.append(per_value, np.nan)[self.indices]


def distinct_text(column: pa.ChunkedArray) -> DistinctText:
    """Return the distinct texts of a column, without surrounding spaces and missing markers."""
    encoded = _combined(as_large_text(column)).dictionary_encode()
    trimmed = pc.utf8_trim_whitespace(encoded.dictionary)
    missing = pc.is_in(trimmed, value_set=_MISSING)
    cleaned = pc.if_else(missing, None, trimmed).dictionary_encode()
    inner = np.append(cleaned.indices.fill_null(-1).to_numpy(), -1).astype(np.int64)
    outer = encoded.indices.fill_null(-1).to_numpy()
    return DistinctText(cleaned.dictionary, inner[outer])


def is_gap(values: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return which texts mean a missing cell in a column of numbers or dates."""
    trimmed = pc.utf8_lower(pc.utf8_trim_whitespace(values))
    return pc.is_in(trimmed, value_set=_GAPS.cast(trimmed.type))


def without_gaps(distinct: DistinctText) -> DistinctText:
    """Return distinct texts in which a text such as `none` is a missing cell."""
    gaps = is_gap(distinct.values).to_numpy(zero_copy_only=False)
    if not gaps.any():
        return distinct
    new_indices = np.append(np.where(gaps, -1, np.cumsum(~gaps) - 1), -1)
    return DistinctText(distinct.values.filter(pa.array(~gaps)), new_indices[distinct.indices])


def as_large_text(column: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    """Return a column of text, also in a dictionary, as long text."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.cast(pa.large_string())


def _combined(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
