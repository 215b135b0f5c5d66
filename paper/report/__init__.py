"""Reports on runs: tables, plots and an HTML page. They read files and do not load models.

`collection = read_folders(folders)` reads everything once. `terminal(collection)` returns tables
for the terminal, and `write_page(collection, path)` writes a self-contained HTML page.
"""

from .aggregate import Collection, Experiment, Group, deviation_name, mean_of_numbers
from .figure import Line, Panel
from .format import format_duration, format_published, format_ratio, metric_info, typeset
from .page import period, write_page
from .read import read_folders
from .records import MEMORY, STEP_TIME, RunRecord, StudyRecord
from .render import escape, markdown, render_template, terminal
from .tables import ONE_SEED, format_mean, group_table, study_table
from .target import PublishedValue, RowInfo, TargetInfo

__all__ = [
    "MEMORY",
    "ONE_SEED",
    "STEP_TIME",
    "Collection",
    "Experiment",
    "Group",
    "Line",
    "Panel",
    "PublishedValue",
    "RowInfo",
    "RunRecord",
    "StudyRecord",
    "TargetInfo",
    "deviation_name",
    "escape",
    "format_duration",
    "format_mean",
    "format_published",
    "format_ratio",
    "group_table",
    "markdown",
    "mean_of_numbers",
    "metric_info",
    "period",
    "read_folders",
    "render_template",
    "study_table",
    "terminal",
    "typeset",
    "write_page",
]
