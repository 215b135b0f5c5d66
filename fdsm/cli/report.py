"""`fdsm report`: write the page of a trained model."""

from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from .options import Flag, ModelFolder
from .printing import report_files


def report(
    model: ModelFolder,
    scores: Annotated[
        Positional[tuple[Path, ...]], arg(metavar="[SCORES ...]", help_behavior_hint="")
    ] = (),
    /,
    *,
    out: Path = Path("report.html"),
    title: str = "",
    json: Flag = False,
) -> None:
    """Write a page about a trained model, and about tables that it has scored.

    The page is one HTML file without links to other files.

    Args:
        model: Folder of the model, written by `fdsm train`.
        scores: Files that `fdsm score` has written. Their most unusual rows are shown.
        out: The file to write.
        title: Title of the page. Default: the name of the table.
        json: Print the file as JSON.
    """
    from ..tables.report import write_page
    from ..tables.summary import read_scores, read_summary

    summary = read_summary(model / "summary.json")
    scored = [read_scores(path, summary) for path in scores]
    write_page(out, summary, scored, title=title or f"Model of {summary.file.name}")
    report_files([out], json=json)
