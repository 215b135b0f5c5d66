"""Write the page of a model.

All text is escaped, and the page loads no other files.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ...atomic_io import create_folder, replace_file
from ...extras import name_missing_extra
from ...untrusted import printable
from ..summary import ScoredFile, Summary
from . import sentences
from .labels import typeset

if TYPE_CHECKING:
    from .svg import Plot


@dataclass(frozen=True)
class Section:
    """A table with an introduction.

    Attributes:
        title: Title of the section.
        text: Sentences before the table.
        header: Names of the columns.
        rows: Cells of the rows.
        caption: How to read the table.
    """

    title: str
    text: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str


def write_page(
    path: str | Path,
    summary: Summary,
    scored: Sequence[ScoredFile] = (),
    *,
    title: str,
    introductions: Sequence[Section] = (),
) -> Path:
    """Write the page of a model as one HTML file. The same arguments give the same bytes.

    Args:
        path: The file to write.
        summary: The summary of the model.
        scored: Scores of files.
        title: Title of the page.
        introductions: Sections before those on the model.

    Returns:
        The file.

    Raises:
        ImportError: If matplotlib or jinja2 is not installed.
        IsADirectoryError: If `path` is a folder.
    """
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder. Give a file, such as {path / 'report.html'}")
    html = render_page(summary, scored, title, introductions)
    create_folder(path.parent)
    with replace_file(path) as draft:
        draft.write_bytes(html.encode())
    return path


def render_page(
    summary: Summary,
    scored: Sequence[ScoredFile],
    title: str,
    introductions: Sequence[Section] = (),
) -> str:
    """Return the page of a model as HTML."""
    with name_missing_extra("a report"):
        from jinja2 import Environment, FileSystemLoader, StrictUndefined

        from . import plots
        from .svg import svg_element

    def draw(name: str, drawn: "Sequence[Plot]") -> "list[tuple[Plot, str]]":
        return [(plot, svg_element(plot.figure, f"{name} {i}")) for i, plot in enumerate(drawn)]

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(typeset=typeset)
    correlations = summary.correlations
    html = environment.get_template("page.html.jinja").render(
        title=title,
        introductions=introductions,
        summary=summary,
        sentences=sentences,
        scored=[
            (file, draw(f"scored {index}", plots.plot_scores(summary, file)))
            for index, file in enumerate(scored)
        ],
        scores=[] if scored else draw("scores", plots.plot_scores(summary)),
        p_values=draw("p-values", [plots.plot_p_values(summary.p_values)]),
        histograms=draw("columns", [plots.plot_column(h) for h in summary.histograms]),
        correlations=draw(
            "correlations", [] if correlations is None else plots.plot_correlations(correlations)
        ),
        training=draw("training", [plots.plot_training(summary.training)]),
    )
    return "\n".join(map(printable, html.split("\n")))
