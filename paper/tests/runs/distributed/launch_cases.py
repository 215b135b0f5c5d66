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

from fdsm import DSM, SSM, Taylor
from fdsm.atomic_io import exclusive
from fdsm.cli import main
from fdsm.samplers import importance
from fdsm.training.distributed.world import Launch, World, join
from paper.recipes import MLP, Recipe
from paper.runs import Run, train
from paper.runs.distributed import Parallel, train_together
from tests.parameters import SHORT_ESTIMATES

from ...recipes.recipe_cases import dropping, tiny
from ..run_cases import write_table

RECIPE = replace(
    tiny,
    name="taylor",
    objective=SSM(Taylor()),
    network=MLP((16, 9)),
    plan=replace(tiny.plan, iterations=12, validate_every=4, checkpoint_every=4, patience=100),
)
RECIPE = replace(RECIPE, plan=replace(RECIPE.plan, keep_checkpoints=5))
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


COMMANDS: dict[str, list[str]] = {
    "trains": ["t.csv", "--out", "table", "--iterations", "6", "--set", "plan.num_samples=50"],
    "diverges": ["t.csv", "--out", "diverges", "--set", "optimizer.lr=1e30"],
    "busy": ["t.csv", "--out", "busy", "--iterations", "6"],
    "small batch": ["t.csv", "--out", "no", "--set", "plan.batch=1"],
    "kernel": ["t.csv", "--out", "no", "--model", "kernel", "--set", "inducing=20"],
    "compile": ["t.csv", "--out", "no", "--compile", "on"],
    "missing": ["missing.csv", "--out", "no"],
    "layers": ["t.csv", "--out", "no", "--fsdp", "layers"],
    "accumulate": ["t.csv", "--out", "no", "--accumulate", "0"],
    "timeout": ["t.csv", "--out", "no", "--timeout", "0"],
    "device": ["t.csv", "--out", "no", "--device", "mps"],
    "differ": ["t.csv", "--out", "no", "--iterations", "{rank}"],
    "one fails": ["t.csv", "--out", "no"],
}
"""Options of `fdsm train` for two processes."""
OTHER_COMMANDS: dict[str, list[str]] = {
    "report": ["report", "table"],
    "score": ["score", "table", "new.csv", "--out", "together.csv"],
    "score, taken": ["score", "table", "new.csv", "--out", "t.csv"],
    "score, no run": ["score", "nothing", "new.csv"],
    "score, bad data": ["score", "table", "other.csv", "--out", "bad.csv"],
    "sample": ["sample", "table", "-n", "7", "--out", "together.npy"],
    "sample, taken": ["sample", "table", "--out", "t.csv"],
    "evaluate": ["evaluate", "table"],
}
"""Other commands for two processes."""


def command(name: str, rank: int, attempt: int) -> tuple[int, str, str]:
    """Run a command as torchrun does. Return the exit code and what was printed."""
    words = OTHER_COMMANDS.get(name) or ["train", *COMMANDS[name]]
    argv = [word.format(rank=rank) for word in words]
    launch = {"RANK": rank, "WORLD_SIZE": 2, "TORCHELASTIC_RESTART_COUNT": attempt}
    environment = {key: str(value) for key, value in launch.items()}
    out, errors, code = StringIO(), StringIO(), 0
    with (
        patch.dict(os.environ, environment),
        patch.object(sys, "argv", ["fdsm", *argv]),
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
    "dropout": (dropping, Parallel()),
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


def communication_threads() -> set[str]:
    """Return the numbers of gloo's threads in this process, on Linux."""
    threads = Path("/proc/self/task").glob("*/comm")
    return {path.parent.name for path in threads if "gloo" in path.read_text()}


def work(rank: int, folder: str, port: int) -> None:
    """Run all cases in one of three processes."""
    torch.set_num_threads(1)
    for name, value in SHORT_ESTIMATES.items():
        setattr(importance, name, value)
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
    for name in (*COMMANDS, *OTHER_COMMANDS):
        attempt, before = next(attempts), communication_threads()
        if rank < 2:
            found[name] = command(name, rank, attempt)
        if name == "trains":
            found["new threads"] = communication_threads() - before
    torch.save(found, path / f"{rank}.pt")


def results(folder: Path) -> list[dict[str, tuple[int, str, str]]]:
    """Train all runs in a folder. Return the output of the commands with two processes."""
    torch.set_default_dtype(torch.float32)  # as users do
    write_table(folder / "t.csv", rows=60)
    new = write_table(folder / "new.csv", rows=31, seed=1)
    new.write_text(new.read_text("utf-8") + "\n9,-7\n0.1,8\nx,0\n", encoding="utf-8")
    (folder / "other.csv").write_text("height,width\n1,2\n")
    (folder / "elsewhere").mkdir()
    train(start(folder / "one"))
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)  # as in torchrun
    (folder / "busy").mkdir()
    with exclusive(folder / "busy"):
        mp.spawn(work, (str(folder), store.port), nprocs=3)
    for case in THIRD:
        train(halfway(folder / case.source, folder / case.target))
    return [torch.load(folder / f"{rank}.pt", weights_only=False) for rank in range(2)]
