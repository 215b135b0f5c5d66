"""What several processes do together in one launch, since starting them takes seconds."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from fdsm import DSM, SSM, Autodiff
from fdsm.training.distributed import (
    DistributedLoss,
    UnsynchronizedGradients,
    World,
    require_same_gradients,
)
from fdsm.training.distributed.world import FailedElsewhere

from ...derivatives.processes import free_port
from .gradient_cases import all_gradients, given, network

STEPS = torch.randn(2, 3, 8, 3, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
"""Rows and directions of a training loop of one's own: three steps of eight rows."""


def gradient_outside(world: World) -> str:
    """Wrap the model alone in `DistributedDataParallel` and train it with DSM."""
    model = network("DSM", torch.float64)
    wrapped = DistributedDataParallel(model)
    DSM(0.3)(wrapped, STEPS[0, 0].chunk(world.size)[world.rank]).mean().backward()
    try:
        require_same_gradients(model.parameters())
    except UnsynchronizedGradients as error:
        return str(error)
    return "no error"


def own_loop(world: World) -> list[Tensor]:
    """Train with `DistributedLoss`. The fourth step adds the gradients of two batches."""
    model = network("SSM", torch.float64)
    optimizer = torch.optim.Adam(model.parameters())
    loss = DistributedLoss(given(SSM(Autodiff()).at), model, optimizer)
    mine = STEPS.chunk(world.size, 2)[world.rank]
    for x, v in mine.unbind(1):
        optimizer.zero_grad()
        loss(x, v).backward()
        optimizer.step()
    optimizer.zero_grad()
    with loss.no_sync():
        loss(*mine[:, 0]).backward()
    loss(*mine[:, 1]).backward()
    optimizer.step()
    return [p.detach() for p in model.parameters()]


def own_generators(world: World) -> tuple[float, list[Tensor]]:
    """Train with a generator of its own in each process. Return the loss and the weights."""
    model = network("DSM", torch.float64)
    optimizer = torch.optim.Adam(model.parameters())
    loss = DistributedLoss(DSM(0.3), model, optimizer)
    value = loss(STEPS[0, 0], generator=torch.Generator().manual_seed(world.rank))
    value.backward()
    optimizer.step()
    return value.item(), [p.detach() for p in model.parameters()]


def own_loop_refusals(world: World) -> list[str]:
    """Use `DistributedLoss` wrongly, and return the errors."""
    model = network("DSM", torch.float64)
    optimizer = torch.optim.Adam(model.parameters())
    mistakes: list[Callable[[], object]] = [
        lambda: DistributedLoss(DSM(0.3), DistributedDataParallel(model), optimizer),
        lambda: DistributedLoss(DSM(0.3), model, optimizer)(STEPS[0, 0][: 3 + world.rank]),
    ]
    messages = []
    for mistake in mistakes:
        try:
            mistake()
        except ValueError as error:
            messages.append(str(error))
    return messages


def world_methods(world: World) -> dict[str, object]:
    """Return the results of the methods of `World` in this process."""

    def fails_in(rank: int) -> str:
        def function() -> str:
            if world.rank >= rank:
                raise ArithmeticError(f"failed in {world.rank}")
            return "worked"

        try:
            return world.together(function)
        except (ArithmeticError, FailedElsewhere) as error:
            return f"{type(error).__name__}: {error}"

    return {
        "gather": world.gather(world.rank * 10),
        "broadcast": world.broadcast(f"from {world.rank}"),
        "by_leader": world.by_leader(lambda: world.rank),
        "all work": fails_in(world.size),
        "one fails": fails_in(1),
        "all fail": fails_in(0),
    }


CASES: dict[str, Callable[[World], object]] = {
    case.__name__: case
    for case in (
        all_gradients,
        gradient_outside,
        own_loop,
        own_generators,
        own_loop_refusals,
        world_methods,
    )
}


def run_cases(rank: int, size: int, port: int, folder: str) -> None:
    """Run every case in one of several processes, and write the results."""
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)  # as in all tests
    os.environ["GLOO_SOCKET_IFNAME"] = "lo" if sys.platform == "linux" else "lo0"
    address = f"tcp://127.0.0.1:{port}"
    dist.init_process_group("gloo", init_method=address, rank=rank, world_size=size)
    world = World(rank, size, dist.group.WORLD)
    found = {name: case(world) for name, case in CASES.items()}
    torch.save(found, Path(folder) / f"{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()


def results(size: int, folder: Path) -> dict[str, list[object]]:
    """Return the results of every case by rank."""
    mp.spawn(run_cases, (size, free_port(), str(folder)), nprocs=size)
    ranks = [torch.load(folder / f"{rank}.pt", weights_only=False) for rank in range(size)]
    return {name: [one[name] for one in ranks] for name in CASES}
