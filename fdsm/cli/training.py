"""Commands that list recipes, train them and evaluate what came of it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, UseAppendAction, arg

from .options import Device, Flag, Number, Place, RunFolder, Scale, UsageError, set_threads, usable
from .printing import console, note, print_json
from .runs import finish, open_run

if TYPE_CHECKING:
    from ..runs.reference import Reference

Settings = Annotated[UseAppendAction[tuple[str, ...]], arg(name="set", metavar="PATH=VALUE")]


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
    from ..runs.reference import experiments, rows
    from ..serialize import to_json

    names = [experiment] if experiment else experiments()
    found = {f"{name}/{row.name}": row for name in names for row in rows(name, scale)}
    if json:
        print_json({name: to_json(row) for name, row in found.items()})
        return

    from rich.table import Table

    table = Table("recipe", "data", "iterations", "batch", box=None, header_style="bold")
    for name, row in found.items():
        table.add_row(
            name, type(row.data).__name__, f"{row.plan.iterations:,}", str(row.plan.batch)
        )
    console(stderr=False).print(table)
    note("train one with `fdsm train RECIPE`; `--set PATH=VALUE` changes what --json shows")


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
    threads: Number = None,
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
    from ..runs.reference import Reference
    from ..runs.run import Run
    from ..runs.train import train as train_run

    if bool(recipe) == bool(resume):
        raise UsageError("name a recipe, or a run to --resume; `fdsm list` shows the recipes")
    if resume and (data or settings or out or seed or scale != "cpu"):
        raise UsageError(
            "a run that is resumed keeps its data, settings, seed, scale and folder: "
            "leave them out"
        )
    set_threads(threads)
    if resume:
        run = open_run(resume, trust=trust, device=device)
    else:
        own = None if data is None else str(data.resolve())
        reference = Reference(_absolute(recipe), scale, own, tuple(settings))
        folder = out or Path("runs") / _named(reference) / str(seed)
        run = Run.create(folder, reference, seed, usable(device) or "cpu")
    train_run(run, console=console(), tensorboard=tensorboard)
    finish(run, json=json)


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
    finish(open_run(run, trust=trust, device=device), json=json)


def _named(reference: "Reference") -> Path:
    """Return the name of a recipe as a folder: `experiment/row`, or `file/name`."""
    if reference.file:
        return Path(reference.file.stem, reference.recipe.rpartition(":")[2])
    return Path("" if reference.scale == "cpu" else reference.scale, reference.recipe)


def _absolute(recipe: str) -> str:
    """Return a recipe's reference, in which a file has its whole path."""
    path, colon, name = recipe.rpartition(":")
    return f"{Path(path).resolve()}:{name}" if colon else recipe
