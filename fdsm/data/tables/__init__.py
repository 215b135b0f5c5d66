"""Tables of mixed types: reading, the types of the columns, and numbers for a model."""

from .columns import (
    Categorical,
    Column,
    Constant,
    DateTime,
    Empty,
    Identifier,
    Ignored,
    Numeric,
)
from .frame import iter_frames, read_frame
from .memory import frame_from
from .schema import TableSchema

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
