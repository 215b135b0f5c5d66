"""A page of tables and figures from the files that runs leave behind; no model is loaded here."""

from .collect import collect
from .markdown import markdown
from .page import write_page
from .runs import Collection, Curve, Experiment, Group, Run
from .studies import Study
from .tables import Column, Row, Summary, summary
from .terminal import terminal
from .values import Measured, differing

__all__ = [
    "Collection",
    "Column",
    "Curve",
    "Experiment",
    "Group",
    "Measured",
    "Row",
    "Run",
    "Study",
    "Summary",
    "collect",
    "differing",
    "markdown",
    "summary",
    "terminal",
    "write_page",
]
