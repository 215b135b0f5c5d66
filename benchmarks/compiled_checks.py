"""Share of a compiled step that is spent on checks.

`python -m benchmarks compiled-checks` prints the time of a compiled step of an MLP 16-128x3 with
64 rows and of the checks at every call, that model, optimizer and batch are those that the step
was compiled for. Steps and checks are measured in turn, in CPU time. Pin a core (`taskset -c 1`).
"""

import argparse
import time
from collections.abc import Callable
from statistics import median

import torch
from torch import Generator, nn

from fdsm.derivatives import FiniteDifference
from fdsm.objectives import DSM, SSM
from fdsm.training import CompiledUpdate
from fdsm.typing import Objective

REPEATS, STEPS, CHECKS = 100, 50, 300


def microseconds(function: Callable[[], object], count: int) -> float:
    """Return the CPU time of a call."""
    began = time.process_time()
    for _ in range(count):
        function()
    return (time.process_time() - began) / count * 1e6


def measure(objective: Objective) -> tuple[list[float], list[float]]:
    """Return the times of steps and of their checks."""
    torch.manual_seed(0)
    hidden = [m for d in (16, 128, 128) for m in (nn.Linear(d, 128), nn.SiLU())]
    model = nn.Sequential(*hidden, nn.Linear(128, 1), nn.Flatten(0))
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    loss = lambda x, generator, _: objective(model, x, generator=generator)
    update, generator = CompiledUpdate(loss, model, optimizer), Generator().manual_seed(0)
    batch = (torch.randn(64, 16),)
    step = lambda: update(batch, generator, 0.0)
    for _ in range(40):
        step()
    graph = update._graph
    assert graph is not None, update.reason
    check = lambda: (graph.fits(batch), graph.change())
    pairs = [(microseconds(step, STEPS), microseconds(check, CHECKS)) for _ in range(REPEATS)]
    steps, checks = zip(*pairs, strict=True)
    return list(steps), list(checks)


def main(arguments: list[str] | None = None) -> None:
    """Print the time of a step and of its checks."""
    argparse.ArgumentParser(prog="python -m benchmarks compiled-checks").parse_args(arguments)
    torch.set_num_threads(1)
    objectives: dict[str, Objective] = {"FD-SSM": SSM(FiniteDifference()), "DSM": DSM(0.3)}
    for name, objective in objectives.items():
        steps, checks = measure(objective)
        shares = [check / step for step, check in zip(steps, checks, strict=True)]
        print(
            f"{name}: step {min(steps):.0f} µs (median {median(steps):.0f}), "
            f"checks {min(checks):.1f} µs (median {median(checks):.1f}), "
            f"share {100 * min(checks) / min(steps):.2f} % (median {100 * median(shares):.2f} %)"
        )
