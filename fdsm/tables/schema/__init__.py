"""The types of the columns of a table, and its conversion to and from numbers."""

from .columns import (
    Categorical,
    Column,
    Constant,
    DateTime,
    Empty,
    Identifier,
    Ignored,
    Numeric,
    UsedColumn,
)
from .copies import copies_sentence
from .schema import TableSchema
from .training_rows import TrainingRows, training_rows

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
    "TrainingRows",
    "UsedColumn",
    "copies_sentence",
    "training_rows",
]
