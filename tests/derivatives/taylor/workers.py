"""Training in two processes, as functions that a spawned process can import."""

import os
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Generator, Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from fdsm.derivatives import Taylor
from fdsm.objectives import SSM
from fdsm.projections import Sphere

STEPS = 4


def density() -> nn.Module:
    """Return a network with a layer norm, a block that is used twice, and layers without a bias."""
    torch.manual_seed(0)
    block = nn.Sequential(nn.Linear(8, 8), nn.Softplus())
    return nn.Sequential(
        nn.Linear(3, 8), nn.Tanh(), nn.LayerNorm(8), block, nn.Linear(8, 8, bias=False), nn.SiLU(),
        block, nn.Linear(8, 1), nn.Flatten(0),
    )  # fmt: skip


class Unused(nn.Module):
    """A density with parameters that it does not use."""

    def __init__(self) -> None:
        super().__init__()
        self.density, self.unused = density(), nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        """Return the log-density."""
        found: Tensor = self.density(x)
        return found


def batches() -> list[Tensor]:
    """Return data and directions, stacked, for every step."""
    draw = Generator().manual_seed(1)
    return [
        torch.stack([x := torch.randn(8, 3, generator=draw), Sphere(0.1).sample(x, draw)])
        for _ in range(STEPS)
    ]


def train(model: nn.Module, rows: slice = slice(None)) -> None:
    """Take a few steps on some of the rows of every batch."""
    optimiser = torch.optim.Adam(model.parameters(), lr=0.05)
    for x, v in batches():
        optimiser.zero_grad()
        SSM(Taylor(), Sphere(0.1)).at(model, x[rows], v[rows]).mean().backward()
        optimiser.step()


def data_parallel(model: nn.Module, **options: bool) -> Callable[[], dict[str, Any]]:
    """Train a model wrapped for data-parallel training, on this process's rows."""
    parallel = DistributedDataParallel(model, **options)
    train(parallel, _rows())
    return model.state_dict


def sharded(model: nn.Module, reshard: bool) -> Callable[[], dict[str, Any]]:
    """Train a model whose layers are spread over the processes, on this process's rows."""
    mesh = init_device_mesh("cpu", (2,))
    for layer in model:  # type: ignore[attr-defined]
        if any(True for _ in layer.parameters()) and not hasattr(layer, "unshard"):
            fully_shard(layer, mesh=mesh, reshard_after_forward=reshard)
    fully_shard(model, mesh=mesh, reshard_after_forward=reshard)
    train(model, _rows())
    return lambda: {name: p.full_tensor() for name, p in model.state_dict().items()}  # type: ignore[attr-defined]


def _rows() -> slice:
    return slice(4 * dist.get_rank(), 4 * dist.get_rank() + 4)


WAYS: dict[str, tuple[Callable[[], nn.Module], Callable[[nn.Module], Callable[[], Any]]]] = {
    "ddp": (density, data_parallel),
    "ddp, static graph": (density, lambda m: data_parallel(m, static_graph=True)),
    "ddp, unused parameters": (
        Unused,
        lambda m: data_parallel(m, find_unused_parameters=True),
    ),
    "fsdp, resharded": (density, lambda m: sharded(m, True)),
    "fsdp": (density, lambda m: sharded(m, False)),
}
"""How to make a model and train it in two processes; the result is a function of its weights."""


def work(rank: int, folder: str, way: str) -> None:
    """Train as one of two processes and save the weights."""
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo" if sys.platform == "linux" else "lo0"
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    make, parallel = WAYS[way]
    weights = parallel(make())()
    if rank == 0:
        torch.save(weights, f"{folder}/weights.pt")
    dist.destroy_process_group()
