"""Information about a table or study that a report shows beside the results."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class PublishedValue:
    """A published number.

    Attributes:
        value: The number.
        error: Its published error, if there is one.
        place: Where in the publication it is.
    """

    value: float
    error: float | None
    place: str


@dataclass(frozen=True)
class RowInfo:
    """A row of a table.

    Attributes:
        baseline: Name of the row that its times and losses are compared with. Empty if none.
        published: Published numbers by metric.
    """

    baseline: str = ""
    published: Mapping[str, PublishedValue] = field(default_factory=dict)


@dataclass(frozen=True)
class TargetInfo:
    """A table or a study.

    Attributes:
        name: Name of the target.
        title: Title of its section in a report.
        rows: Its rows by name, in the order of the table. Empty for a study.
    """

    name: str
    title: str
    rows: Mapping[str, RowInfo] = field(default_factory=dict)
