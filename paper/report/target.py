"""Descriptions of tables and figures with published results, given to the report as values.

The report does not depend on any paper. To compare with published numbers, describe them with
these classes and pass them to `read_folders`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class PublishedValue:
    """A published number.

    Attributes:
        value: The number.
        error: Its published error, or `None` if there is none.
        place: Where it was published, such as `"Table 3"`.
    """

    value: float
    error: float | None
    place: str


@dataclass(frozen=True)
class RowInfo:
    """A row of a table.

    Attributes:
        baseline: Name of the row that its times and losses are compared with. Empty if there is
            none.
        published: Published numbers by the name of their metric.
    """

    baseline: str = ""
    published: Mapping[str, PublishedValue] = field(default_factory=dict)


@dataclass(frozen=True)
class TargetInfo:
    """A table or figure to compare results with.

    Attributes:
        name: Name of the target, as runs record it in `origin.target`.
        title: Title in reports.
        rows: Rows by name, in the order in which they are shown. Empty for a study.
    """

    name: str
    title: str
    rows: Mapping[str, RowInfo] = field(default_factory=dict)
