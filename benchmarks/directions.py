"""The best number of directions for a given training time.

`python -m benchmarks.directions [SECONDS]` trains a log-density of 14 x 14 MNIST for the given
processor time (20 seconds by default), with each engine and several numbers of directions. It
prints the exact score-matching loss of test data. Lower is better.
"""

import sys
import time
import warnings

import torch
from rich.console import Console
from rich.table import Table
from torch import Generator, Tensor
from torch.nn.functional import avg_pool2d

from fdsm.data import MNIST
from fdsm.derivatives import Autodiff, FiniteDifference, PrecisionWarning, Taylor
from fdsm.evaluation import exact_sm_loss
from fdsm.models import QuadraticMLP
from fdsm.objectives import SSM
from fdsm.projections import Sphere
from fdsm.typing import Derivative

CASES: tuple[tuple[Derivative, int], ...] = (
    (Autodiff(), 1),
    (FiniteDifference(), 1),
    (FiniteDifference(), 4),
    (Taylor(), 1),
    (Taylor(), 2),
    (Taylor(), 4),
    (Taylor(), 8),
    (Taylor(), 16),
)
NOISE = 0.1


def downsample(images: Tensor) -> Tensor:
    """Return images of half the size, between 0 and 1, as rows."""
    return avg_pool2d(images / 255, 2).flatten(1)


def train_model(objective: SSM, data: Tensor, seconds: float) -> tuple[QuadraticMLP, int]:
    """Return a model after some processor time of training, and the number of steps."""
    torch.manual_seed(0)
    model = QuadraticMLP(data.shape[1], (256, 256, 256))
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    steps, end = 0, time.process_time() + seconds
    while time.process_time() < end:
        x = data[torch.randint(len(data), (128,))]
        optimizer.zero_grad()
        objective(model, x + NOISE * torch.randn_like(x)).mean().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        steps += 1
    return model, steps


def main(seconds: float = 20.0) -> None:
    """Train with all engines and print the losses."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", PrecisionWarning)
    digits = MNIST().load()
    train, test = downsample(digits.train), downsample(digits.test[:500])
    test = test + NOISE * torch.randn(test.shape, generator=Generator().manual_seed(1))
    table = Table("engine", "directions", "steps", "exact loss of test data")
    for engine, directions in CASES:
        model, steps = train_model(SSM(engine, Sphere(0.1), directions), train, seconds)
        loss = exact_sm_loss(model, test)
        table.add_row(type(engine).__name__, str(directions), str(steps), f"{loss.value:.0f}")
    Console().print(table)


if __name__ == "__main__":
    main(*map(float, sys.argv[1:]))
