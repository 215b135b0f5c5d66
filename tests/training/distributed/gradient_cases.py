"""Three steps of each objective, by one process or by several, and what they computed."""

from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor, nn

from fdsm import DSM, SSM, SSMVR, Autodiff, FiniteDifference, SlicedDSM, Sphere, Taylor
from fdsm.sharding import Shard
from fdsm.training import EMA, Update, objective_loss
from fdsm.training.distributed.checks import NotShardable
from fdsm.training.distributed.fully_sharded import FullyShardedUpdate
from fdsm.training.distributed.update import ShardedUpdate
from fdsm.training.distributed.world import World
from fdsm.typing import Objective

ROWS, STEPS = 7, 3
LONG = Sphere(1.0)
"""Shorter steps of finite differences would magnify the rounding errors of float32."""
OBJECTIVES: dict[str, Objective] = {
    "FD-SSM": SSM(FiniteDifference(), LONG),
    "FD-SSM, three directions": SSM(FiniteDifference(), LONG, directions=3),
    "FD-DSM": SlicedDSM(1.0, FiniteDifference(), LONG),
    "FD-SSMVR": SSMVR(FiniteDifference(), LONG),
    "Taylor-SSM": SSM(Taylor()),
    "SSM": SSM(Autodiff()),
    "DSM": DSM(1.0),
}
SCORES = {"FD-SSMVR"}
INNER = {"SSM", "DSM"}
"""Objectives that take gradients themselves."""
CASES = [
    *product(OBJECTIVES, ("ddp", "accumulate", "root", "layers"), (torch.float64,)),
    *product(OBJECTIVES, ("ddp",), (torch.float32,)),
]


@dataclass
class Steps:
    """What three steps computed."""

    losses: list[float]
    norms: list[float]
    gradients: list[Tensor]
    weights: list[Tensor]
    average: list[Tensor]
    random_state: Tensor


def network(name: str, dtype: torch.dtype) -> nn.Module:
    """Return a small network whose last bias has no influence on a score."""
    torch.manual_seed(0)
    outputs = 3 if name in SCORES else 1
    end = [] if name in SCORES else [nn.Flatten(0)]
    layers = nn.Linear(3, 16), nn.Softplus(), nn.Linear(16, 9), nn.Tanh(), nn.Linear(9, outputs)
    return nn.Sequential(*layers, *end).to(dtype)


def batches(dtype: torch.dtype) -> Tensor:
    """Return the rows of all steps, shape `(STEPS, ROWS, 3)`."""
    generator = torch.Generator().manual_seed(1)
    return torch.randn(STEPS, ROWS, 3, dtype=dtype, generator=generator)


def three_steps(
    name: str, dtype: torch.dtype, method: str = "", world: World | None = None
) -> Steps:
    """Take three steps with Adam, clipping and an average, by one process or by several."""
    model, generator = network(name, dtype), torch.Generator().manual_seed(2)
    # The last bias has a finite-difference gradient of rounding errors, which Adam would magnify.
    kind = torch.optim.SGD if name.startswith("FD") and name not in SCORES else torch.optim.AdamW
    optimizer = kind(model.parameters(), lr=1e-2)
    average = EMA(model, 0.9)
    loss = objective_loss(OBJECTIVES[name], model)
    update = Update(loss, model, optimizer, 1.0, average)
    x, shard = batches(dtype), Shard(0, ROWS, ROWS)
    if world is not None:
        shard = Shard.of(ROWS, world.rank, world.size)
        if method in {"root", "layers"}:
            update = FullyShardedUpdate(update, world, shard, method, x[0], generator)
        else:
            parts = 2 if method == "accumulate" else 1
            update = ShardedUpdate(update, world, shard, accumulate=parts)
    found = Steps([], [], [], [], [], torch.empty(0))
    for step in range(STEPS):
        metrics = update((shard.take(x[step]),), generator, 0.0)
        found.losses.append(metrics["loss"].item())
        found.norms.append(metrics["grad_norm"].item())
        found.gradients += [_whole(p.grad, p) for p in update.parameters]
    if isinstance(update, FullyShardedUpdate):
        update.gather()
        model = update.plain
    found.weights = [p.detach() for p in model.parameters()]
    found.average = list(average.model.parameters())
    found.random_state = generator.get_state()
    return found


def _whole(gradient: Tensor | None, parameter: nn.Parameter) -> Tensor:
    if gradient is None:
        return torch.zeros(parameter.shape, dtype=parameter.dtype)
    whole = gradient.full_tensor() if hasattr(gradient, "full_tensor") else gradient
    return whole.detach().clone()


def all_gradients(world: World) -> dict[tuple[str, str, torch.dtype], Steps | str]:
    """Return the results of three steps of every case, or the reason of its refusal."""
    found: dict[tuple[str, str, torch.dtype], Steps | str] = {}
    for case in CASES:
        name, method, dtype = case
        try:
            found[case] = three_steps(name, dtype, method, world)
        except NotShardable as error:
            found[case] = str(error)
    return found
