"""Gradients of objectives with given directions and noise, by one process or by several."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import torch
import torch.distributed as dist
from torch import Generator, Tensor, nn

from fdsm import DSM, SSM, SSMVR, Autodiff, FiniteDifference, SlicedDSM, Sphere, Taylor
from fdsm.objectives import MeanFlow
from fdsm.training.distributed import DistributedLoss, LossModule
from fdsm.training.distributed.fully_sharded import InnerGradientError, Units, fully_sharded
from fdsm.typing import Objective

ROWS = 8
LONG = Sphere(1.0)
"""Shorter steps of finite differences would magnify the rounding errors of float32."""


@dataclass(frozen=True)
class MeanFlowOfRows:
    """Mean flow of a field $f(z (1 + r t))$, whose times are columns of rows."""

    derivative: Taylor | FiniteDifference

    def at(self, f: Callable[..., Tensor], x: Tensor, noise: Tensor, times: Tensor) -> Tensor:
        r, t = times[:, :2].sigmoid().sort(1).values.unbind(1)
        field = lambda z, r, t: f(z * (1 + r * t)[:, None])
        return MeanFlow(self.derivative).at(field, x, noise, r, t)


OBJECTIVES: dict[str, Any] = {
    "FD-SSM": SSM(FiniteDifference(), LONG),
    "FD-SSM, three directions": SSM(FiniteDifference(), LONG),
    "FD-DSM": SlicedDSM(1.0, FiniteDifference(), LONG),
    "FD-SSMVR": SSMVR(FiniteDifference(), LONG),
    "Taylor-SSM": SSM(Taylor()),
    "Taylor-MeanFlow": MeanFlowOfRows(Taylor()),
    "FD-MeanFlow": MeanFlowOfRows(FiniteDifference()),
    "SSM": SSM(Autodiff()),
    "SSMVR": SSMVR(Autodiff()),
    "DSM": DSM(1.0),
}
FLOWS = {"Taylor-MeanFlow", "FD-MeanFlow"}
SCORES = {"FD-SSMVR", "SSMVR", *FLOWS}
INNER = {"SSM", "SSMVR", "DSM"}
"""Objectives that take gradients themselves."""
METHODS = ("ddp", "root", "layers")
CASES = [
    *product(OBJECTIVES, METHODS, (torch.float64,)),
    *product(OBJECTIVES, ("ddp",), (torch.float32,)),
]


def given(at: Callable[..., Tensor]) -> Objective:
    """Return an objective whose directions or noise follow the data, as conditions do."""
    return lambda f, x, *rows, generator=None: at(f, x, *rows)


@dataclass
class Gradient:
    """The mean loss of rows, and its gradient."""

    loss: float
    gradient: list[Tensor]


def network(name: str, dtype: torch.dtype) -> nn.Module:
    """Return a small network. The last bias of a log-density has no influence on its score."""
    torch.manual_seed(0)
    outputs = 3 if name in SCORES else 1
    end = [] if name in SCORES else [nn.Flatten(0)]
    layers = nn.Linear(3, 16), nn.Softplus(), nn.Linear(16, 9), nn.Tanh(), nn.Linear(9, outputs)
    return nn.Sequential(*layers, *end).to(dtype)


def rows_and_given(name: str, dtype: torch.dtype, rank: int = 0, size: int = 1) -> list[Tensor]:
    """Return the rows of a process and their directions or noise."""
    draw = partial(torch.randn, generator=Generator().manual_seed(1), dtype=dtype)
    shapes = (
        [(3, ROWS, 3)] if "three" in name else [(ROWS, 3)] * (1 + (name in {"FD-DSM", *FLOWS}))
    )
    whole = [draw(ROWS, 3), *(draw(*shape) for shape in shapes)]
    return [x.chunk(size, -2)[rank] for x in whole]


def gradient_of(name: str, dtype: torch.dtype, method: str = "alone") -> Gradient:
    """Return loss and gradient of the rows of this process, averaged over processes by torch."""
    model, objective = network(name, dtype), given(OBJECTIVES[name].at)
    if method == "alone":
        loss: Any = LossModule(partial(objective, model), model)
        rows = rows_and_given(name, dtype)
    else:
        if method == "ddp":
            loss = DistributedLoss(objective, model, torch.optim.Adam(model.parameters()))
        else:
            units: Units = "layers" if method == "layers" else "root"
            loss = fully_sharded(LossModule(partial(objective, model), model), units)
        rows = rows_and_given(name, dtype, dist.get_rank(), dist.get_world_size())
    for _ in range(3):  # models are inspected at their first two evaluations
        model.zero_grad()
        value = loss(*rows)
        value.backward()
    return Gradient(value.item(), [_whole(p) for p in model.parameters()])


def _whole(parameter: nn.Parameter) -> Tensor:
    gradient: Any = parameter.grad
    if gradient is None:
        return torch.zeros(parameter.shape, dtype=parameter.dtype)
    whole: Tensor = gradient.full_tensor() if hasattr(gradient, "full_tensor") else gradient
    return whole.detach().clone()


def all_gradients(rank: int, size: int) -> dict[tuple[str, str, torch.dtype], Gradient | str]:
    """Return the gradient of every case, or the reason of its refusal."""
    gradients: dict[tuple[str, str, torch.dtype], Gradient | str] = {}
    for name, method, dtype in CASES:
        try:
            gradients[name, method, dtype] = gradient_of(name, dtype, method)
        except InnerGradientError as error:
            gradients[name, method, dtype] = str(error)
    return gradients
