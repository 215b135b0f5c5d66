"""The processes that train together, as started by torchrun."""

import gc
import importlib
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeVar

import torch
from torch import distributed
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

__all__ = [
    "SINGLE_PROCESS",
    "AgreedStop",
    "FailedElsewhere",
    "Launch",
    "LaunchError",
    "World",
    "is_lost",
    "join",
]

T = TypeVar("T")

LOST_CONNECTION_TEXTS = ("gloo", "NCCL", "caused pair closure", "closed by peer", "reset by peer")
"""Parts of the errors of torch's communication, which have no type of their own."""
LONG_TIMEOUT = timedelta(days=365)
"""Time-out of processes that wait while one of them evaluates or writes."""


class LaunchError(ValueError):
    """The processes cannot train together, and why."""


def is_lost(error: Exception) -> bool:
    """Return whether an error says that another process has ended or does not answer."""
    return isinstance(error, RuntimeError) and any(
        text in str(error) for text in LOST_CONNECTION_TEXTS
    )


class FailedElsewhere(Exception):
    """Another process has failed, and prints its error.

    Attributes:
        rank: The rank of that process.
    """

    def __init__(self, rank: int) -> None:
        super().__init__(f"process {rank} has failed")
        self.rank = rank


@dataclass(frozen=True)
class Launch:
    """What torchrun says about this process, in environment variables.

    Attributes:
        rank: Number of the process, from 0 on.
        size: Number of processes.
        local_rank: Number of the process on its machine.
        nodes: Number of machines.
        restarts: How often the processes were restarted.
        max_restarts: How often they may be restarted.
        shares_store: Whether restarted processes use the store of torchrun.
        name: A name that restarted processes share and other launches do not have.
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    nodes: int = 1
    restarts: int = 0
    max_restarts: int = 0
    shares_store: bool = False
    name: str = ""

    @classmethod
    def of_environment(cls) -> "Launch":
        """Return the launch of this process. Without torchrun it is the only one."""

        def number(name: str, default: int = 0) -> int:
            return int(os.environ.get(name, default))

        name = os.environ.get("TORCHELASTIC_RUN_ID", "none")
        return cls(
            number("RANK"),
            number("WORLD_SIZE", 1),
            number("LOCAL_RANK"),
            number("GROUP_WORLD_SIZE", 1),
            number("TORCHELASTIC_RESTART_COUNT"),
            number("TORCHELASTIC_MAX_RESTARTS"),
            os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True",
            # Without --rdzv-id the parent process, torchrun, stays the same in a restart.
            name if name != "none" else f"{os.uname().nodename} {os.getppid()}",
        )

    def problem(self, device: str) -> str:
        """Return why the processes cannot train together on a device; empty if they can.

        With the store of torchrun, a restarted process can read the address of one that is gone.
        On one machine the count of restarts keeps attempts apart. On several machines the counts
        differ.
        """
        kind, *_ = device.split(":")
        if self.size > 1 and kind not in {"cpu", "cuda"}:
            return f"several processes can train on cpu or cuda, but not on {kind}"
        if self.nodes > 1 and self.max_restarts and self.shares_store:
            return (
                "restarts on several machines need TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 in the "
                "environment of torchrun on each of them (or --max-restarts 0)"
            )
        return ""


@dataclass(eq=False)
class World:
    """This process among those that train together.

    Attributes:
        rank: Number of this process, from 0 on.
        size: Number of processes.
        waiting: A process group without a time-out, on the CPU.
    """

    rank: int = 0
    size: int = 1
    waiting: distributed.ProcessGroup | None = field(default=None, repr=False)

    @property
    def is_leader(self) -> bool:
        """Whether this process writes files and prints."""
        return self.rank == 0

    def gather(self, value: T) -> list[T]:
        """Return the values of all processes, by rank. Processes wait for each other."""
        if self.size == 1:
            return [value]
        values: list[T] = [value] * self.size
        distributed.all_gather_object(values, value, group=self.waiting)
        return values

    def broadcast(self, value: T) -> T:
        """Return the value of the leader."""
        if self.size == 1:
            return value
        values = [value]
        distributed.broadcast_object_list(values, src=0, group=self.waiting)
        return values[0]

    def together(self, function: Callable[[], T]) -> T:
        """Call a function in every process, and fail in all of them if it fails in one.

        Args:
            function: The function.

        Returns:
            Its result in this process.

        Raises:
            Exception: That of the function, in the first process in which it failed.
            FailedElsewhere: In all other processes.
        """
        error: Exception | None = None
        try:
            result = function()
        except Exception as caught:
            if is_lost(caught):
                raise  # the others do not answer
            error = caught
        failed = [rank for rank, bad in enumerate(self.gather(error is not None)) if bad]
        if failed and self.rank != failed[0]:
            raise FailedElsewhere(failed[0]) from error
        if error is not None:
            raise error
        return result

    def by_leader(self, function: Callable[[], T]) -> T | None:
        """Call a function in the leader while the others wait; see `together`."""
        return self.together(lambda: function() if self.is_leader else None)


SINGLE_PROCESS = World()
"""A single process."""


@contextmanager
def join(launch: Launch, device: str, seconds: float) -> Generator[World]:
    """Join the other processes.

    Args:
        launch: The launch of this process.
        device: The device of the training, `"cpu"` or `"cuda"`.
        seconds: Time after which a process stops waiting for another one in training.

    Yields:
        The processes.

    Raises:
        LaunchError: If they do not find each other.
    """
    if launch.size == 1:
        yield SINGLE_PROCESS
        return
    if problem := launch.problem(device):
        raise LaunchError(problem)
    # Its functions have the process group at the time of this import as a default argument. A
    # later import, as by DistributedDataParallel, would keep the group alive forever.
    importlib.import_module("torch.distributed.nn.functional")
    on_gpu = torch.device(device).type == "cuda"
    if on_gpu:
        torch.cuda.set_device(launch.local_rank)
    backend = "cpu:gloo,cuda:nccl" if on_gpu else "gloo"
    limit = timedelta(seconds=seconds)
    try:
        store, *_ = next(rendezvous("env://", launch.rank, launch.size, timeout=limit))
        if launch.shares_store:
            store = PrefixStore(f"attempt {launch.restarts}", store)
        distributed.init_process_group(
            backend, store=store, rank=launch.rank, world_size=launch.size, timeout=limit
        )
        waiting = distributed.new_group(backend="gloo", timeout=LONG_TIMEOUT)
    except (RuntimeError, ValueError) as error:
        address = f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}"
        reason = str(error).splitlines()[0]
        raise LaunchError(
            f"process {launch.rank} of {launch.size} did not find the others at {address} within "
            f"{seconds:.0f} s. Is the port taken, or did a process end? ({reason})"
        ) from error
    world = World(launch.rank, launch.size, waiting)
    del waiting, store
    try:
        yield world
    finally:
        # The threads of a process group end with the last reference to it. If they are alive when
        # Python shuts down, they sometimes abort the process.
        world.waiting = None
        gc.collect()
        distributed.destroy_process_group()


class AgreedStop:
    """Whether any process has received a signal, for `fit`.

    The answer is that of the iteration before. So it is the same in all processes, and none waits
    for it.
    """

    def __init__(self) -> None:
        self._pending: tuple[torch.Tensor, distributed.Work] | None = None

    def __call__(self, received: bool) -> bool:
        """Tell the others about a signal. Return whether any has received one before."""
        stop = self.wait()
        flags = torch.tensor(float(received))
        work = distributed.all_reduce(flags, async_op=True)
        assert work is not None
        self._pending = flags, work
        return stop

    def wait(self) -> bool:
        """Wait for the last answer, so that no message is left when the processes part."""
        if self._pending is None:
            return False
        flags, work = self._pending
        work.wait()
        self._pending = None
        return bool(flags)
