"""The tables for the terminal."""

from typing import TYPE_CHECKING

from .numbers import NOTHING, number
from .runs import Collection, Experiment
from .studies import Study
from .tables import PAGE_ONLY, summary
from .titles import rank, title

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text


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
        if len(parts) > 1 or isinstance(part, Study):
            shown.append(Text(part.name, style="bold"))
        table, caption = _numbers(part) if isinstance(part, Study) else _results(part)
        shown += [table, Text(f"{caption}\n", style="italic dim")]
    return Group(*shown)


def _results(experiment: Experiment) -> "tuple[Table, str]":
    from rich.text import Text

    whole = summary(experiment.groups)
    columns = [(column, below) for column, below in whole.paired if column.key not in PAGE_ONLY]
    heads = (_stacked(column.title, "published" if below else "") for column, below in columns)
    table = _table("method", *heads)
    for row in whole.rows:
        cells = (_stacked(row.cells[one.key], row.cells.get(below, "")) for one, below in columns)
        table.add_row(Text(row.label), *cells)
    return table, whole.caption


def _stacked(ours: str, published: str) -> "Text":
    from rich.text import Text

    below = ("\n" + published, "dim") if published not in {"", NOTHING} else ""
    return Text.assemble(ours, below)


def _numbers(study: Study) -> "tuple[Table, str]":
    from rich.text import Text

    table = _table("number", Text("value"))
    for name, one in study.numbers.items():
        table.add_row(Text(title(name)), Text(number(one.value, one.error)))
    return table, study.shows


def _table(first: str, *others: "Text") -> "Table":
    from rich.box import SIMPLE
    from rich.table import Table

    table = Table(box=SIMPLE)
    table.add_column(first)
    for other in others:
        table.add_column(other, justify="right")
    return table
