"""A page of tables and figures from the files that runs leave behind; no model is loaded here."""

from .json_values import Measured, differing
from .markdown import markdown
from .model import Collection, Curve, Experiment, Group, Run
from .page import write_page
from .read import collect
from .studies import Study
from .tables import Column, Row, Summary, summary
from .terminal import terminal

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
