"""Commands that torchrun starts in several processes."""

import json
import os
import sys
import warnings
from collections.abc import Generator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NoReturn

from .options import UsageError

if TYPE_CHECKING:
    from ..runs.distributed import Parallel
    from ..runs.distributed.world import World

WAITING = 600.0
"""Seconds that a process waits for another one, by default."""
NOT_COMPILED = "Steps of several processes, or of several parts of a batch, are not compiled."


def number_of_processes() -> int:
    """Return the number of processes that torchrun has started."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def prepare_launch(command: str = "") -> None:
    """Check a command that may have been started by torchrun, before torch is imported.

    Args:
        command: The name of the command.
    """
    if number_of_processes() == 1:
        return
    # Otherwise torch prints remarks about the search for unused parameters in every process.
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    if command != "train":
        _refuse(f"torchrun can start `train` only: run `python -m paper {command}` directly")


def _refuse(message: str) -> NoReturn:
    """Refuse something that is the same in all processes, before they have joined."""
    from ..runs.distributed.world import FailedElsewhere

    raise UsageError(message) if os.environ.get("RANK", "0") == "0" else FailedElsewhere(0)


@contextmanager
def joined(device: str | None, seconds: float) -> "Generator[World]":
    """Join the processes of a launch. Only the first one prints.

    Args:
        device: The device of the model.
        seconds: How long a process waits for another one.

    Yields:
        The processes.

    Raises:
        LaunchError: If they do not find each other, or have different options.
    """
    from ..runs.distributed.world import Launch, LaunchError, join

    launch = Launch.of_environment()
    if seconds <= 0:
        _refuse(f"--timeout must be positive, but is {seconds:g}")
    if problem := launch.problem(device or "cpu"):
        _refuse(problem)
    with join(launch, device or "cpu", seconds) as world, _printing(world):

        def compare() -> None:
            if len({tuple(arguments) for arguments in everyone}) > 1:
                raise LaunchError("the processes were started with different options")

        everyone = world.gather(sys.argv[1:])
        world.together(compare)
        yield world


@contextmanager
def _printing(world: "World") -> Generator[None]:
    """Let only the first process print. Errors are printed after this."""
    if world.is_leader:
        yield
        return
    with (
        open(os.devnull, "w", encoding="utf-8") as nothing,
        redirect_stdout(nothing),
        redirect_stderr(nothing),
        warnings.catch_warnings(action="ignore"),
    ):
        yield


def in_parallel(
    world: "World", fsdp: Literal["root", "layers"] | None, accumulate: int, compile: str
) -> "Parallel":
    """Return how the batches of a run are divided.

    Args:
        world: The processes.
        fsdp: Which weights are gathered at once.
        accumulate: Number of parts that a process computes one after the other.
        compile: Whether to compile the step.

    Returns:
        The settings.

    Raises:
        UsageError: If the options contradict each other.
    """
    from ..runs.distributed import Parallel
    from ..runs.distributed.world import Launch

    if accumulate < 1:
        raise UsageError(f"--accumulate must be at least 1, but is {accumulate}")
    if fsdp is not None and world.size == 1:
        raise UsageError("--fsdp divides weights among processes: start them with torchrun")
    launch = Launch.of_environment().name if world.size > 1 else ""
    parallel = Parallel(world, fsdp, accumulate, launch)
    if parallel.parts > 1 and compile == "on":
        raise UsageError(f"{NOT_COMPILED} Leave out --compile on")
    return parallel


def parts_sentence(parallel: "Parallel") -> str:
    """Return how a run is divided, to continue a sentence; empty if it is not."""
    if parallel.parts == 1:
        return ""
    count = parallel.world.size
    processes = f" with {count} processes" if count > 1 else ""
    return f"{processes}. {NOT_COMPILED}"


def folder_of_restarted(folder: Path) -> Path | None:
    """Return the folder in which processes were training before torchrun restarted them.

    Args:
        folder: The folder of the run, or that without the number that was added to its name.

    Returns:
        The folder; `None` if they were not restarted, or had not begun to train.
    """
    from ..runs.distributed.world import Launch

    launch = Launch.of_environment()
    if not launch.restarts:
        return None
    for path in [folder, *folder.parent.glob(f"{folder.name}-*")]:
        record = path / "launch.json"
        if record.exists() and json.loads(record.read_text("utf-8"))["name"] == launch.name:
            return path
    return None
