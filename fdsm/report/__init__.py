"""Reports on runs: tables, plots and an HTML page. They read files and do not load models.

`collection = read_folders(folders)` reads everything once. `terminal(collection)` returns tables
for the terminal, and `write_page(collection, path)` writes a self-contained HTML page.
"""

from .aggregate import Collection, Experiment, Group
from .format import metric_info
from .page import write_page
from .read import read_folders
from .records import RunRecord, StudyRecord
from .render import markdown, terminal
from .tables import group_table, study_table
from .target import PublishedValue, RowInfo, TargetInfo

__all__ = [
    "Collection",
    "Experiment",
    "Group",
    "PublishedValue",
    "RowInfo",
    "RunRecord",
    "StudyRecord",
    "TargetInfo",
    "group_table",
    "markdown",
    "metric_info",
    "read_folders",
    "study_table",
    "terminal",
    "write_page",
]
