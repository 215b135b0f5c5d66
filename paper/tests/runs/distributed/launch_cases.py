"""Runs that several processes train together, in one launch of three processes."""

import os
import shutil
import sys
import traceback
import warnings
from collections.abc import Callable
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from io import StringIO
from itertools import count
from pathlib import Path
from typing import Literal
from unittest.mock import patch

import torch
import torch.multiprocessing as mp
from torch.distributed import TCPStore

from fdsm import DSM, SM, Taylor
from paper.__main__ import main
from paper.lock import exclusive
from paper.recipes import MLP, Recipe
from paper.runs import Run, train
from paper.runs.distributed import Parallel, train_together
from paper.runs.distributed.train import DistributedTraining
from paper.runs.distributed.world import Launch, World, join

from ...recipes.recipe_cases import tiny
from ..run_cases import RECIPE_FILE, TINY, write_array

RECIPE = replace(
    tiny,
    name="taylor",
    objective=SM(Taylor()),
    network=MLP((16, 9)),
    plan=replace(
        tiny.plan,
        iterations=12,
        batch=30,
        validate_every=4,
        checkpoint_every=4,
        patience=100,
        keep_checkpoints=5,
    ),
)
"""Its loss takes no random numbers, so any number of processes that divides 30 trains alike."""
RESUMED_AT = 8


def start(folder: Path) -> Run:
    """Return a new run."""
    return Run.create(folder, RECIPE)


def halfway(source: Path, target: Path) -> Run:
    """Copy a finished run as it was after eight iterations."""
    shutil.copytree(source, target)
    (target / "model.safetensors").unlink()
    for path in (target / "checkpoints").glob("0*.safetensors"):
        if int(path.stem) > RESUMED_AT:
            path.unlink()
    return Run.open(target)


@dataclass(frozen=True)
class Resumed:
    """A run that other processes have begun."""

    source: str
    target: str
    size: int
    fsdp: Literal["root", "layers"] | None = None
    accumulate: int = 1


FIRST = [
    Resumed("", "two", 2),
    Resumed("", "three", 3),
    Resumed("", "layers", 2, "layers"),
    Resumed("", "accumulated", 2, None, 2),
]
"""Runs from the start."""
SECOND = [
    Resumed("one", "one, then two", 2),
    Resumed("one", "one, then three", 3),
    Resumed("one", "one, then root", 3, "root"),
    Resumed("two", "two, then three", 3),
    Resumed("three", "three, then two", 2),
    Resumed("layers", "layers, then two", 2),
    Resumed("two", "two, then layers", 2, "layers", 2),
]
THIRD = [Resumed(name, f"{name}, then one", 1) for name in ("two", "three", "layers")]
"""Runs that are resumed by one process, by an ordinary `train`."""


def execute(case: Resumed, folder: Path, world: World) -> None:
    """Train a run, or its last third."""
    target = folder / case.target
    if case.source:
        world.by_leader(lambda: halfway(folder / case.source, target))
        run = Run.open(target)
    else:
        run = start(target)
    parallel = Parallel(world, case.fsdp, case.accumulate)
    train_together(run, run.recipe.data.load(), parallel)


OPTIONS = ["--recipe", TINY, "--iterations", "6"]
COMMANDS: dict[str, list[str]] = {
    "trains": ["train", *OPTIONS, "--out", "tiny"],
    "diverges": ["train", *OPTIONS, "--out", "diverges", "--set", "optimizer.lr=1e30"],
    "busy": ["train", *OPTIONS, "--out", "busy"],
    "small batch": ["train", *OPTIONS, "--out", "no", "--set", "plan.batch=1"],
    "kernel": ["train", "--recipe", f"{RECIPE_FILE}:kernel", "--out", "no"],
    "compile": ["train", *OPTIONS, "--out", "no", "--compile", "on"],
    "missing": ["train", "missing.npy", *OPTIONS, "--out", "no"],
    "layers": ["train", "--recipe", f"{RECIPE_FILE}:dropping", "--out", "no", "--fsdp", "layers"],
    "accumulate": ["train", *OPTIONS, "--out", "no", "--accumulate", "0"],
    "timeout": ["train", *OPTIONS, "--out", "no", "--timeout", "0"],
    "device": ["train", *OPTIONS, "--out", "no", "--device", "mps"],
    "differ": ["train", "--recipe", TINY, "--out", "no", "--iterations", "{rank}"],
    "one fails": ["train", "a.npy", *OPTIONS, "--out", "no"],
    "report": ["report", "tiny"],
    "sample": ["sample", "tiny"],
}
"""Commands of two processes."""


def command(name: str, rank: int, attempt: int) -> tuple[int, str, str]:
    """Run a command as torchrun does. Return the exit code and what was printed."""
    argv = [word.format(rank=rank) for word in COMMANDS[name]]
    launch = {"RANK": rank, "WORLD_SIZE": 2, "TORCHELASTIC_RESTART_COUNT": attempt}
    environment = {key: str(value) for key, value in launch.items()}
    out, errors, code = StringIO(), StringIO(), 0
    with (
        patch.dict(os.environ, environment),
        patch.object(sys, "argv", ["paper", *argv]),
        chdir("elsewhere" if name == "one fails" and rank == 1 else "."),
        redirect_stdout(out),
        redirect_stderr(errors),
    ):
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
        except Exception:
            code = 99
            traceback.print_exc()
    return code, out.getvalue(), errors.getvalue()


REFUSED: dict[str, tuple[Recipe, Parallel]] = {
    "scalar": (tiny, Parallel(fsdp="root")),
    "inner gradient": (replace(RECIPE, objective=DSM(0.3)), Parallel(fsdp="layers")),
}
"""Recipes that cannot be divided."""


def refusal(name: str, folder: Path, world: World) -> str:
    """Return why a recipe cannot be divided."""
    recipe, parallel = REFUSED[name]
    run = Run.create(folder / name, recipe)
    try:
        train_together(run, run.recipe.data.load(), replace(parallel, world=world))
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


def generator_seed(folder: Path, world: World) -> int:
    """Return the seed of the random numbers of this process at the start of a training."""
    run = Run.create(folder / "nothing", RECIPE)
    training = DistributedTraining(run, run.recipe.data.load(), Parallel(world))
    training.copy_state_of_leader()
    return training.generator.initial_seed()


def communication_threads() -> set[str]:
    """Return the numbers of gloo's threads in this process, on Linux."""
    threads = Path("/proc/self/task").glob("*/comm")
    return {path.parent.name for path in threads if "gloo" in path.read_text()}


def work(rank: int, folder: str, port: int) -> None:
    """Run all cases in one of three processes."""
    torch.set_num_threads(1)
    warnings.simplefilter("error")
    os.environ["GLOO_SOCKET_IFNAME"] = "lo" if sys.platform == "linux" else "lo0"
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    os.environ["TORCHELASTIC_USE_AGENT_STORE"] = "True"
    os.chdir(folder)
    attempts = count(1)
    path, found = Path(folder), {}

    def together(size: int, function: Callable[[World], object]) -> object:
        launch = Launch(rank, size, restarts=next(attempts), shares_store=True)
        if rank >= size:
            return None
        with join(launch, "cpu", 60) as world:
            return function(world)

    for case in (*FIRST, *SECOND):
        together(case.size, lambda world, case=case: execute(case, path, world))
    for name in REFUSED:
        found[name] = together(2, lambda world, name=name: refusal(name, path, world))
    found["seed"] = together(2, lambda world: generator_seed(path, world))
    for name in COMMANDS:
        attempt, before = next(attempts), communication_threads()
        if rank < 2:
            found[name] = command(name, rank, attempt)
        if name == "trains":
            found["new threads"] = communication_threads() - before
    torch.save(found, path / f"{rank}.pt")


def results(folder: Path) -> list[dict[str, tuple[int, str, str]]]:
    """Train all runs in a folder. Return the output of the commands with two processes."""
    torch.set_default_dtype(torch.float32)  # as users do
    write_array(folder / "a.npy", rows=60)
    (folder / "elsewhere").mkdir()
    train(start(folder / "one"))
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)  # as in torchrun
    (folder / "busy").mkdir()
    with exclusive(folder / "busy"):
        mp.spawn(work, (str(folder), store.port), nprocs=3)
    for case in THIRD:
        train(halfway(folder / case.source, folder / case.target))
    return [torch.load(folder / f"{rank}.pt", weights_only=False) for rank in range(2)]
