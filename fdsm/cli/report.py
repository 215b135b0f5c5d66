"""`fdsm report`: write the page of a trained model."""

from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from ..untrusted import InputError
from .options import Flag, ModelFolder, UsageError
from .printing import report_files


def report(
    model: ModelFolder,
    scores: Annotated[
        Positional[tuple[Path, ...]], arg(metavar="[SCORES ...]", help_behavior_hint="")
    ] = (),
    /,
    *,
    out: Path = Path("report.html"),
    title: Annotated[str, arg(help_behavior_hint="")] = "",
    json: Flag = False,
) -> None:
    """Write a page about a trained model, and about tables that it has scored.

    The page is one HTML file without links to other files.

    Args:
        model: Folder of the model, written by `fdsm train`.
        scores: Files that `fdsm score` has written. Their most unusual rows are shown.
        out: The .html file to write.
        title: Title of the page. Default: the name of the table.
        json: Print the file as JSON.

    Raises:
        UsageError: If the file to write is not a page.
        InputError: If the folder has no summary of a model.
    """
    if out.suffix != ".html":
        raise UsageError(f"the page is a .html file, but --out is {out}")
    from ..tables.report import write_page
    from ..tables.summary import read_scores, read_summary

    path = model / "summary.json"
    if not path.exists():
        raise InputError(
            f"{model} has no summary.json, which the page is made of. `fdsm train` writes one. In "
            "Python: model.save(folder, model.summarize(table, model.sample_codes(500)))"
        )
    summary = read_summary(path)
    scored = [read_scores(file, summary) for file in scores]
    write_page(out, summary, scored, title=title or f"Model of {summary.file.name}")
    report_files([out], json=json)
