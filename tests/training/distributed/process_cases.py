"""What several processes do together in one launch, since starting them takes seconds."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from fdsm import DSM, SSM, Autodiff, Sphere
from fdsm.evaluation import log_densities, sm_losses, sm_losses_of_score
from fdsm.projections import draw_directions
from fdsm.samplers import log_likelihood_ais, sigmoid_schedule
from fdsm.sharding import (
    Shard,
    ShardedDraws,
    divided_among_processes,
    new_rows,
    over_items,
    over_rows,
)
from fdsm.training import Update
from fdsm.training.distributed import (
    DistributedLoss,
    ShardedUpdate,
    UnsynchronizedGradients,
    require_same_gradients,
)
from fdsm.training.distributed.world import FailedElsewhere, World

from ...derivatives.processes import free_port
from .gradient_cases import all_gradients, network

EVEN = torch.randn(3, 8, 3, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
"""Batches of a training loop of one's own: three steps of eight rows."""


def directions(world: World) -> Tensor:
    """Draw two directions for each row of this process."""
    shard = Shard.of(5, world.rank, world.size)
    with ShardedDraws(shard):
        generator = torch.Generator().manual_seed(0)
        return draw_directions(
            Sphere(), torch.zeros(shard.size, 3, dtype=torch.float64), 2, generator
        )


def gradient_outside(world: World) -> str:
    """Wrap the model alone in `DistributedDataParallel` and train it with DSM."""
    model = network("DSM", torch.float64)
    wrapped = DistributedDataParallel(model)
    x = Shard.of(8, world.rank, world.size).take(EVEN[0])
    DSM(0.3)(wrapped, x).mean().backward()
    try:
        require_same_gradients(model.parameters())
    except UnsynchronizedGradients as error:
        return str(error)
    return "no error"


def own_loop(world: World) -> list[Tensor]:
    """Train with `DistributedLoss`. The fourth step adds the gradients of two batches."""
    model, generator = network("SSM", torch.float64), torch.Generator().manual_seed(0)
    optimizer = torch.optim.Adam(model.parameters())
    loss = DistributedLoss(SSM(Autodiff()), model, optimizer)
    shard = Shard.of(8, world.rank, world.size)
    for x in EVEN:
        optimizer.zero_grad()
        loss(shard.take(x), generator=generator).backward()
        optimizer.step()
    optimizer.zero_grad()
    with loss.no_sync():
        loss(shard.take(EVEN[0]), generator=generator).backward()
    loss(shard.take(EVEN[1]), generator=generator).backward()
    optimizer.step()
    return [p.detach() for p in model.parameters()]


def own_loop_refusals(world: World) -> list[str]:
    """Use `DistributedLoss` wrongly, and return the errors."""
    model = network("DSM", torch.float64)
    optimizer = torch.optim.Adam(model.parameters())
    mistakes: list[Callable[[], object]] = [
        lambda: DistributedLoss(DSM(0.3), DistributedDataParallel(model), optimizer),
        lambda: DistributedLoss(DSM(0.3), model, optimizer)(EVEN[0][: 3 + world.rank]),
    ]
    messages = []
    for mistake in mistakes:
        try:
            mistake()
        except ValueError as error:
            messages.append(str(error))
    return messages


def one_loss_is_nan(world: World) -> tuple[float, float, bool]:
    """Train on a batch whose loss is NaN in the last process."""
    model = nn.Linear(3, 1).double()
    before = [p.detach().clone() for p in model.parameters()]

    def loss(x: Tensor, generator: object, progress: float) -> Tensor:
        return model(x).squeeze(1) * (torch.nan if world.rank == world.size - 1 else 1.0)

    update = Update(loss, model, torch.optim.SGD(model.parameters(), 0.1))
    shard = Shard.of(8, world.rank, world.size)
    metrics = ShardedUpdate(update, world, shard)((shard.take(EVEN[0]),), None, 0.0)
    same = all(map(torch.equal, model.parameters(), before))
    return metrics["loss"].item(), metrics["grad_norm"].item(), same


def divided_rows(world: World) -> list[Tensor]:
    """Compute rows in all processes; see `expected_rows`."""
    with divided_among_processes():
        return expected_rows()


def expected_rows() -> list[Tensor]:
    """Return random and exact losses, samples, few rows, rows of a second dimension, items."""
    model, generator = network("SSM", torch.float64), torch.Generator().manual_seed(0)
    objective, x = SSM(Autodiff(), directions=2), EVEN[0][:5]
    decoder = lambda x, z: -(x - z).square().sum(1)
    betas = sigmoid_schedule(5)
    chains = lambda x: (
        log_likelihood_ais(
            decoder, x, (3,), chains=4, temperatures=betas, generator=generator
        ).value
    )
    outer = lambda x: torch.rand(2, x.shape[1], generator=generator, dtype=x.dtype) + x.sum(2)
    return [
        over_rows(lambda x: objective(model, x, generator=generator), x).detach(),
        sm_losses(model, x),
        sm_losses_of_score(lambda x: -(x**3), x),
        log_densities(model, x),
        over_rows(chains, x),
        new_rows(lambda n: torch.randn(n, 2, generator=generator, dtype=x.dtype), 3),
        over_rows(lambda x: torch.rand(len(x), generator=generator, dtype=x.dtype), x[:1]),
        over_rows(outer, EVEN[:2], dim=1),
        torch.tensor(over_items(lambda i: i**2, range(5))),
    ]


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
        directions,
        gradient_outside,
        own_loop,
        own_loop_refusals,
        one_loss_is_nan,
        divided_rows,
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
