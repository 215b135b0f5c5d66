"""Commands that show results on a page: of any runs, and of a demonstration."""

from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from .options import Flag, Number, UsageError, set_threads
from .printing import console, note, wrote
from .runs import evaluated


def report(
    runs: Annotated[Positional[tuple[Path, ...]], arg(metavar="RUN")],
    /,
    *,
    out: Path = Path("report.html"),
    title: str = "fdsm report",
    json: Flag = False,
) -> None:
    """Make one page of the results of runs, that needs no other file and no network.

    Args:
        runs: Folders of runs, or folders with such folders in them.
        out: The page.
        title: Its title.
        json: Print the file as JSON.

    Raises:
        UsageError: If that does not make sense.
    """
    from ..report import collect, terminal, write_page

    if not runs:
        raise UsageError("name at least one folder of a run")
    path = write_page(runs, out, title=title)
    if not json:
        console(stderr=False).print(terminal(collect(runs)))
    wrote([path], json=json)


def demo(
    out: Path = Path("runs/demo"),
    seed: int = 0,
    iterations: Number = None,
) -> None:
    """Learn digits five ways, compare them, and show it on a page.

    Trains DSM, FD-DSM, SSM, FD-SSM and Taylor-SSM on images that come with scikit-learn. A folder
    that holds a demonstration already is continued, or shown again.

    Args:
        out: The folder for the results.
        seed: Decides everything but the times.
        iterations: How many batches to train on; what gives digits by default.
    """
    from ..paper.support.step_cost import pace
    from ..report import collect, terminal, write_page
    from ..runs.reference import Reference, rows
    from ..runs.run import Run
    from ..runs.train import train as train_run

    set_threads(1)
    changes = () if iterations is None else (f"plan.iterations={iterations}",)
    runs = []
    for row in rows("digits"):
        folder = out / row.name / str(seed)
        if (folder / "config.json").exists():
            run = Run.open(folder)
        else:
            run = Run.create(folder, Reference(f"digits/{row.name}", "cpu", None, changes), seed)
        runs.append(run)
        train_run(run, console=console())
        if not (folder / "result.json").exists():
            evaluated(run)
    note("timing the steps of all in turn")
    for run, cost in zip(runs, pace(runs), strict=True):
        run.write("result.json", {**run.result, **cost.record()})
    folders = [run.folder for run in runs]
    page = write_page(folders, out / "report.html", title="Digits, learnt five ways")
    console(stderr=False).print(terminal(collect(folders)))
    wrote([*(folder / "samples.png" for folder in folders), page], json=False)
