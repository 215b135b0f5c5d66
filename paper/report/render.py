"""Tables in the terminal and in Markdown, and documents made from templates."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from fdsm.extras import name_missing_extra

from .aggregate import Collection, Experiment
from .format import DASH, typeset
from .records import StudyRecord
from .tables import Table, comparison_table, main_results, study_table

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text


def terminal(collection: Collection) -> "RenderableType":
    """Return the main results of all runs and studies for the terminal.

    Args:
        collection: The runs and studies.

    Returns:
        An object to give to `rich.print`.
    """
    with name_missing_extra("a table in the terminal"):
        from rich.console import Group as RichGroup

    shown: list[RenderableType] = []
    for section in collection.sections:
        shown.append(_text(section.title, "bold"))
        shown += _study(section) if isinstance(section, StudyRecord) else _experiment(section)
    return RichGroup(*shown)


def markdown(table: Table) -> str:
    r"""Return a table and its caption in GitHub's Markdown.

    Args:
        table: The table. Published numbers get columns of their own.

    Returns:
        The text.

    Example:
        >>> from paper.report.tables import Column, build_table
        >>> nll = Column("nll", "NLL", str)
        >>> print(markdown(build_table("method", [nll], [("FD-DSM*", "-1.5 ± 0.2")])))
        | method | NLL |
        | :-- | --: |
        | FD-DSM\* | −1.5 ± 0.2 |
    """
    heads, cells = [table.first], [[row.label] for row in table.rows]
    for column in table.columns:
        if table.has_values(column):
            heads.append(column.heading)
            for line, row in zip(cells, table.rows, strict=True):
                line.append(typeset(row.cells[column.key].text))
        if table.has_published(column):
            heads.append(f"{column.heading}, published")
            for line, row in zip(cells, table.rows, strict=True):
                line.append(typeset(row.cells[column.key].published))
    lines = [[escape(head) for head in heads], [":--", *["--:"] * (len(heads) - 1)]]
    lines += [[escape(cell) for cell in line] for line in cells]
    body = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"{body}\n\n{escape(table.caption)}" if table.caption else body


def render_template(template: Path, functions: Mapping[str, object]) -> str:
    """Return the Markdown document that a jinja template makes.

    Args:
        template: The template.
        functions: What the template can call, by name.

    Returns:
        The document.
    """
    with name_missing_extra("a document"):
        from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(template.parent),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
    )
    return environment.get_template(template.name).render(functions)


def escape(text: str) -> str:
    """Escape the characters that have a meaning in Markdown."""
    for sign in "\\|*_<>`[]":
        text = text.replace(sign, f"\\{sign}")
    return text


def _experiment(experiment: Experiment) -> "list[RenderableType]":
    shown: list[RenderableType] = []
    if experiment.target or len(experiment.groups) > 1:
        shown += _with_legend(main_results(experiment.groups))
    if not experiment.target:
        for group in experiment.groups:
            facts = "".join(f"\n  {k}: {v}" for k, v in group.first.description.items())
            shown += [_text(group.label + facts), *_with_legend(comparison_table(group))]
    for group in experiment.groups:
        shown += [
            _text(f"Warning: {group.label}: {problem}", "bold yellow")
            for problem in group.problems
        ]
    return shown


def _study(study: StudyRecord) -> "list[RenderableType]":
    table = study_table(study)  # without values if all of them are missing
    return [_rich(table.select([c.key for c in table.columns if c.key == "value"]))]


def _with_legend(table: Table) -> "list[RenderableType]":
    lines = [*(f"{heading}: {meaning}" for heading, meaning in table.legend), table.caption]
    return [_rich(table), _text("\n".join(filter(None, lines)) + "\n", "dim")]


def _rich(table: Table) -> "RenderableType":
    from rich.box import SIMPLE
    from rich.table import Table as RichTable

    shown = RichTable(box=SIMPLE)
    shown.add_column(_text(table.first), overflow="fold")
    for column in table.columns:
        published = "published" if table.has_published(column) else DASH
        cells = [row.cells[column.key] for row in table.rows]
        lines = [line for cell in cells for line in (cell.text, cell.published)]
        width = max(map(len, [*lines, *column.heading.split()]))
        shown.add_column(
            _stack(column.heading, published), justify="right", overflow="fold", min_width=width
        )
    for row in table.rows:
        cells = [row.cells[column.key] for column in table.columns]
        shown.add_row(_text(row.label), *(_stack(cell.text, cell.published) for cell in cells))
    return shown


def _stack(ours: str, published: str) -> "Text":
    """Return our number with the published one below it."""
    from rich.text import Text

    return Text(ours) if published == DASH else Text.assemble(ours, (f"\n{published}", "dim"))


def _text(plain: str, style: str = "") -> "Text":
    from rich.text import Text

    return Text(plain, style=style)
