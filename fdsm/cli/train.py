"""`fdsm train`: train a model on your data."""

import errno
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import Positional, UseAppendAction, arg

from .evaluate import evaluate_and_print, unreadable_cells
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
from .printing import console, log
from .processes import WAITING, folder_of_restarted, in_parallel, joined, parts_sentence

if TYPE_CHECKING:
    from paper.data import Dataset, Source
    from paper.recipes import Recipe
    from paper.runs import Run
    from paper.runs.distributed import Parallel

Settings = Annotated[
    UseAppendAction[tuple[str, ...]],
    arg(name="set", metavar="PATH=VALUE", help_behavior_hint=""),
]
Names = Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="NAME,...", help_behavior_hint="")]
Model = Annotated[
    Literal["ebm", "flow", "kernel", "score-network", "autoencoder"] | None,
    arg(metavar="{ebm,flow,kernel,score-network,autoencoder}", help_behavior_hint=""),
]
Objective = Annotated[
    Literal["dsm", "ssm", "ssmvr", "sm", "mle"] | None,
    arg(metavar="{dsm,ssm,ssmvr,sm,mle}", help_behavior_hint=""),
]
Derivative = Annotated[
    Literal["taylor", "fd", "autodiff"] | None,
    arg(metavar="{taylor,fd,autodiff}", help_behavior_hint=""),
]

DISK_FULL_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
"""Errors of a disk that is full, and of the largest size of a file or of all files of a user."""

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
    model: Model = None,
    objective: Objective = None,
    derivative: Derivative = None,
    iterations: IntOption = None,
    categorical: Names = (),
    numeric: Names = (),
    ignore: Names = (),
    columns: Names = (),
    settings: Settings = (),
    recipe: Annotated[str | None, arg(metavar="FILE.PY:NAME", help_behavior_hint="")] = None,
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
    """Train a model on your data, compare it with reference densities and draw samples.

    A table may have numbers, text, dates and missing cells. Chooses a preset from the kind and
    size of the data and prints it. `fdsm score`, `fdsm sample` and `fdsm report` use the folder
    that this command writes.

    Args:
        data: Your data: a table (.csv, .tsv, .txt, .parquet, .feather), an array (.npy, .npz), a
            folder or .zip of images, or the name of a built-in data set such as digits or redwine.
            With --resume: the new path of the data, if they were moved.
        model: Model family. Default: ebm, an energy-based model.
        objective: Training objective. Default: that of the model.
        derivative: How to differentiate the model. taylor is exact, fd works with any model; see
            docs/engines.md. Default: that of the objective.
        iterations: Largest number of training iterations. Training stops earlier if the held-out
            loss no longer improves. Default: chosen from the number of rows.
        categorical: Columns of a table to take as categorical, for example --categorical zip,code.
        numeric: Columns of a table to take as numeric. Cells that are not numbers are missing.
        ignore: Columns of a table that the model must not see.
        columns: Columns of a table to use, in this order. Default: all.
        settings: Change any other setting, for example --set optimizer.lr=1e-3 or
            --set data.seed=1. May be repeated. config.json lists all settings.
        recipe: Train a recipe of your own instead of a preset.
        seed: Random seed.
        device: Device, such as cpu, cuda or mps. Default: cpu.
        out: Folder of the run. Default: runs/NAME, named after the data.
        resume: Continue the run in this folder.
        threads: Largest number of threads. Default: torch's.
        compile: Compile the training step, loss, gradient and optimizer, as one graph. That takes
            half a minute or more and makes steps of small networks up to three times faster.
            Default: auto, if it saves more time than it takes. Steps of several processes are not
            compiled.
        accumulate: Compute a batch in this many parts, one after the other. The gradient is the
            same, and needs less memory.
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
    chosen_columns = {
        "categorical": categorical,
        "numeric": numeric,
        "ignore": ignore,
        "columns": columns,
    }
    given = [f"data.{name}={','.join(names)}" for name, names in chosen_columns.items() if names]
    options = (model, objective, derivative)

    def choose() -> "tuple[Run, Dataset]":
        if resume is None:
            changed = _split_settings([*settings, *given], iterations)
            recipe_and_data = _recipe_and_data(data, recipe, options, *changed)
            return _new_run(*recipe_and_data, out, data, seed=seed, device=device)
        others = (*options, iterations, recipe, out, seed or None)
        if given or settings or any(option is not None for option in others):
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
    data: str,
    file: str | None,
    options: tuple[Model, Objective, Derivative],
    reading: Sequence[str],
    changes: Sequence[str],
) -> "tuple[Recipe, Dataset, dict[str, str]]":
    """Return the recipe of a file or a preset, its data, and the origin for `Run`."""
    if file is None:
        return _recipe_of_preset(data, options, reading, changes)
    if any(options):
        raise UsageError("--recipe replaces --model, --objective and --derivative")
    return _recipe_of_file(file, data, reading, changes)


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
    from paper.runs import Run

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


def _recipe_of_preset(
    data: str,
    options: tuple[Model, Objective, Derivative],
    reading: Sequence[str],
    changes: Sequence[str],
) -> "tuple[Recipe, Dataset, dict[str, str]]":
    """Return the recipe that a preset gives for the data, the data, and the origin for `Run`."""
    from paper.recipes.presets import choose_preset, prepare_source
    from paper.recipes.settings import change_settings

    if not data:
        raise UsageError("give the data to train on, for example: fdsm train measurements.csv")
    model, objective, derivative = options
    source = prepare_source(_source(data, reading), model=model or "ebm", objective=objective)
    source = change_settings(source, reading)
    dataset = source.load()
    log(_describe_data(data, source, dataset))
    preset = choose_preset(
        source, dataset, model=model or "ebm", objective=objective, derivative=derivative
    )
    recipe = change_settings(preset.recipe, changes)
    if recipe.data != source:
        dataset = replace(dataset, transform=recipe.data.transform.fit(dataset.train))
    log(
        f"Preset {preset.name}, chosen for {preset.reason}: {preset.description}, at most "
        f"{recipe.plan.iterations:,} iterations of {recipe.plan.batch} rows. Change it with "
        "--model, --objective, --derivative, --iterations or --set."
    )
    return recipe, dataset, {"preset": preset.name, "description": preset.description}


def _recipe_of_file(
    reference: str, data: str, reading: Sequence[str], changes: Sequence[str]
) -> "tuple[Recipe, Dataset, dict[str, str]]":
    """Return a recipe of the user's file, its data, and the origin for `Run`."""
    from paper.recipes.settings import change_settings
    from paper.runs import recipe_from_file

    recipe, origin = recipe_from_file(reference)
    if data:
        recipe = recipe.with_data(_source(data, reading))
    recipe = change_settings(recipe, [*(f"data.{setting}" for setting in reading), *changes])
    dataset = recipe.data.load()
    log(_describe_data(data or reference, recipe.data, dataset))
    return recipe, dataset, origin


def _describe_data(name: str, source: "Source", data: "Dataset") -> str:
    """Return sentences on the number of rows, the types of the columns and problems of cells."""
    from ..tables.schema.copies import copies_sentence

    parts = {"training": data.train, "validation": data.validation, "test": data.test}
    counts = ", ".join(f"{len(rows):,} {part}" for part, rows in parts.items() if len(rows))
    total = sum(map(len, parts.values()))
    shape = tuple(data.train.shape[1:])
    if data.schema is not None:
        missing = 100 * float(data.train.isnan().double().mean())
        gaps = f", {missing:.2g} % of the cells missing" if missing else ""
        rest = f"; {counts}" if len(data.test) else ""
        sentences = [f"Read {name}: {total:,} rows, {data.schema.describe()}{gaps}{rest}."]
        if dropped := data.record.get("dropped_rows"):
            sentences.append(f"{dropped:,} rows without any value were left out.")
        sentences += [
            f"{sentence[0].upper()}{sentence[1:]}." for sentence in unreadable_cells(data.schema)
        ]
        if copies := copies_sentence(data.record):
            sentences.append(f"{copies}.")
        return " ".join(sentences)
    if data.columns is None:
        size = getattr(source, "size", None)
        resized = f" (resized to {size} × {size}; see --set data.size)" if size else ""
        what = f"of shape {shape}{resized}"
    else:
        more = ", ..." if len(data.columns) > 12 else ""
        what = f"with {len(data.columns)} columns ({', '.join(data.columns[:12])}{more})"
    return f"Read {name}: {total:,} rows {what}; {counts}."


def _source(data: str, settings: Sequence[str]) -> "Source":
    """Return the source of a file or folder, with its absolute path, or a built-in data set."""
    from paper.data import BUILTIN_NAMES, builtin_source, from_path

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
    from paper.data import DataError

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
            f"fdsm train --resume {folder}"
        )
    number = 2
    while (numbered := folder.with_name(f"{folder.name}-{number}")) and numbered.exists():
        number += 1
    return numbered


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
    from paper.runs import train as train_run
    from paper.runs.distributed import evaluated_together, train_together

    log(f"Training in {run.folder}{parts_sentence(parallel)}")
    try:
        if parallel.parts == 1:
            saved = train_run(
                run, data, console=console(), tensorboard=tensorboard, compile=compile
            )
        else:
            saved = train_together(run, data, parallel, console=console(), tensorboard=tensorboard)
    except KeyboardInterrupt:
        log(f"fdsm: {_next_step(run, 'Continue with')}")
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
    log(
        f"Trained {saved.progress['iterations']:,} iterations in {saved.progress['seconds']:.0f} s"
    )
    with evaluated_together(saved, parallel.world) as model:
        parallel.world.together(lambda: evaluate_and_print(model, data, json=json))
