"""Files and frames as one `pyarrow.Table`, and tables as files."""

from .memory import frame_from
from .reading import TEXT_SUFFIXES, table_suffix
from .table_file import TableFile, iter_table, read_table
from .text_file import Frame
from .writing import cast_text, require_replaceable, uncastable, write_frames

__all__ = [
    "TEXT_SUFFIXES",
    "Frame",
    "TableFile",
    "cast_text",
    "frame_from",
    "iter_table",
    "read_table",
    "require_replaceable",
    "table_suffix",
    "uncastable",
    "write_frames",
]
