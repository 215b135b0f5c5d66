"""Networks and data on which objectives are compared with the equations of the paper."""

from collections.abc import Callable

import pytest
import torch
from torch import Generator, Tensor, nn

from fdsm.derivatives import FiniteDifference
from fdsm.projections import Sphere

EPS, SIGMA = 0.1, 0.3
EXACT = {"rtol": 1e-12, "atol": 1e-12}
shapes = pytest.mark.parametrize("event", [(5,), (2, 3, 4)], ids=str)
engines = pytest.mark.parametrize(
    "engine", [FiniteDifference(), FiniteDifference(parallel=False), FiniteDifference(chunk=3)]
)
conditioned = pytest.mark.parametrize("conditioned", [False, True])


def dot(a: Tensor, b: Tensor) -> Tensor:
    return torch.stack([(p * q).sum() for p, q in zip(a, b, strict=True)])


def network(event: tuple[int, ...], outputs: int, conditioned: bool) -> Callable[..., Tensor]:
    d = int(torch.tensor(event).prod())
    net = nn.Sequential(
        nn.Linear(d + conditioned, 16), nn.Softplus(), nn.Linear(16, outputs * d or 1)
    )

    def model(x: Tensor, *cond: Tensor) -> Tensor:
        rows = torch.cat([x.flatten(1), *(c[:, None] for c in cond)], 1)
        return net(rows).view(x.shape) if outputs else net(rows).squeeze(1)

    return model


def sample(
    event: tuple[int, ...], conditioned: bool, generator: Generator
) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
    x = torch.randn(7, *event, generator=generator)
    v = Sphere(EPS).sample(x, generator)
    return x, v, (torch.randn(7, generator=generator),) if conditioned else ()
