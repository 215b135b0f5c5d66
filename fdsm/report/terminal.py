"""The tables for the terminal, with as many columns as there is room for."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .captions import caption
from .format import NOTHING, number
from .labels import BYTES, MEMORY_RATIO, PACE, RATIO, VALIDATED, rank, title
from .model import Collection, Experiment
from .studies import Study
from .tables import Column, Summary, summary

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.measure import Measurement
    from rich.table import Table
    from rich.text import Text

FIRST = (f"metric {PACE}", RATIO, "seeds")
"""Columns that are left out last, after metrics that were published."""

LAST = (f"metric {VALIDATED}", f"metric {BYTES}", MEMORY_RATIO)
"""Columns that are left out first, after those that say nothing of results."""


def terminal(collection: Collection) -> "RenderableType":
    """Return the tables of all experiments and studies for the terminal.

    Args:
        collection: What was collected.

    Returns:
        What to give to `rich.print`: a table for each, in the order of the page.
    """
    from rich.console import Group
    from rich.text import Text

    parts: list[Experiment | Study] = [*collection.experiments, *collection.studies]
    shown: list[RenderableType] = []
    for part in sorted(parts, key=lambda part: rank(part.target)):
        if len(parts) > 1 or part.target or isinstance(part, Study):
            shown.append(Text(part.name, style="bold"))
        shown.append(Numbers(part) if isinstance(part, Study) else Results(part.brief))
    return Group(*shown)


@dataclass(frozen=True)
class Results:
    """The table of an experiment; columns for which there is no room are named below it.

    Attributes:
        experiment: The runs.
    """

    experiment: Experiment

    def __rich_console__(
        self, console: "Console", options: "ConsoleOptions"
    ) -> "Iterator[RenderableType]":
        groups = self.experiment.groups
        whole = summary(groups)
        pairs = dict(whole.paired)
        kept = sorted(pairs, key=lambda column: _importance(column, pairs[column]))
        room = options.max_width
        while len(kept) > 1 and _needed(_results(whole, kept), console).minimum > room:
            kept.pop()
        shown = [column for column in pairs if column in kept]
        keys = [key for column in shown for key in (column.key, pairs[column]) if key]
        absent = "; ".join(column.title for column in pairs if column not in kept)
        yield _fitted(_results(whole, shown), console, room)
        left_out = f"No room for: {absent}." if absent else ""
        yield _remark(" ".join(filter(None, (caption(groups, keys), left_out))))


@dataclass(frozen=True)
class Numbers:
    """The table of the numbers of a study.

    Attributes:
        study: The study.
    """

    study: Study

    def __rich_console__(
        self, console: "Console", options: "ConsoleOptions"
    ) -> "Iterator[RenderableType]":
        numbers = self.study.numbers
        values = [number(one.value, one.error) for one in numbers.values()]
        table = _table({"number": [title(name) for name in numbers], "value": values})
        yield _fitted(table, console, options.max_width)
        yield _remark(self.study.shows)


def _importance(column: Column, published: str) -> int:
    if column.key.startswith("metric ") and published and column.key not in {*FIRST, *LAST}:
        return 0
    if column.key in FIRST:
        return 1
    if column.key in LAST:
        return 3
    return 2 if column.key.startswith("metric ") else 4


def _results(whole: Summary, columns: Sequence[Column]) -> "Table":
    below = {column.key: other for column, other in whole.paired}
    cells = {"method": [row.label for row in whole.rows]}
    for column in columns:
        other = below[column.key]
        head = f"{column.title}\npublished" if other else column.title
        stacked = ((row.cells[column.key], row.cells.get(other, NOTHING)) for row in whole.rows)
        cells[head] = [
            ours if theirs == NOTHING else f"{ours}\n{theirs}" for ours, theirs in stacked
        ]
    return _table(cells)


def _table(cells: "dict[str, list[str]]") -> "Table":
    """Return a table of columns that are never narrower than a cell or a word of their head."""
    from rich.box import SIMPLE
    from rich.table import Table

    table = Table(box=SIMPLE)
    for place, (head, column) in enumerate(cells.items()):
        lines = [*head.split(), *(line for cell in column for line in cell.split("\n"))]
        width = max(map(len, lines), default=0)
        table.add_column(
            _text(head),
            justify="right" if place else "left",
            overflow="fold",
            min_width=width,
        )
    for row in zip(*cells.values(), strict=True):
        table.add_row(*map(_text, row))
    return table


def _text(cell: str) -> "Text":
    """Return text of which all but the first line, which is published, is dim."""
    from rich.text import Text

    ours, newline, published = cell.partition("\n")
    return Text.assemble(ours, (newline + published, "dim"))


def _remark(caption: str) -> "Text":
    from rich.text import Text

    return Text(f"{caption}\n", style="italic dim")


def _fitted(table: "Table", console: "Console", width: int) -> "Table":
    """Return a table with heads in several lines if they have no room in one."""
    needed = _needed(table, console)
    if needed.minimum <= width < needed.maximum:
        for column in table.columns:
            column.width = column.min_width
    return table


def _needed(table: "Table", console: "Console") -> "Measurement":
    """Return the least width in which a table is whole, and that with all in one line."""
    from rich.measure import Measurement

    return Measurement.get(console, console.options.update(max_width=10_000), table)
