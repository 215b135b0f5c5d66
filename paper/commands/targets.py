"""Reproduce tables and figures of the paper: `python -m paper table2`."""

import argparse
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from fdsm.cli.printing import console, log, print_json, progress, report_files
from fdsm.untrusted import InputError

from ..catalogue import DEMOS, TARGETS, Target, UnknownTargetError, target, target_infos
from ..lock import BusyError
from ..report import format_duration, read_folders, terminal, write_page
from ..reproduce import reproduce
from ..run_store import RunStore
from ..runs import RunError, TrainingInterrupted

DESCRIPTION = """Reproduce a table or figure of the paper and compare it with the published
numbers. Finished rows are kept; only missing rows are run. If interrupted, run the same command
again. Prints a table and writes an HTML report. Without a name, the available ones are listed.
To train a recipe on other data, see `python -m paper train --help`; `sample`, `evaluate`, `check`
and `report` use the folder that it writes."""

RESULTS = Path(__file__).parents[1] / "results"
"""Folder of the committed results."""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(prog="python -m paper", description=DESCRIPTION)
    option = parser.add_argument
    option("name", nargs="?", default="", metavar="NAME", help="The table or figure, or `all`.")
    option(
        "--row",
        action="append",
        default=[],
        metavar="ROW",
        dest="rows",
        help="Run only this row, for example --row FD-SSM. May be repeated.",
    )
    option(
        "--scale",
        choices=("cpu", "paper"),
        default="cpu",
        help="cpu: reduced settings for two cores; paper: the published settings. Default: cpu.",
    )
    option(
        "--seeds",
        type=_positive,
        metavar="N",
        help="Number of seeds for every row. Default: that of the table.",
    )
    option(
        "--out",
        type=Path,
        metavar="FOLDER",
        help="Folder of the runs. Default: runs/reproduction, or runs/reproduction-paper.",
    )
    option(
        "--no-resume",
        action="store_true",
        help="Fail if the folder already holds results, instead of continuing them.",
    )
    option("--device", default="cpu", help="Device, such as cpu, cuda or mps. Default: cpu.")
    option(
        "--threads",
        type=_positive,
        default=1,
        metavar="N",
        help="Number of threads. Times compare best with one. Default: 1.",
    )
    option("--json", action="store_true", help="Print the folders as JSON.")
    return parser


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, but is {text}")
    return int(text)


def main(argv: Sequence[str]) -> None:
    """Run the command. Errors are printed in one line.

    Args:
        argv: The arguments.

    Raises:
        InputError: If FDSM_TRACEBACK is set.
        ImportError: Likewise.
        OSError: Likewise.
    """
    arguments = parser()
    given = arguments.parse_args(argv)
    try:
        if given.name:
            _run(given, arguments)
        else:
            _list_targets(json=given.json)
    except KeyboardInterrupt:
        log("paper: interrupted. Run the same command to continue.")
        sys.exit(130)
    except TrainingInterrupted as stopped:
        log("paper: stopped. A checkpoint was written. Run the same command to continue.")
        sys.exit(128 + stopped.signal)
    except UnknownTargetError as error:
        arguments.error(str(error))
    except (InputError, ImportError, OSError) as error:
        if "FDSM_TRACEBACK" in os.environ:
            raise
        log(f"paper: {error}")
        sys.exit(1)


def _run(given: argparse.Namespace, arguments: argparse.ArgumentParser) -> None:
    import torch

    chosen = TARGETS if given.name == "all" else (target(given.name),)
    if (given.seeds or given.rows) and not any(part.has_rows for part in chosen):
        arguments.error(f"{given.name} has no rows: leave out --seeds and --row")
    if given.rows and given.name == "all":
        arguments.error("--row needs the name of one table")
    folder = "reproduction" if given.scale == "cpu" else f"reproduction-{given.scale}"
    root = given.out or Path("runs", folder)
    existing = [part.name for part in chosen if (root / part.name).exists()]
    if existing and given.no_resume:
        arguments.error(
            f"{root} already holds {', '.join(existing)}. Choose another folder with --out, or "
            "leave out --no-resume"
        )
    try:
        torch.zeros(1, device=given.device).item()
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        arguments.error(f"torch cannot use the device {given.device!r} here: {error}")
    torch.set_num_threads(given.threads)
    store = RunStore(root, given.scale, given.device, console())
    run_targets(chosen, store, rows=given.rows, seeds=given.seeds, json=given.json)


def _list_targets(*, json: bool) -> None:
    titles = {part.name: part.title for part in (*TARGETS, *DEMOS)}
    if json:
        print_json(titles)
        return
    seconds = read_folders([RESULTS]).seconds
    table = Table("name", "time", "title", box=None, header_style="bold")
    for name, title in titles.items():
        table.add_row(name, format_duration(seconds.get(name, math.nan)), title)
    console(stderr=False).print(table)
    log(
        "The time is that of the committed results on one core, without the evaluation of tables. "
        "Run one with `python -m paper NAME`, or all with `python -m paper all`."
    )


def run_targets(
    targets: Sequence[Target],
    store: RunStore,
    *,
    rows: Sequence[str] = (),
    seeds: int | None = None,
    json: bool = False,
) -> None:
    """Run targets, print their tables and write a report. Fail at the end if rows are missing.

    Args:
        targets: The targets.
        store: The folder of their runs.
        rows: Names of rows, if not all.
        seeds: Number of seeds, if not that of each target.
        json: Whether to print the folders as JSON instead of tables.

    Raises:
        RunError: If some rows could not be run.
    """
    missing: list[str] = []
    folders: list[Path] = []
    for part in targets:
        try:
            result = reproduce(
                part, store, rows=rows or None, seeds=seeds, progress=progress(part.name), log=log
            )
        except (RunError, BusyError) as error:
            missing.append(f"{part.name}: {error}. Move it, or choose another folder with --out")
            continue
        missing += result.missing
        folders += result.folders
        if result.folders and not json:
            console(stderr=False).print(terminal(read_folders(result.folders, target_infos())))
    if folders:
        name = f"{targets[0].name}.html" if len(targets) == 1 else "report.html"
        page = store.root / name
        write_page(
            read_folders(folders, target_infos()), page, title="Finite-difference score matching"
        )
        report_files([*folders, page] if json else [page], json=json)
    if missing:
        raise RunError("some rows could not be run:\n  " + "\n  ".join(missing))
