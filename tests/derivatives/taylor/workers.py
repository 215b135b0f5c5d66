"""Training in two processes, as functions that a spawned process can import."""

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Generator, Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from fdsm.derivatives import Taylor
from fdsm.objectives import SSM
from fdsm.projections import Sphere

from ..processes import meet, part

Weights = dict[str, Tensor]


class Loss(nn.Module):
    """An objective of a density, as a module of data and directions."""

    def __init__(self, density: nn.Module) -> None:
        super().__init__()
        self.density = density

    def forward(self, x: Tensor, v: Tensor) -> Tensor:
        """Return the mean loss."""
        return SSM(Taylor(), Sphere(0.1)).at(self.density, x, v).mean()


class Unused(nn.Module):
    """A density with parameters that it does not use."""

    def __init__(self) -> None:
        super().__init__()
        self.density, self.unused = density(), nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        """Return the log-density."""
        found: Tensor = self.density(x)
        return found


def density() -> nn.Module:
    """Return a network with a layer norm, a block that is used twice and a layer without bias."""
    torch.manual_seed(0)
    block = nn.Sequential(nn.Linear(8, 8), nn.Softplus())
    return nn.Sequential(
        nn.Linear(3, 8), nn.Tanh(), nn.LayerNorm(8), block, nn.Linear(8, 8, bias=False), nn.SiLU(),
        block, nn.Linear(8, 1), nn.Flatten(0),
    )  # fmt: skip


def train(loss: nn.Module, rows: slice = slice(None)) -> None:
    """Take a few steps on some of the rows of every batch."""
    optimizer = torch.optim.Adam(loss.parameters(), lr=0.05)
    draw = Generator().manual_seed(1)
    for _ in range(4):
        x = torch.randn(8, 3, generator=draw)
        v = Sphere(0.1).sample(x, draw)
        optimizer.zero_grad()
        loss(x[rows], v[rows]).backward()
        optimizer.step()


def ddp(model: nn.Module, **options: bool) -> Weights:
    """Train with a density that is data-parallel."""
    train(Loss(DistributedDataParallel(model, **options)), mine())
    return model.state_dict()


def ddp_of_loss(model: nn.Module, **options: bool) -> Weights:
    """Train with a loss that is data-parallel."""
    train(DistributedDataParallel(Loss(model), **options), mine())
    return model.state_dict()


def fsdp(model: nn.Module, reshard: bool) -> Weights:
    """Train with a density whose layers are spread over the processes."""
    mesh = init_device_mesh("cpu", (2,))
    for layer in set(model.children()):
        if list(layer.parameters()):
            fully_shard(layer, mesh=mesh, reshard_after_forward=reshard)
    fully_shard(model, mesh=mesh, reshard_after_forward=reshard)
    train(Loss(model), mine())
    return {name: p.full_tensor() for name, p in model.state_dict().items()}  # type: ignore[attr-defined]


def mine() -> slice:
    """Return which rows of a batch this process takes."""
    return slice(4 * dist.get_rank(), 4 * dist.get_rank() + 4)


WAYS: dict[str, tuple[Callable[[], nn.Module], Callable[[nn.Module], Weights]]] = {
    "ddp": (density, ddp),
    "ddp, static graph": (density, lambda model: ddp(model, static_graph=True)),
    "ddp of the loss, unused parameters": (
        Unused,
        lambda model: ddp_of_loss(model, find_unused_parameters=True),
    ),
    "fsdp": (density, lambda model: fsdp(model, False)),
    "fsdp, resharded": (density, lambda model: fsdp(model, True)),
}
"""How to make a model, and how to train it in two processes."""


def work(rank: int, folder: str, way: str, port: int) -> None:
    """Train as one of two processes and save the weights."""
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    meet(rank, port)
    make, parallel = WAYS[way]
    weights = parallel(make())
    if rank == 0:
        torch.save(weights, f"{folder}/weights.pt")
    part()
