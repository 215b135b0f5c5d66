"""`python -m paper report`: write a report of runs."""

from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from fdsm.cli.printing import console, report_files

from .options import Flag, UsageError


def report(
    runs: Annotated[Positional[tuple[Path, ...]], arg(metavar="RUN", help_behavior_hint="")],
    /,
    *,
    out: Path = Path("report.html"),
    title: str = "python -m paper report",
    json: Flag = False,
) -> None:
    """Write a self-contained HTML report.

    Args:
        runs: Folders of runs, or folders that contain them.
        out: The file to write.
        title: Title of the report.
        json: Print the file as JSON.

    Raises:
        UsageError: If no folder is given.
    """
    from ..report import read_folders, terminal, write_page

    if not runs:
        raise UsageError("give at least one folder of a run")
    collection = read_folders(runs)
    write_page(collection, out, title=title)
    if not json:
        console(stderr=False).print(terminal(collection))
    report_files([out], json=json)
