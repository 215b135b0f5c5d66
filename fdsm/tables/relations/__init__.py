"""Exact relations between the columns of a table: rules, sums, products, dates, times of day."""

from .kinds import Lookup, Product, Relation, Sum
from .relations import Blame, Relations
from .terms import Cell, DatePart, TimeOfDay, TimePart

__all__ = [
    "Blame",
    "Cell",
    "DatePart",
    "Lookup",
    "Product",
    "Relation",
    "Relations",
    "Sum",
    "TimeOfDay",
    "TimePart",
]
