"""A page of tables and figures from the files that runs leave behind; no model is loaded here."""

from .collect import collect
from .page import write_page
from .runs import Collection, Curve, Experiment, Group, Measured, Run, differing
from .tables import Column, Row, Summary, summary, terminal

__all__ = [
    "Collection",
    "Column",
    "Curve",
    "Experiment",
    "Group",
    "Measured",
    "Row",
    "Run",
    "Summary",
    "collect",
    "differing",
    "summary",
    "terminal",
    "write_page",
]
