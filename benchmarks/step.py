"""Cost of a training step, relative to the same step written by hand.

`python -m benchmarks.step` prints the time of one FD-SSM step with this package, for MLPs and a
convolutional network. It is compared with the shortest implementation by hand, the other engines
and a plain step of maximum likelihood.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from fdsm.derivatives import Autodiff, FiniteDifference
from fdsm.objectives import DSM, SSM, SlicedDSM
from fdsm.projections import Sphere

from .timing import interleaved, show

EPS = 0.1
Loss = Callable[[nn.Module, Tensor], Tensor]


def by_hand(model: nn.Module, x: Tensor) -> Tensor:
    """Return FD-SSM in its shortest form, with one concatenation."""
    v = torch.randn_like(x)
    v = EPS * v / v.flatten(1).norm(dim=1).view(-1, *[1] * (x.ndim - 1))
    centre, plus, minus = model(torch.cat([x, x + v, x - v])).chunk(3)
    return ((plus + minus - 2 * centre + (plus - minus) ** 2 / 8) / EPS**2).mean()


def plain(model: nn.Module, x: Tensor) -> Tensor:
    """Return the mean log-density, the cheapest loss."""
    return model(x).mean()


def mean_of(objective: Callable[..., Tensor]) -> Loss:
    """Return the mean of an objective."""
    return lambda model, x: objective(model, x).mean()


LOSSES: dict[str, Loss] = {
    "FD-SSM by hand": by_hand,
    "FD-SSM": mean_of(SSM(FiniteDifference(), Sphere(EPS))),
    "FD-SSM, serial": mean_of(SSM(FiniteDifference(parallel=False), Sphere(EPS))),
    "FD-SSM, 4 directions": mean_of(SSM(FiniteDifference(), Sphere(EPS), 4)),
    "SSM": mean_of(SSM(Autodiff(), Sphere(EPS))),
    "SSM, 4 directions": mean_of(SSM(Autodiff(), Sphere(EPS), 4)),
    "FD-DSM": mean_of(SlicedDSM(0.3, FiniteDifference(), Sphere(EPS))),
    "DSM": mean_of(DSM(0.3)),
    "plain step": plain,
}


class MLP(nn.Sequential):
    """An MLP log-density of flat data."""

    def __init__(self, features: int, width: int) -> None:
        super().__init__(
            nn.Linear(features, width), nn.Softplus(),
            nn.Linear(width, width), nn.Softplus(),
            nn.Linear(width, width), nn.Softplus(),
            nn.Linear(width, 1, bias=False), nn.Flatten(0),
        )  # fmt: skip


class Conv(nn.Sequential):
    """A convolutional log-density of images."""

    def __init__(self, channels: int) -> None:
        super().__init__(
            nn.Conv2d(1, channels, 3, padding=1), nn.Softplus(),
            nn.Conv2d(channels, channels, 3, padding=1), nn.Softplus(), nn.AvgPool2d(2),
            nn.Conv2d(channels, channels, 3, padding=1), nn.Softplus(), nn.AvgPool2d(2),
            nn.Flatten(), nn.Linear(channels * 49, 1, bias=False), nn.Flatten(0),
        )  # fmt: skip


@dataclass(frozen=True)
class Problem:
    """A network and the shape of its data."""

    name: str
    model: Callable[[], nn.Module]
    shape: tuple[int, ...]
    repeats: int


PROBLEMS = (
    Problem("MLP 64-256-256-256, batch 128", partial(MLP, 64, 256), (128, 64), 200),
    Problem("MLP 784-512-512-512, batch 128", partial(MLP, 784, 512), (128, 784), 60),
    Problem("conv 28x28, 32 channels, batch 32", partial(Conv, 32), (32, 1, 28, 28), 25),
)


def step(loss: Loss, model: nn.Module, x: Tensor) -> None:
    """Compute the parameter gradient of a loss."""
    model.zero_grad(set_to_none=True)
    loss(model, x).backward()  # type: ignore[no-untyped-call]


def main(problems: Iterable[Problem] = PROBLEMS) -> None:
    """Time all losses on all problems and print the ratios."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    for problem in problems:
        model, x = problem.model(), torch.randn(problem.shape)
        functions = {name: partial(step, loss, model, x) for name, loss in LOSSES.items()}
        times = interleaved(functions, problem.repeats)
        show(problem.name, times, "FD-SSM by hand")


if __name__ == "__main__":
    main()
