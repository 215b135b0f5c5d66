"""Cells of a column as clean text, numbers or seconds since 1970."""

from .dates import (
    FORMATS,
    INTEGER_DAY,
    ISO,
    UNITS,
    find_date_format,
    iso_format,
    seconds_of_dates,
    seconds_of_integers,
    seconds_of_text,
    times_of_text,
)
from .numbers import (
    NO_UNIT,
    Unit,
    find_unit,
    has_codes,
    numbers_of_column,
    numbers_of_text,
    parse_numbers,
)
from .text import GAPS, MISSING, DistinctText, Floats, distinct_text, is_gap, without_gaps

__all__ = [
    "FORMATS",
    "GAPS",
    "INTEGER_DAY",
    "ISO",
    "MISSING",
    "NO_UNIT",
    "UNITS",
    "DistinctText",
    "Floats",
    "Unit",
    "distinct_text",
    "find_date_format",
    "find_unit",
    "has_codes",
    "is_gap",
    "iso_format",
    "numbers_of_column",
    "numbers_of_text",
    "parse_numbers",
    "seconds_of_dates",
    "seconds_of_integers",
    "seconds_of_text",
    "times_of_text",
    "without_gaps",
]
