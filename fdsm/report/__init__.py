"""Reports on runs: tables, plots and a page, made from the files of the runs. No model is loaded.

`collection = read_folders(folders)` reads everything once. `terminal(collection)` returns tables
for the terminal, and `write_page(collection, path)` writes a self-contained HTML page.
"""

from .aggregate import Collection, Experiment, Group
from .page import write_page
from .read import read_folders
from .records import RunRecord, StudyRecord
from .render import markdown, terminal
from .tables import results_table, study_table
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
    "markdown",
    "read_folders",
    "results_table",
    "study_table",
    "terminal",
    "write_page",
]
