"""The command line: every function marked `@app.command` is a command, its arguments the options.

Heavy imports belong inside the functions, so that `fdsm --help` answers at once. Results go to
standard output, as a table or with `--json` as JSON; all else goes to standard error. Exit codes:
0 done, 1 failed, 2 asked for something that does not exist, 128 + n stopped by signal n. What went
wrong is said in a line; with the environment variable FDSM_TRACEBACK, where too.
"""

import json as jsonlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import FlagCreatePairsOff, Positional, UseAppendAction, arg
from tyro.extras import SubcommandApp

from . import __version__

if TYPE_CHECKING:
    from rich.console import Console

    from .experiments.place import Place as Runs
    from .experiments.reference import Reference
    from .experiments.run import Run
    from .experiments.targets import Target
    from .experiments.trained import Trained
    from .record import Json
    from .samplers import Progress

WIDE = 200
"""How many characters a line has where there is no terminal to ask."""

app = SubcommandApp()


class UsageError(ValueError):
    """A command was asked for something that does not make sense."""


Scale = Literal["cpu", "paper"]
Settings = Annotated[UseAppendAction[tuple[str, ...]], arg(name="set", metavar="PATH=VALUE")]
Place = Annotated[Path | None, arg(metavar="PATH")]
Device = Annotated[str | None, arg(metavar="DEVICE")]
Flag = FlagCreatePairsOff[bool]
RunFolder = Annotated[Positional[Path], arg(metavar="RUN")]


@app.command(name="list")
def list_(
    experiment: Annotated[Positional[str], arg(metavar="EXPERIMENT")] = "",
    scale: Scale = "cpu",
    json: Flag = False,
) -> None:
    """List the recipes that can be trained.

    Args:
        experiment: One experiment; all by default.
        scale: Recipes for two cores and minutes, or the published settings.
        json: Print JSON, with all settings.
    """
    from .experiments.reference import experiments, rows
    from .record import describe

    names = [experiment] if experiment else experiments()
    found = {f"{name}/{row.name}": row for name in names for row in rows(name, scale)}
    if json:
        _print_json({name: describe(row) for name, row in found.items()})
        return

    from rich.table import Table

    table = Table("recipe", "data", "iterations", "batch", box=None, header_style="bold")
    for name, row in found.items():
        table.add_row(
            name, type(row.data).__name__, f"{row.plan.iterations:,}", str(row.plan.batch)
        )
    _console(stderr=False).print(table)
    _note("train one with `fdsm train RECIPE`; `--set PATH=VALUE` changes what --json shows")


@app.command
def train(
    recipe: Annotated[Positional[str], arg(metavar="RECIPE")] = "",
    /,
    *,
    data: Place = None,
    settings: Settings = (),
    seed: int = 0,
    device: Device = None,
    resume: Place = None,
    out: Place = None,
    scale: Scale = "cpu",
    threads: Annotated[int | None, arg(metavar="INT")] = None,
    tensorboard: Flag = False,
    trust: Flag = False,
    json: Flag = False,
) -> None:
    """Train a model, evaluate it and draw samples.

    Args:
        recipe: `experiment/row` or `experiment` as in `fdsm list`, or `file.py:name`.
        data: Your own data instead: a folder or zip of images, .npy, .npz, .csv or .parquet.
        settings: Change a setting of the recipe; may be given many times.
        seed: Decides weights, order of the data and all noise.
        device: Where to train, such as cpu, cuda or mps; cpu by default.
        resume: Go on with the run in this folder instead of a new one.
        out: The folder for the run; runs/RECIPE/SEED by default.
        scale: The recipe for two cores and minutes, or the published settings.
        threads: How many threads torch may use; as many as it likes by default.
        tensorboard: Write event files for TensorBoard too.
        trust: With --resume, allow to execute the file that the recipe is in.
        json: Print the result as JSON.

    Raises:
        UsageError: If that does not make sense.
    """
    from .experiments.reference import Reference
    from .experiments.run import Run
    from .experiments.train import train as train_run

    if bool(recipe) == bool(resume):
        raise UsageError("name a recipe, or a run to --resume; `fdsm list` shows the recipes")
    if resume and (data or settings or out or seed or scale != "cpu"):
        raise UsageError(
            "a run that is resumed keeps its data, settings, seed, scale and folder: "
            "leave them out"
        )
    _set_threads(threads)
    if resume:
        run = _opened(resume, trust=trust, device=device)
    else:
        own = None if data is None else str(data.resolve())
        reference = Reference(_absolute(recipe), scale, own, tuple(settings))
        folder = out or Path("runs") / _named(reference) / str(seed)
        run = Run.create(folder, reference, seed, _usable(device) or "cpu")
    train_run(run, console=_console(), tensorboard=tensorboard)
    _finish(run, json=json)


@app.command
def evaluate(
    run: RunFolder, /, *, device: Device = None, trust: Flag = False, json: Flag = False
) -> None:
    """Evaluate a trained model again and draw its samples.

    Args:
        run: The folder of the run.
        device: Where to compute, if not where it was trained.
        trust: Allow to execute the file that the recipe is in.
        json: Print the result as JSON.
    """
    _finish(_opened(run, trust=trust, device=device), json=json)


@app.command
def sample(
    run: RunFolder,
    /,
    *,
    n: Annotated[int, arg(aliases=["-n"])] = 64,
    out: Place = None,
    seed: int = 0,
    device: Device = None,
    trust: Flag = False,
    json: Flag = False,
) -> None:
    """Draw samples from a trained model: arrays, and a picture if they are images.

    Args:
        run: The folder of the run.
        n: How many.
        out: The folder for samples.npy and samples.png; RUN/samples by default.
        seed: Decides which.
        device: Where to compute, if not where it was trained.
        trust: Allow to execute the file that the recipe is in.
        json: Print the files as JSON.

    Raises:
        UsageError: If that does not make sense.
    """
    if n < 1:
        raise UsageError(f"-n must be at least 1, but is {n}")
    from .experiments.samples import save_samples

    trained = _trained(run, trust=trust, device=device)
    samples = trained.sample(n, _progress("sampling"), seed=seed)
    files = save_samples(out or run / "samples", samples, trained.largest)
    _wrote(files, json=json, samples=n, shape=list(samples.shape))


@app.command
def score(
    run: RunFolder,
    data: Annotated[Positional[Path], arg(metavar="DATA")],
    /,
    *,
    out: Place = None,
    device: Device = None,
    trust: Flag = False,
    json: Flag = False,
) -> None:
    """Write the log-density and the typicality of every row of some data.

    The columns are: the row (or the name of the image); its log-density; its typicality, the
    distance of that from the mean over the training data; and its tail, the fraction of held-out
    data that is no more typical. Outliers have a tail near zero.

    Args:
        run: The folder of the run.
        data: A folder or zip of images, .npy, .npz, .csv or .parquet, as in training.
        out: The file to write; RUN/scores.csv by default.
        device: Where to compute, if not where it was trained.
        trust: Allow to execute the file that the recipe is in.
        json: Print a summary as JSON.
    """
    from .experiments.score import read_rows, write_scores
    from .experiments.trained import score as score_rows

    trained = _trained(run, trust=trust, device=device)
    names, rows = read_rows(trained, data)
    scores = score_rows(trained, rows)
    path = out or run / "scores.csv"
    write_scores(path, names, scores)
    outliers = int((scores.tail < 0.01).sum())
    middle = float(f"{float(scores.log_density.median()):.6g}")
    _wrote(
        [path],
        json=json,
        rows=len(rows),
        median_log_density=middle,
        tail_below_1_percent=outliers,
    )


@app.command
def check(
    run: RunFolder, /, *, device: Device = None, trust: Flag = False, json: Flag = False
) -> None:
    """Compare the finite differences of a trained model with exact derivatives.

    Args:
        run: The folder of the run.
        device: Where to compute, if not where it was trained.
        trust: Allow to execute the file that the recipe is in.
        json: Print JSON.
    """
    from .experiments.check import check as check_run
    from .record import describe

    checked = check_run(_trained(run, trust=trust, device=device))
    if json:
        _print_json(describe(checked))
        return
    _console(stderr=False).print(str(checked), highlight=False)


@app.command
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
    from .report import collect, terminal, write_page

    if not runs:
        raise UsageError("name at least one folder of a run")
    path = write_page(runs, out, title=title)
    if not json:
        _console(stderr=False).print(terminal(collect(runs)))
    _wrote([path], json=json)


@app.command
def reproduce(
    name: Annotated[Positional[str], arg(metavar="NAME")] = "",
    /,
    *,
    scale: Scale = "cpu",
    seeds: Annotated[int | None, arg(metavar="INT")] = None,
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
    from .experiments.place import Place as Runs
    from .experiments.targets import TARGETS, Table, target

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
    _set_threads(threads)
    runs = Runs(root, scale, _usable(device) or "cpu", _console())
    _reproduced(chosen, runs, seeds, json=json)


@app.command
def demo(
    out: Path = Path("runs/demo"),
    seed: int = 0,
    iterations: Annotated[int | None, arg(metavar="INT")] = None,
) -> None:
    """Learn digits five ways, compare them, and show it on a page.

    Trains DSM, FD-DSM, SSM, FD-SSM and Taylor-SSM on images that come with scikit-learn. A folder
    that holds a demonstration already is continued, or shown again.

    Args:
        out: The folder for the results.
        seed: Decides everything but the times.
        iterations: How many batches to train on; what gives digits by default.
    """
    from .experiments.pace import pace
    from .experiments.reference import Reference, rows
    from .experiments.run import Run
    from .experiments.train import train as train_run
    from .report import collect, terminal, write_page

    _set_threads(1)
    changes = () if iterations is None else (f"plan.iterations={iterations}",)
    runs = []
    for row in rows("digits"):
        folder = out / row.name / str(seed)
        if (folder / "config.json").exists():
            run = Run.open(folder)
        else:
            run = Run.create(folder, Reference(f"digits/{row.name}", "cpu", None, changes), seed)
        runs.append(run)
        train_run(run, console=_console())
        if not (folder / "result.json").exists():
            _evaluated(run)
    _note("timing the steps of all in turn")
    for run, cost in zip(runs, pace(runs), strict=True):
        run.write("result.json", {**run.result, **cost.record()})
    folders = [run.folder for run in runs]
    page = write_page(folders, out / "report.html", title="Digits, learnt five ways")
    _console(stderr=False).print(terminal(collect(folders)))
    _wrote([*(folder / "samples.png" for folder in folders), page], json=False)


def _list_targets(*, json: bool) -> None:
    from rich.table import Table as Listing

    from .report.titles import TARGETS

    if json:
        _print_json(TARGETS)
        return
    listing = Listing("name", "what it is", box=None, header_style="bold")
    for name, title in TARGETS.items():
        listing.add_row(name, title)
    _console(stderr=False).print(listing)
    _note("make one with `fdsm reproduce NAME`, or all with `fdsm reproduce all`")


def _reproduced(
    targets: "Sequence[Target]", runs: "Runs", seeds: int | None, *, json: bool
) -> None:
    """Make targets, print them, and show them on a page; fail in the end if rows are missing."""
    from .experiments.reproduce import reproduce as make
    from .experiments.run import RunError
    from .experiments.train import Suspended
    from .files import BusyError
    from .report import collect, terminal, write_page

    missing: list[str] = []
    folders: list[Path] = []
    for one in targets:
        try:
            made = make(one, runs, seeds, _progress(one.name), _note)
        except (RunError, BusyError) as error:
            missing.append(f"{one.name}: {error}")
            continue
        except Suspended as stopped:
            _note("fdsm: stopped, with a checkpoint: the same command goes on")
            sys.exit(128 + stopped.signal)
        missing += made.missing
        folders += made.folders
        if made.folders and not json:
            _console(stderr=False).print(terminal(collect(made.folders)))
    if folders:
        page = runs.root / (f"{targets[0].name}.html" if len(targets) == 1 else "report.html")
        write_page(folders, page, title="Finite-difference score matching")
        _wrote([*folders, page] if json else [page], json=json)
    if missing:
        raise RunError("not all of it could be made:\n  " + "\n  ".join(missing))


def _finish(run: "Run", *, json: bool) -> None:
    """Evaluate a run and print what came of it."""
    result = _evaluated(run)
    if json:
        _print_json({"run": str(run.folder), **result})
        return

    from .report import collect, terminal

    _console(stderr=False).print(terminal(collect([run.folder])))
    files = [run.folder / "result.json", run.folder / result.get("samples", "metrics.jsonl")]
    _wrote(files, json=False)


def _evaluated(run: "Run") -> dict[str, Any]:
    from .experiments.evaluate import evaluate as evaluate_run
    from .experiments.trained import open_trained

    try:
        return evaluate_run(run, open_trained(run), _progress("sampling"))
    except KeyboardInterrupt:
        _note(f"fdsm: the model is kept; `fdsm evaluate {run.folder}` goes on")
        raise


def _trained(folder: Path, *, trust: bool, device: str | None) -> "Trained":
    from .experiments.trained import open_trained

    return open_trained(_opened(folder, trust=trust, device=device))


def _opened(folder: Path, *, trust: bool, device: str | None) -> "Run":
    from .experiments.run import Run

    run = Run.open(folder, trust=trust, device=device)
    _usable(run.device)
    return run


def _named(reference: "Reference") -> Path:
    """Return the name of a recipe as a folder: `experiment/row`, or `file/name`."""
    if reference.file:
        return Path(reference.file.stem, reference.recipe.rpartition(":")[2])
    return Path("" if reference.scale == "cpu" else reference.scale, reference.recipe)


def _absolute(recipe: str) -> str:
    """Return a recipe's reference, in which a file has its whole path."""
    path, colon, name = recipe.rpartition(":")
    return f"{Path(path).resolve()}:{name}" if colon else recipe


def _set_threads(threads: int | None) -> None:
    if threads is None:
        return
    if threads < 1:
        raise UsageError(f"--threads must be at least 1, but is {threads}")

    import torch

    torch.set_num_threads(threads)


def _usable(device: str | None) -> str | None:
    """Return a device on which torch can compute here."""
    import torch

    if device is not None:
        try:
            torch.zeros(1, device=device).item()
        except (RuntimeError, AssertionError, NotImplementedError) as error:
            reason = str(error).splitlines()[0]
            raise UsageError(
                f"torch cannot compute on {device!r} here: {reason}; choose another with --device"
            ) from error
    return device


def _console(*, stderr: bool = True) -> "Console":
    """Return where to print; what is no terminal, such as a file, is wide."""
    from rich.console import Console

    console = Console(stderr=stderr)
    return console if console.is_terminal else Console(stderr=stderr, width=WIDE)


def _progress(description: str) -> "Progress":
    from functools import partial

    from rich.progress import track

    return partial(track, description=description, console=_console(), transient=True)


def _note(text: str) -> None:
    print(text, file=sys.stderr)


def _wrote(files: Sequence[Path], *, json: bool, **facts: "Json") -> None:
    if json:
        _print_json({"files": [str(path) for path in files], **facts})
        return
    for name, value in facts.items():
        _note(f"{name.replace('_', ' ')}: {value}")
    for path in files:
        _note(f"wrote {path}")


def _print_json(value: object) -> None:
    print(jsonlib.dumps(value, indent=2))


def main(argv: Sequence[str] | None = None) -> None:
    """Run a command, and say in one line what went wrong if something did.

    Args:
        argv: The command and its options; those of the process by default.
    """
    arguments = sys.argv[1:] if argv is None else list(argv)
    if arguments == ["--version"]:
        print(f"fdsm {__version__}")
        return
    try:
        app.cli(
            prog="fdsm",
            description="Score matching by finite differences, autodiff and Taylor series. "
            "`fdsm --version` prints the version.",
            args=arguments,
        )
    except KeyboardInterrupt:
        _note("fdsm: interrupted; what was written is whole")
        sys.exit(130)
    except Exception as error:
        sys.exit(_explained(error))


def _explained(error: Exception) -> int:
    """Print what went wrong, and return the exit code; what nobody expected is raised again."""
    from .experiments.override import OverrideError
    from .experiments.reference import UnknownRecipeError, UntrustedRecipeError
    from .experiments.train import Suspended
    from .training import NonFiniteLossError

    if isinstance(error, Suspended):
        _note(f"fdsm: {error}")
        return 128 + error.signal
    usage = (UsageError, OverrideError, UnknownRecipeError, UntrustedRecipeError)
    failures = (ValueError, NonFiniteLossError, ImportError, OSError)
    if not isinstance(error, (*usage, *failures)) or "FDSM_TRACEBACK" in os.environ:
        raise error
    _note(f"fdsm: {error}")
    return 2 if isinstance(error, usage) else 1
