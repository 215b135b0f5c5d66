"""The command that makes tables and figures of the paper."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from .options import Device, Flag, Number, Place, Scale, UsageError, set_threads, usable
from .printing import console, note, print_json, progress, wrote

if TYPE_CHECKING:
    from ..paper.catalogue import Target
    from ..paper.run_store import RunStore as Runs


def reproduce(
    name: Annotated[Positional[str], arg(metavar="NAME")] = "",
    /,
    *,
    scale: Scale = "cpu",
    seeds: Number = None,
    out: Place = None,
    resume: bool = True,
    device: Device = None,
    threads: int = 1,
    json: Flag = False,
) -> None:
    """Make a table or a figure of the paper, with the published numbers beside.

    What is in the folder already is kept, and what is not is made: stopped at any moment, the same
    command goes on. At the end, everything there is of it is printed and shown on a page.

    Args:
        name: What to make, or `all`; a list of what there is by default.
        scale: As far as two cores get in minutes, or as published.
        seeds: How many runs of every row; what each table has by default.
        out: The folder for the runs; runs/reproduction by default, or runs/reproduction-paper.
        resume: Go on with what is there, or refuse to.
        device: Where to train, such as cpu, cuda or mps; cpu by default.
        threads: How many threads torch may use; times compare best with one.
        json: Print where everything is as JSON.

    Raises:
        UsageError: If that does not make sense.
    """
    from ..paper.catalogue import TARGETS, Table, target
    from ..paper.run_store import RunStore as Runs

    if not name:
        _list_targets(json=json)
        return
    if seeds is not None and seeds < 1:
        raise UsageError(f"--seeds must be at least 1, but is {seeds}")
    root = out or Path("runs", "reproduction" if scale == "cpu" else f"reproduction-{scale}")
    chosen = TARGETS if name == "all" else (target(name),)
    if seeds is not None and not any(isinstance(one, Table) for one in chosen):
        raise UsageError(f"{name} has no rows to make with several seeds: leave out --seeds")
    there = [one.name for one in chosen if (root / one.name).exists()]
    if there and not resume:
        raise UsageError(
            f"{root} holds {', '.join(there)} already: choose another folder with --out, or go "
            "on with it, --resume"
        )
    set_threads(threads)
    runs = Runs(root, scale, usable(device) or "cpu", console())
    _reproduced(chosen, runs, seeds, json=json)


def _list_targets(*, json: bool) -> None:
    from rich.table import Table as Listing

    from ..report.labels import TARGETS

    if json:
        print_json(TARGETS)
        return
    listing = Listing("name", "what it is", box=None, header_style="bold")
    for name, title in TARGETS.items():
        listing.add_row(name, title)
    console(stderr=False).print(listing)
    note("make one with `fdsm reproduce NAME`, or all with `fdsm reproduce all`")


def _reproduced(
    targets: "Sequence[Target]", runs: "Runs", seeds: int | None, *, json: bool
) -> None:
    """Make targets, print them, and show them on a page; fail in the end if rows are missing."""
    from ..atomic_io import BusyError
    from ..paper.reproduce import reproduce as make
    from ..report import collect, terminal, write_page
    from ..runs.run import RunError
    from ..runs.train import TrainingInterrupted

    missing: list[str] = []
    folders: list[Path] = []
    for one in targets:
        try:
            made = make(one, runs, seeds, progress(one.name), note)
        except (RunError, BusyError) as error:
            missing.append(f"{one.name}: {error}")
            continue
        except TrainingInterrupted as stopped:
            note("fdsm: stopped, with a checkpoint: the same command goes on")
            sys.exit(128 + stopped.signal)
        missing += made.missing
        folders += made.folders
        if made.folders and not json:
            console(stderr=False).print(terminal(collect(made.folders)))
    if folders:
        page = runs.root / (f"{targets[0].name}.html" if len(targets) == 1 else "report.html")
        write_page(folders, page, title="Finite-difference score matching")
        wrote([*folders, page] if json else [page], json=json)
    if missing:
        raise RunError("not all of it could be made:\n  " + "\n  ".join(missing))
