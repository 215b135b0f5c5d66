"""What several processes do together in one launch, since starting them takes seconds."""

import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from fdsm import DSM, SSM, Autodiff, FiniteDifference
from fdsm.training import compiled_step
from fdsm.training.distributed import (
    DistributedLoss,
    UnsynchronizedGradients,
    require_same_gradients,
)

from ...derivatives.processes import free_port
from .gradient_cases import all_gradients, given, network

STEPS = torch.randn(2, 3, 8, 3, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
"""Rows and directions of a training loop of one's own: three steps of eight rows."""


def gradient_outside(rank: int, size: int) -> str:
    """Wrap the model alone in `DistributedDataParallel` and train it with DSM."""
    model = network("DSM", torch.float64)
    wrapped = DistributedDataParallel(model)
    DSM(0.3)(wrapped, STEPS[0, 0].chunk(size)[rank]).mean().backward()
    try:
        require_same_gradients(model.parameters())
    except UnsynchronizedGradients as error:
        return str(error)
    return "no error"


def own_loop(rank: int, size: int) -> list[Tensor]:
    """Train with `DistributedLoss`. The fourth step adds the gradients of two batches."""
    model = network("SSM", torch.float64)
    optimizer = torch.optim.Adam(model.parameters())
    loss = DistributedLoss(given(SSM(Autodiff()).at), model, optimizer)
    mine = STEPS.chunk(size, 2)[rank]
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


def own_generators(rank: int, size: int) -> tuple[float, list[Tensor]]:
    """Train with a generator of its own in each process. Return the loss and the weights."""
    model = network("DSM", torch.float64)
    optimizer = torch.optim.Adam(model.parameters())
    loss = DistributedLoss(DSM(0.3), model, optimizer)
    value = loss(STEPS[0, 0], generator=torch.Generator().manual_seed(rank))
    value.backward()
    optimizer.step()
    return value.item(), [p.detach() for p in model.parameters()]


def own_loop_refusals(rank: int, size: int) -> list[str]:
    """Use `DistributedLoss` wrongly, and return the errors."""
    model = network("DSM", torch.float64)
    optimizer = torch.optim.Adam(model.parameters())
    mistakes: list[Callable[[], object]] = [
        lambda: DistributedLoss(DSM(0.3), DistributedDataParallel(model), optimizer),
        lambda: DistributedLoss(DSM(0.3), model, optimizer)(STEPS[0, 0][: 3 + rank]),
    ]
    messages = []
    for mistake in mistakes:
        try:
            mistake()
        except ValueError as error:
            messages.append(str(error))
    return messages


def compiled_step_of_wrapped(rank: int, size: int) -> tuple[list[str], list[Tensor]]:
    """Train a wrapped model eagerly, then with a compiled step. Return warnings and weights.

    After some steps the wrapper does not change its attributes any more.
    """
    model = network("FD-SSM", torch.float64)
    wrapped = DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model.parameters())
    objective = given(SSM(FiniteDifference()).at)
    (x, v), *others = STEPS.chunk(size, 2)[rank].unbind(1)
    for _ in range(3):
        optimizer.zero_grad()
        objective(wrapped, x, v).mean().backward()
        optimizer.step()
    step = compiled_step(objective, wrapped, optimizer)
    with warnings.catch_warnings(record=True, action="always") as caught:
        for x, v in others:
            step(x, v)
    return [str(warning.message) for warning in caught], [p.detach() for p in model.parameters()]


CASES: dict[str, Callable[[int, int], object]] = {
    case.__name__: case
    for case in (
        all_gradients,
        gradient_outside,
        own_loop,
        own_generators,
        own_loop_refusals,
        compiled_step_of_wrapped,
    )
}


def run_cases(rank: int, size: int, port: int, folder: str) -> None:
    """Run every case in one of several processes, and write the results."""
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)  # as in all tests
    os.environ["GLOO_SOCKET_IFNAME"] = "lo" if sys.platform == "linux" else "lo0"
    address = f"tcp://127.0.0.1:{port}"
    dist.init_process_group("gloo", init_method=address, rank=rank, world_size=size)
    found = {name: case(rank, size) for name, case in CASES.items()}
    torch.save(found, Path(folder) / f"{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()


def results(size: int, folder: Path) -> dict[str, list[object]]:
    """Return the results of every case by rank."""
    mp.spawn(run_cases, (size, free_port(), str(folder)), nprocs=size)
    ranks = [torch.load(folder / f"{rank}.pt", weights_only=False) for rank in range(size)]
    return {name: [one[name] for one in ranks] for name in CASES}
