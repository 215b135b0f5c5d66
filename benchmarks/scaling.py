"""Time of a training step on many processes: a cost model, and its check on two processes.

`python -m benchmarks scaling` measures and compares; with `--predict` it prints the tables of
docs/scaling.md. All times are in seconds, all sizes in bytes. Two processes need two cores that
nothing else uses: a process that waits for its core also delays the other one.
"""

import argparse
import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.multiprocessing.spawn import spawn
from torch.nn.parallel import DistributedDataParallel

from fdsm import (
    SSM,
    SSMVR,
    Annealed,
    FiniteDifference,
    MultiscaleDSM,
    SlicedDSM,
    Sphere,
    Taylor,
)
from fdsm.models import QuadraticMLP, QuadraticResNet, RefineNet
from fdsm.noise import Arithmetic, Geometric
from fdsm.training import Update, objective_loss
from fdsm.training.distributed import LossModule
from fdsm.typing import Objective

NUMBER = 4
"""Bytes of a float32."""


@dataclass(frozen=True)
class Workload:
    """What a step of a model computes.

    Attributes:
        parameters: Number of weights, $P$.
        row_seconds: Time of loss and gradient per row.
        fixed_seconds: Time of a step that does not depend on the rows.
        wrapping_seconds: Time that collecting gradients adds to a step of several processes,
            without messages.
    """

    parameters: int
    row_seconds: float
    fixed_seconds: float
    wrapping_seconds: float = 0.0

    @property
    def gradient_bytes(self) -> int:
        """Bytes of a gradient."""
        return NUMBER * self.parameters

    @property
    def checkpoint_bytes(self) -> int:
        """Bytes of weights, two moments of Adam and the average of the weights."""
        return 4 * NUMBER * self.parameters


@dataclass(frozen=True)
class Machine:
    """How fast processes communicate.

    Attributes:
        latency: Time of an all-reduce of one number between two processes.
        bandwidth: Bytes per second that a process sends.
        local: Number of processes that share one machine.
        remote_latency: As `latency`, between machines.
        remote_bandwidth: As `bandwidth`, between machines.
        overlap: Part of the time of loss and gradient during which gradients are averaged too.
    """

    latency: float
    bandwidth: float
    local: int = 2**30
    remote_latency: float = 0.0
    remote_bandwidth: float = math.inf
    overlap: float = 0.0

    def all_reduce(self, size: int, processes: int) -> float:
        r"""Return the time of an all-reduce in a ring, $2 \frac{N-1}{N} \frac{size}{bandwidth}$.

        Latencies add up in a tree, $\log_2 N$ of them. The slowest link counts.

        Args:
            size: Number of bytes.
            processes: Number of processes, $N$.

        Returns:
            The time.
        """
        if processes == 1:
            return 0.0
        near = math.ceil(math.log2(min(processes, self.local)))
        far = max(math.ceil(math.log2(processes)) - near, 0)
        bandwidth = min(self.bandwidth, self.remote_bandwidth) if far else self.bandwidth
        sent = 2 * (processes - 1) / processes * size
        return near * self.latency + far * self.remote_latency + sent / bandwidth


def step_seconds(work: Workload, machine: Machine, rows: int, processes: int) -> float:
    """Return the time of a step.

    Args:
        work: What the step computes.
        machine: The machine.
        rows: Rows of the whole batch, $B$.
        processes: Number of processes, $N$.

    Returns:
        Loss and gradient of the rows of one process, wrapping, and the part of the all-reduce
        that is not hidden behind the backward pass.
    """
    compute = work.fixed_seconds + math.ceil(rows / processes) * work.row_seconds
    if processes == 1:
        return compute
    averaging = machine.all_reduce(work.gradient_bytes, processes)
    return compute + work.wrapping_seconds + max(averaging - machine.overlap * compute, 0.0)


def weak_efficiency(work: Workload, machine: Machine, rows: int, processes: int) -> float:
    """Return the time of one process with `rows` over that of `processes` with `rows` each."""
    alone = step_seconds(work, machine, rows, 1)
    return alone / step_seconds(work, machine, rows * processes, processes)


def strong_efficiency(work: Workload, machine: Machine, rows: int, processes: int) -> float:
    """Return the time of one process over the summed time of `processes`, for the same rows."""
    alone = step_seconds(work, machine, rows, 1)
    return alone / (processes * step_seconds(work, machine, rows, processes))


def flops_per_row(
    model: nn.Module, objective: Objective, shape: tuple[int, ...], rows: int = 2
) -> tuple[float, int]:
    """Count the operations of loss and gradient.

    Args:
        model: The model.
        objective: The objective.
        shape: The shape of an event.
        rows: Number of rows on which they are counted.

    Returns:
        Floating-point operations per row, and the number of parameters.
    """
    from torch.utils.flop_counter import FlopCounterMode

    x, generator = torch.rand(rows, *shape), torch.Generator().manual_seed(0)
    loss = lambda: objective(model, x, generator=generator).mean().backward()
    for _ in range(2):  # models are inspected at their first two evaluations, but not at the third
        loss()
    with FlopCounterMode(display=False) as counter:
        loss()
    return counter.get_total_flops() / rows, sum(p.numel() for p in model.parameters())


REPEATS, STEPS = 15, 4


@dataclass(frozen=True)
class Case:
    """A model that is measured.

    Attributes:
        model: Returns it.
        shape: The shape of an event.
        rows: Rows of one process.
    """

    model: Callable[[], nn.Module]
    shape: tuple[int, ...]
    rows: int


CASES = {
    "MLP, 128 rows": Case(lambda: QuadraticMLP((64,), (512, 512, 512)), (64,), 128),
    "MLP, 512 rows": Case(lambda: QuadraticMLP((64,), (512, 512, 512)), (64,), 512),
    "ResNet, 32 rows": Case(lambda: QuadraticResNet((1, 16, 16), 8), (1, 16, 16), 32),
}


STEP = Sphere(0.05)
LEVELS = Geometric(1.0, 0.01, 10)
PUBLISHED: dict[str, tuple[Callable[[], nn.Module], Objective, tuple[int, ...], int]] = {
    "Table 2, FD-SSM": (
        lambda: QuadraticResNet((1, 32, 32), 128),
        SSM(FiniteDifference(), STEP),
        (1, 32, 32),
        64,
    ),
    "Table 4, CIFAR-10, FD-DSM": (
        lambda: QuadraticResNet((3, 32, 32), 128),
        MultiscaleDSM(SlicedDSM(0.1, FiniteDifference(), STEP), Arithmetic(0.05, 1.2)),
        (3, 32, 32),
        128,
    ),
    "Table 5, FD-SSMVR": (
        lambda: RefineNet(3, 128, LEVELS.levels),
        Annealed(SSMVR(FiniteDifference(), Sphere(0.1)), LEVELS),
        (3, 32, 32),
        128,
    ),
}
"""Models and objectives of the paper at their published sizes, with the batch size."""


def _update(
    case: Case, rows: int, group: dist.ProcessGroup | None = None, *, wrapped: bool = False
) -> tuple[Update, Tensor]:
    """Return an update of one process, or of all processes of a group, and the rows of one."""
    torch.manual_seed(0)
    model = case.model()
    loss: Callable[..., Tensor] = objective_loss(SSM(Taylor()), model)
    if wrapped:
        loss = DistributedDataParallel(
            LossModule(loss, model), process_group=group, find_unused_parameters=True
        )
    update = Update(loss, model, torch.optim.AdamW(model.parameters(), lr=1e-4))
    return update, torch.randn(rows, *case.shape)


class _SumOfWeights(nn.Module):
    """A loss whose gradient costs nothing, to measure messages alone."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self) -> Tensor:
        return torch.stack([p.sum() for p in self.model.parameters()]).sum()


def _seconds(step: Callable[[], object], count: int = STEPS) -> float:
    began = time.perf_counter()
    for _ in range(count):
        step()
    return (time.perf_counter() - began) / count


def _measure(rank: int, port: int, folder: str) -> None:
    """Measure in one of two processes, each on a core of its own, alternately."""
    torch.set_num_threads(1)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[rank]})
    address = f"tcp://127.0.0.1:{port}"
    dist.init_process_group("gloo", init_method=address, rank=rank, world_size=2)
    group = [dist.new_group([0]), dist.new_group([1])][rank]
    times = {name: _times(case, group) for name, case in CASES.items()}
    if rank == 0:
        torch.save(times, Path(folder) / "times.pt")
    dist.barrier()
    dist.destroy_process_group()


def _times(case: Case, group: dist.ProcessGroup) -> dict[str, list[float]]:
    generator = torch.Generator().manual_seed(0)
    updates = {
        "one": _update(case, case.rows),
        "half": _update(case, case.rows // 2),
        "wrapped": _update(case, case.rows, group, wrapped=True),  # messages to itself
        "weak": _update(case, case.rows, wrapped=True),
        "strong": _update(case, case.rows // 2, wrapped=True),
    }
    alone, rows = updates["one"]
    sum_of_weights = _SumOfWeights(case.model())
    parameters = sum(p.numel() for p in sum_of_weights.parameters())
    averaged = DistributedDataParallel(sum_of_weights)
    kept = DistributedDataParallel(_SumOfWeights(case.model()), process_group=group)
    number = torch.zeros(1)

    def step_and_gradient(module: nn.Module) -> None:
        # After a step, a message includes the time until the slower process arrives.
        alone((rows,), generator, 0.0)
        module().backward()

    others: dict[str, Callable[[], object]] = {
        "averaged": lambda: step_and_gradient(averaged),
        "kept": lambda: step_and_gradient(kept),
        "latency": lambda: dist.all_reduce(number),
    }
    times: dict[str, list[float]] = {name: [] for name in (*updates, *others)}
    for _ in range(REPEATS):
        for name, (update, rows) in updates.items():
            dist.barrier()
            times[name].append(_seconds(partial(update, (rows,), generator, 0.0)))
        for name, function in others.items():
            dist.barrier()
            times[name].append(_seconds(function))
    return times | {"parameters": [float(parameters)]}


def measure(port: int) -> dict[str, dict[str, list[float]]]:
    """Return the times of steps of one and of two processes, and of their parts, by case."""
    with TemporaryDirectory() as folder:
        spawn(_measure, (port, folder), nprocs=2)
        times: dict[str, dict[str, list[float]]] = torch.load(Path(folder) / "times.pt")
    return times


def calibrate(times: dict[str, float], case: Case) -> tuple[Workload, Machine]:
    """Return the constants of the model from the times of single processes and of messages."""
    row = (times["one"] - times["half"]) / (case.rows - case.rows // 2)
    work = Workload(
        int(times["parameters"]),
        row,
        times["one"] - case.rows * row,
        max(times["wrapped"] - times["one"], 0.0),
    )
    message = times["averaged"] - times["kept"]
    sent = work.gradient_bytes / max(message - times["latency"], 1e-9)
    return work, Machine(times["latency"], sent)


def compare(measured: dict[str, dict[str, list[float]]]) -> list[str]:
    """Return a table of measured and predicted times of two processes."""
    lines = ["| | efficiency | measured | predicted | ratio |", "|---|---|---|---|---|"]
    statistics: dict[str, Callable[[list[float]], float]] = {"minimum": min, "median": median}
    for (title, times), (name, statistic) in product(measured.items(), statistics.items()):
        best, case = {key: statistic(values) for key, values in times.items()}, CASES[title]
        work, machine = calibrate(best, case)
        for kind, rows in (("weak", 2 * case.rows), ("strong", case.rows)):
            predicted = step_seconds(work, machine, rows, 2)
            efficiency = best["one"] / best[kind] / (1 if kind == "weak" else 2)
            lines.append(
                f"| {title}, {kind}, {name} | {efficiency:.2f} | {1000 * best[kind]:.1f} ms "
                f"| {1000 * predicted:.1f} ms | {predicted / best[kind]:.2f} |"
            )
    return lines


A100 = Machine(
    latency=10e-6,
    bandwidth=200e9,
    local=8,
    remote_latency=20e-6,
    remote_bandwidth=20e9,
    overlap=0.5,
)
"""Assumed: eight GPUs per machine with NVLink, 200 Gbit/s per GPU between machines."""
FLOPS, LAUNCH = 5e12, 5e-3
"""Assumed: operations per second that a small convolutional network reaches in float32, and the
time of a step that does not depend on the rows."""


def predictions() -> list[str]:
    """Return a table of predicted efficiencies of recipes at the scale of the paper."""
    # Operations of recipes that take gradients themselves cannot be counted by torch.
    weak, strong = (8, 64, 512, 1024), (8, 64)
    titles = [f"weak, {n:,}" for n in weak] + [f"strong, {n:,}" for n in strong]
    lines = [
        f"| training | weights | GFLOP per row | checkpoint | {' | '.join(titles)} |",
        "|---|---|---|---|" + "---|" * len(titles),
    ]
    for name, (build, objective, shape, batch) in PUBLISHED.items():
        flops, parameters = flops_per_row(build(), objective, shape)
        work = Workload(parameters, flops / FLOPS, LAUNCH)
        efficiencies = [weak_efficiency(work, A100, batch, n) for n in weak]
        efficiencies += [strong_efficiency(work, A100, batch, n) for n in strong]
        cells = " | ".join(f"{efficiency:.2f}" for efficiency in efficiencies)
        lines.append(
            f"| {name}, batch {batch} | {parameters / 1e6:.1f} M | {flops / 1e9:.0f} "
            f"| {work.checkpoint_bytes / 1e6:,.0f} MB | {cells} |"
        )
    return lines


def main(arguments: list[str] | None = None) -> None:
    """Measure two processes and compare them with the model, or print predictions."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks scaling")
    parser.add_argument(
        "--predict", action="store_true", help="Print the tables of docs/scaling.md."
    )
    parser.add_argument("--port", type=int, default=29677, help="Port for the two processes.")
    options = parser.parse_args(arguments)
    print("\n".join(predictions() if options.predict else compare(measure(options.port))))
