"""`python -m paper train`: train a recipe on your images or on a built-in data set."""

import errno
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import Positional, UseAppendAction, arg

from fdsm.cli.printing import console, log

from .evaluate import evaluate_and_print
from .options import (
    DeviceOption,
    Flag,
    IntOption,
    PathOption,
    UsageError,
    open_run,
    require_device,
    resume_command,
    set_threads,
)
from .processes import WAITING, folder_of_restarted, in_parallel, joined, parts_sentence

if TYPE_CHECKING:
    from ..data import Dataset, Source
    from ..recipes import Recipe
    from ..runs import Run, SavedModel
    from ..runs.distributed import Parallel
    from ..targets import Scale

Settings = Annotated[
    UseAppendAction[tuple[str, ...]],
    arg(name="set", metavar="PATH=VALUE", help_behavior_hint=""),
]
RecipeOption = Annotated[
    str | None, arg(metavar="{TABLE/ROW,FILE.PY:NAME}", help_behavior_hint="")
]

DISK_FULL_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
"""Errors of a disk that is full, and of the largest size of a file or of all files of a user."""

SHEETS = 4
"""Number of sheets of samples that are written while images are trained."""

FsdpOption = Annotated[
    Literal["root", "layers"] | None, arg(metavar="{root,layers}", help_behavior_hint="")
]
CompileOption = Annotated[
    Literal["auto", "on", "off"], arg(metavar="{auto,on,off}", help_behavior_hint="")
]


def train(
    data: Annotated[Positional[str], arg(metavar="[DATA]", help_behavior_hint="")] = "",
    /,
    *,
    recipe: RecipeOption = None,
    scale: Literal["cpu", "paper"] = "cpu",
    iterations: IntOption = None,
    settings: Settings = (),
    seed: int = 0,
    device: DeviceOption = None,
    out: PathOption = None,
    resume: PathOption = None,
    threads: IntOption = None,
    compile: CompileOption = "auto",
    accumulate: int = 1,
    fsdp: FsdpOption = None,
    timeout: float = WAITING,
    tensorboard: Flag = False,
    trust: Flag = False,
    json: Flag = False,
) -> None:
    """Train a recipe, compare the model with reference densities and draw samples.

    If interrupted, the run can be resumed, also by another number of processes. Start several
    processes with `torchrun --nproc-per-node 2 -m paper train ...`.

    Args:
        data: A folder or .zip of images, an array of images (.npy, .npz), or the name of a
            built-in data set such as digits or mnist. Default: the data of the recipe. With
            --resume: the new path of the data, if they were moved.
        recipe: A row of the paper, such as table2/FD-SSM, or a recipe of your own, FILE.PY:NAME.
            Its transform is applied to DATA. Default: an energy-based model for images.
        scale: With a row of the paper: cpu for reduced settings, paper for the published ones.
        iterations: Largest number of training iterations. Default: that of the recipe.
        settings: Change any other setting, for example --set optimizer.lr=1e-3 or
            --set data.size=64. May be repeated. config.json lists all settings.
        seed: Random seed.
        device: Device, such as cpu, cuda or mps. Default: cpu.
        out: Folder of the run. Default: runs/NAME, named after the data.
        resume: Continue the run in this folder.
        threads: Largest number of threads. Default: torch's.
        compile: Compile the training step, loss, gradient and optimizer, as one graph. That takes
            half a minute or more and makes steps of small networks up to three times faster.
            Default: auto, if it saves more time than it takes. Steps of several processes are not
            compiled.
        accumulate: Compute a batch in this many parts, one after the other, to save memory.
        fsdp: With torchrun, divide the weights among the processes: gather all of them at once
            (root), or one layer after the other (layers). Default: a copy in each process.
        timeout: With torchrun, seconds that a process waits for another one in training.
        tensorboard: Also write TensorBoard event files.
        trust: With --resume, execute the file that the recipe is defined in.
        json: Print the result as JSON.

    Raises:
        UsageError: If the options contradict each other.
    """
    set_threads(threads)

    def choose() -> "tuple[Run, Dataset]":
        if resume is None:
            changed = _split_settings(settings, iterations)
            recipe_and_data = _recipe_and_data(data, recipe, scale, *changed)
            return _new_run(*recipe_and_data, out, data, seed=seed, device=device)
        if settings or any(o is not None for o in (iterations, recipe, out, seed or None)):
            raise UsageError(
                "a run that is resumed keeps its settings: give --resume with DATA, --device, "
                "--threads, --compile, --accumulate, --fsdp, --timeout, --tensorboard, --trust or "
                "--json only"
            )
        return _run_to_resume(resume, data, trust=trust, device=device)

    with joined(device, timeout) as world:
        parallel = world.together(lambda: in_parallel(world, fsdp, accumulate, compile))
        run, dataset = world.together(choose)
        run = replace(run, folder=world.broadcast(run.folder))
        _train_and_evaluate(
            run, dataset, parallel, compile=compile, tensorboard=tensorboard, json=json
        )


def _recipe_and_data(
    data: str, name: str | None, scale: "Scale", reading: Sequence[str], changes: Sequence[str]
) -> "tuple[Recipe, Dataset, dict[str, str]]":
    """Return the recipe, its data, and the origin for `Run`."""
    from ..recipes import image_recipe, padded_size
    from ..recipes.settings import change_settings

    if name is not None:
        recipe, origin = _named_recipe(name, scale)
        if data:
            recipe = recipe.with_data(_source(data, reading))
        recipe = change_settings(recipe, [*(f"data.{setting}" for setting in reading), *changes])
        dataset = recipe.data.load()
        log(_describe_data(data or name, recipe.data, dataset))
        return recipe, dataset, origin
    if not data:
        raise UsageError("give DATA or --recipe, for example: python -m paper train photos/")
    source = change_settings(_source(data, reading), reading)
    dataset = source.load()
    log(_describe_data(data, source, dataset))
    recipe = change_settings(image_recipe(source, dataset), changes)
    if (padded := padded_size(dataset)) is not None:
        height, width = dataset.train.shape[2:]
        log(f"Images are padded from {height} × {width} to {padded} × {padded} for the network.")
    dataset = replace(dataset, transform=recipe.data.transform.fit(dataset.train))
    log(
        "Recipe: energy-based model, denoising score matching, at most "
        f"{recipe.plan.iterations:,} iterations of {recipe.plan.batch} rows. Change it with "
        "--recipe, --iterations or --set."
    )
    return recipe, dataset, {}


def _named_recipe(name: str, scale: "Scale") -> "tuple[Recipe, dict[str, str]]":
    """Return a row of the paper, or a recipe of the user's file, and its origin."""
    from ..catalogue import recipe_of
    from ..runs import recipe_from_file

    if ".py:" in name:
        return recipe_from_file(name)
    table, slash, row = name.partition("/")
    if not slash:
        raise UsageError(
            f"--recipe is TABLE/ROW, such as table2/FD-SSM, or FILE.PY:NAME, but got {name!r}"
        )
    return recipe_of(table, row, scale), {"recipe": name, "scale": scale}


def _new_run(
    recipe: "Recipe",
    dataset: "Dataset",
    origin: dict[str, str],
    out: Path | None,
    data: str,
    *,
    seed: int,
    device: str | None,
) -> "tuple[Run, Dataset]":
    """Return a run in a folder that holds no other, or the one that torchrun has restarted."""
    from ..runs import Run

    folder = out or Path("runs") / (Path(data).stem or recipe.name)
    device = require_device(device)
    if (earlier := folder_of_restarted(folder)) is not None:
        return Run(earlier, recipe, seed, device, origin), dataset
    folder = out or _free_folder(folder)
    return Run.create(folder, recipe, seed=seed, device=device, origin=origin), dataset


def _run_to_resume(
    folder: Path, data: str, *, trust: bool, device: str | None
) -> "tuple[Run, Dataset]":
    """Return the run in a folder, and its data, which may have been moved."""
    run = open_run(folder, trust=trust, device=device)
    run = run.with_source(_moved(run, data)) if data else run
    dataset = _load_again(run)
    run.require_same_data(dataset)
    return run, dataset


def _describe_data(name: str, source: "Source", data: "Dataset") -> str:
    """Return a sentence on the number and shape of the rows."""
    parts = {"training": data.train, "validation": data.validation, "test": data.test}
    counts = ", ".join(f"{len(rows):,} {part}" for part, rows in parts.items() if len(rows))
    total, size = sum(map(len, parts.values())), getattr(source, "size", None)
    resized = (
        f" (their central squares, resized to {size} × {size}; see --set data.size)"
        if size
        else ""
    )
    shape = tuple(data.train.shape[1:])
    return f"Read {name}: {total:,} rows of shape {shape}{resized}; {counts}."


def _source(data: str, settings: Sequence[str]) -> "Source":
    """Return the source of a file or folder, with its absolute path, or a built-in data set."""
    from ..data import BUILTIN_NAMES, builtin_source, from_path

    keys = [setting.removeprefix("key=") for setting in settings if setting.startswith("key=")]
    key = keys[-1] if keys else None  # a file of several arrays is recognized by the chosen one
    if Path(data).exists():
        return from_path(Path(data).resolve(), key)
    if data in BUILTIN_NAMES:
        return builtin_source(data)
    if Path(data).suffix or "/" in data:
        return from_path(data, key)  # in the data folder, or an error that says where it looked
    return builtin_source(data)


def _moved(run: "Run", data: str) -> "Source":
    """Return the source of a run with another path."""
    if not hasattr(run.recipe.data, "path"):
        raise UsageError(f"the data of {run.folder} are not a file: leave DATA out")
    return replace(run.recipe.data, path=str(Path(data).resolve()))  # type: ignore[type-var]


def _load_again(run: "Run") -> "Dataset":
    """Return the data of a run, or say how to give their new place."""
    from ..data import DataError

    try:
        return run.recipe.data.load()
    except (DataError, FileNotFoundError) as error:
        path = getattr(run.recipe.data, "path", None)
        if path is None or Path(path).exists():
            raise
        command = f"{resume_command(run)} NEW_PATH"
        raise DataError(f"{error}. If the data were moved, run: {command}") from error


def _split_settings(
    settings: Sequence[str], iterations: int | None
) -> tuple[list[str], list[str]]:
    """Return the settings of the source, without the prefix `data.`, and all other settings."""
    prefix, transform = "data.", "data.transform"
    reading = [s for s in settings if s.startswith(prefix) and not s.startswith(transform)]
    others = [s for s in settings if s not in reading]
    if iterations is not None:
        others.append(f"plan.iterations={iterations}")
    return [setting.removeprefix(prefix) for setting in reading], others


def _free_folder(folder: Path) -> Path:
    """Return a folder that holds no run: the given one, or one with a number added to its name."""
    if not (folder / "config.json").exists():
        return folder
    if not (folder / "model.safetensors").exists():
        log(
            f"{folder} holds an unfinished run. To continue it instead: "
            f"python -m paper train --resume {folder}"
        )
    numbered = (folder.with_name(f"{folder.name}-{number}") for number in count(2))
    return next(path for path in numbered if not path.exists())


def _next_step(run: "Run", remedy: str) -> str:
    """Return what to do after a failure: resume the run, or start it if there is none yet."""
    if not (run.folder / "config.json").exists():
        return "There is no run to resume yet. Solve this, or choose another folder with --out"
    numbered = run.checkpoints.numbered()
    last = f"iteration {int(numbered[0].stem):,}" if numbered else "none yet"
    return f"The last complete checkpoint: {last}. {remedy}: {resume_command(run)}"


def _train_and_evaluate(
    run: "Run",
    data: "Dataset",
    parallel: "Parallel",
    *,
    compile: CompileOption,
    tensorboard: bool,
    json: bool,
) -> None:
    from ..runs import SHEET_FOLDER
    from ..runs import train as train_run
    from ..runs.distributed import lost_processes_explained, train_together

    done = run.checkpoints.numbered() if (run.folder / "config.json").exists() else ()
    continuing = f", continuing at iteration {int(done[0].stem):,}" if done else ""
    log(f"Training in {run.folder}{continuing}{parts_sentence(parallel)}")
    is_image = len(data.shape) == 3
    if is_image and parallel.parts == 1:
        log(f"Samples are shown while training in {run.folder / SHEET_FOLDER}")
    try:
        if parallel.parts == 1:
            saved: SavedModel | None = train_run(
                run,
                data,
                console=console(),
                tensorboard=tensorboard,
                compile=compile,
                sheets=SHEETS if is_image else 0,
            )
        else:
            saved = train_together(run, data, parallel, console=console(), tensorboard=tensorboard)
    except KeyboardInterrupt:
        began = (run.folder / "config.json").exists()
        advice = _next_step(run, "Continue with") if began else "Nothing was written. Start again."
        log(f"paper: {advice}")
        raise
    except OSError as error:
        path = error.filename or run.folder
        if error.errno is None or not str(path).startswith(str(run.folder)):
            raise
        remedy = (
            "Free some space and run" if error.errno in DISK_FULL_ERRORS else "Solve this and run"
        )
        raise OSError(
            error.errno, f"{error.strerror} while writing {path}. {_next_step(run, remedy)}"
        ) from error
    with lost_processes_explained(run, parallel.world):
        parallel.world.by_leader(lambda: _evaluate(saved, data, json=json))


def _evaluate(saved: "SavedModel | None", data: "Dataset", *, json: bool) -> None:
    assert saved is not None
    seconds = saved.progress["seconds"]
    log(f"Trained {saved.progress['iterations']:,} iterations in {seconds:.0f} s")
    evaluate_and_print(saved, data, json=json)
