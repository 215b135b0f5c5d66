"""The part of the report on a run on a table: columns, outlier scores, calibration and samples."""

from .content import TableContent, table_content
from .missing import missing_shares
from .records import ScoredRecord, TableRecord, scored_from_json, table_from_json

__all__ = [
    "ScoredRecord",
    "TableContent",
    "TableRecord",
    "missing_shares",
    "scored_from_json",
    "table_content",
    "table_from_json",
]
