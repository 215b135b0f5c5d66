"""`fdsm reproduce`: reproduce tables and figures of the paper."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, UseAppendAction, arg

from .options import (
    DeviceOption,
    Flag,
    IntOption,
    PathOption,
    Scale,
    UsageError,
    require_device,
    set_threads,
)
from .printing import console, log, print_json, progress, report_files

if TYPE_CHECKING:
    from ..paper.catalogue import Target
    from ..paper.run_store import RunStore

Rows = Annotated[
    UseAppendAction[tuple[str, ...]], arg(name="row", metavar="ROW", help_behavior_hint="")
]


def reproduce(
    name: Annotated[Positional[str], arg(metavar="[NAME]", help_behavior_hint="")] = "",
    /,
    *,
    rows: Rows = (),
    scale: Scale = "cpu",
    seeds: IntOption = None,
    out: PathOption = None,
    resume: bool = True,
    device: DeviceOption = None,
    threads: int = 1,
    json: Flag = False,
) -> None:
    """Reproduce a table or figure of the paper and compare it with the published numbers.

    Finished rows are kept; only missing rows are run. If interrupted, run the same command again.
    Prints a table and writes an HTML report.

    Args:
        name: The table or figure, or `all`. Without a name, the available ones are listed.
        rows: Run only this row, for example --row FD-SSM. May be repeated.
        scale: cpu: reduced settings for two cores; paper: the published settings.
        seeds: Number of seeds for every row. Default: that of the table.
        out: Folder of the runs. Default: runs/reproduction, or runs/reproduction-paper.
        resume: Continue existing results. --no-resume fails if the folder exists.
        device: Device, such as cpu, cuda or mps. Default: cpu.
        threads: Number of threads. Times compare best with one.
        json: Print the folders as JSON.

    Raises:
        UsageError: If the options contradict each other.
    """
    if not name:
        _list_targets(json=json)
        return

    from ..paper.catalogue import TARGETS, target
    from ..paper.run_store import RunStore

    if seeds is not None and seeds < 1:
        raise UsageError(f"--seeds must be at least 1, but is {seeds}")
    chosen = TARGETS if name == "all" else (target(name),)
    if (seeds is not None or rows) and not any(one.has_rows for one in chosen):
        raise UsageError(f"{name} has no rows: leave out --seeds and --row")
    if rows and name == "all":
        raise UsageError("--row needs the name of one table")
    root = out or Path("runs", "reproduction" if scale == "cpu" else f"reproduction-{scale}")
    existing = [one.name for one in chosen if (root / one.name).exists()]
    if existing and not resume:
        raise UsageError(
            f"{root} already holds {', '.join(existing)}. Choose another folder with --out, or "
            "continue with --resume"
        )
    set_threads(threads)
    store = RunStore(root, scale, require_device(device), console())
    run_targets(chosen, store, rows=rows, seeds=seeds, json=json)


def _list_targets(*, json: bool) -> None:
    from rich.table import Table

    from ..paper.catalogue import TARGETS

    titles = {one.name: one.title for one in TARGETS}
    if json:
        print_json(titles)
        return
    table = Table("name", "title", box=None, header_style="bold")
    for name, title in titles.items():
        table.add_row(name, title)
    console(stderr=False).print(table)
    log("Run one with `fdsm reproduce NAME`, or all with `fdsm reproduce all`.")


def run_targets(
    targets: "Sequence[Target]",
    store: "RunStore",
    *,
    rows: Sequence[str] = (),
    seeds: int | None = None,
    title: str = "Finite-difference score matching",
    page: Path | None = None,
    more: Sequence[Path] = (),
    json: bool = False,
) -> None:
    """Run targets, print their tables and write a report. Fail at the end if rows are missing.

    Args:
        targets: The targets.
        store: The folder of their runs.
        rows: Names of rows, if not all.
        seeds: Number of seeds, if not that of each target.
        title: Title of the report.
        page: File of the report, if not in the folder of the runs and named after the target.
        more: Folders of other runs for the report.
        json: Whether to print the folders as JSON instead of tables.

    Raises:
        RunError: If some rows could not be run.
    """
    from ..atomic_io import BusyError
    from ..paper.catalogue import target_infos
    from ..paper.reproduce import reproduce as reproduce_target
    from ..report import read_folders, terminal, write_page
    from ..runs import RunError, TrainingInterrupted

    missing: list[str] = []
    folders: list[Path] = list(more)
    for one in targets:
        try:
            result = reproduce_target(
                one, store, rows=rows or None, seeds=seeds, progress=progress(one.name), log=log
            )
        except (RunError, BusyError) as error:
            missing.append(f"{one.name}: {error}. Move it, or choose another folder with --out")
            continue
        except TrainingInterrupted as stopped:
            log("fdsm: stopped. A checkpoint was written. Run the same command to continue.")
            sys.exit(128 + stopped.signal)
        missing += result.missing
        folders += result.folders
        if result.folders and not json:
            console(stderr=False).print(terminal(read_folders(result.folders, target_infos())))
    if folders:
        name = f"{targets[0].name}.html" if len(targets) == 1 else "report.html"
        page = page or store.root / name
        write_page(read_folders(folders, target_infos()), page, title=title)
        report_files([*folders, page] if json else [page], json=json)
    if missing:
        raise RunError("some rows could not be run:\n  " + "\n  ".join(missing))
