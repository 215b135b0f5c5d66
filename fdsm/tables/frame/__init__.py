"""Files and frames as one `pyarrow.Table`, and tables as files."""

from .arriving import (
    ArrivingLines,
    Source,
    is_json,
    iter_arriving_json,
    iter_arriving_text,
)
from .json_file import JSON_SUFFIXES
from .memory import frame_from
from .reading import TEXT_SUFFIXES, table_suffix
from .table_file import TableFile, iter_table, read_table
from .text_file import Frame
from .writing import (
    as_text,
    cast_text,
    csv_rows,
    require_replaceable,
    uncastable,
    write_frames,
)

__all__ = [
    "JSON_SUFFIXES",
    "TEXT_SUFFIXES",
    "ArrivingLines",
    "Frame",
    "Source",
    "TableFile",
    "as_text",
    "cast_text",
    "csv_rows",
    "frame_from",
    "is_json",
    "iter_arriving_json",
    "iter_arriving_text",
    "iter_table",
    "read_table",
    "require_replaceable",
    "table_suffix",
    "uncastable",
    "write_frames",
]
