"""Tables of mixed types: reading, the types of the columns, and numbers for a model."""

from fdsm.tables.schema.columns import (
    Categorical,
    Column,
    Constant,
    DateTime,
    Empty,
    Identifier,
    Ignored,
    Numeric,
)
from fdsm.tables.frame.reading import iter_frames, read_frame
from fdsm.tables.frame.memory import frame_from
from fdsm.tables.schema.schema import TableSchema

__all__ = [
    "Categorical",
    "Column",
    "Constant",
    "DateTime",
    "Empty",
    "Identifier",
    "Ignored",
    "Numeric",
    "TableSchema",
    "frame_from",
    "iter_frames",
    "read_frame",
]
