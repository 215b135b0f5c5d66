"""Held-out exact score-matching loss against the CPU time of training.

All methods train the same network with the same optimizer, batch size and data. Evaluation is not
counted. Compilers run as other processes, so the first steps are recorded separately, in elapsed
time.
"""

import os
import tempfile
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Protocol

import torch
from torch import Tensor, nn

from fdsm.derivatives import FiniteDifference, Taylor
from fdsm.evaluation import exact_sm_loss, single_threaded
from fdsm.objectives import SM, SSM
from fdsm.projections import Sphere
from fdsm.typing import Objective
from paper.data import DataError

from .learning_problems import PROBLEMS, LearningProblem, NoisyRows
from .peers.by_hand import EPS, nested_ssm, sphere
from .records.curves import Curve, Trainings
from .records.machine import describe_machine
from .timing import quiet

BATCH = 128
LEARNING_RATE = 1e-3
POINTS = 14
"""Number of evaluations, at times that increase by equal factors."""
EARLIEST = 1 / 200
"""Time of the first evaluation, as a fraction of the whole."""
FIRST_STEPS = 3
"""Steps that may compile."""
CHUNK = 5
"""Steps between two readings of the clock."""
CACHE = "TORCHINDUCTOR_CACHE_DIR"
"""The variable that names the cache of torch's compiler."""
OBJECTIVES: dict[str, Objective] = {
    "FD-SSM": SSM(FiniteDifference(), Sphere(EPS)),
    "Taylor-SSM, 1 direction": SSM(Taylor(), Sphere(EPS)),
    "Taylor-SSM, 4 directions": SSM(Taylor(), Sphere(EPS), 4),
    "Taylor-SSM, 8 directions": SSM(Taylor(), Sphere(EPS), 8),
    "SM(Taylor())": SM(Taylor()),
}


class Trainer(Protocol):
    """A model in training."""

    def step(self) -> object:
        """Draw a batch and update the parameters."""
        ...

    def wait(self) -> None:
        """Wait until all steps are finished."""
        ...

    def model(self) -> nn.Module:
        """Return the model with its current parameters."""
        ...


Start = Callable[[NoisyRows, nn.Module, int], Trainer]
"""`data, network, seed -> trainer`."""


Update = Callable[[Tensor, torch.Generator], object]
"""Updates the parameters, given a batch and a generator."""


class TorchTrainer:
    """A network of torch in training with Adam."""

    def __init__(self, update: Update, network: nn.Module, data: NoisyRows, seed: int) -> None:
        self.update, self.network, self.data = update, network, data
        self.generator = torch.Generator().manual_seed(seed)

    def step(self) -> object:
        """Draw a batch and update the parameters."""
        return self.update(self.data.draw(BATCH, self.generator), self.generator)

    def wait(self) -> None:
        """Return: steps of torch on a CPU are finished when they return."""

    def model(self) -> nn.Module:
        """Return the network."""
        return self.network


def start_eager(
    make: Callable[[nn.Module], Callable[[Tensor], Tensor]],
    data: NoisyRows,
    network: nn.Module,
    seed: int,
) -> Trainer:
    """Return a trainer with a loop as people write it.

    Args:
        make: Returns the mean loss of a network, given a batch.
        data: The data.
        network: The network.
        seed: Random seed.

    Returns:
        The trainer.
    """
    loss = make(network)
    optimizer = torch.optim.Adam(network.parameters(), LEARNING_RATE)
    torch.manual_seed(seed)

    def update(x: Tensor, generator: torch.Generator) -> None:
        optimizer.zero_grad()
        loss(x).backward()
        optimizer.step()

    return TorchTrainer(update, network, data, seed)


def start_graph(objective: Objective, data: NoisyRows, network: nn.Module, seed: int) -> Trainer:
    """Return a trainer whose step is one compiled graph."""
    from fdsm.training import compiled_step

    optimizer = torch.optim.Adam(network.parameters(), LEARNING_RATE)
    step = compiled_step(objective, network, optimizer)
    update = lambda x, generator: step(x, generator=generator)
    return TorchTrainer(update, network, data, seed)


def methods(peers: frozenset[str]) -> dict[str, Start]:
    """Return the methods to compare, by name.

    Args:
        peers: Other packages to compare with.

    Returns:
        Functions that start a training.
    """
    starts: dict[str, Start] = {
        f"{name}, one graph, fdsm": partial(start_graph, objective)
        for name, objective in OBJECTIVES.items()
    }
    four = OBJECTIVES["Taylor-SSM, 4 directions"]
    starts["Taylor-SSM, 4 directions, fdsm"] = partial(
        start_eager, lambda network: lambda x: four(network, x).mean()
    )
    starts["SSM, by hand"] = partial(
        start_eager, lambda network: lambda x: nested_ssm(network, x, sphere(x))
    )
    if "torchebm" in peers:
        from .peers import torchebm_losses

        for count, plural in ((1, ""), (5, "s")):
            starts[f"SSM, {count} direction{plural}, torchebm"] = partial(
                start_eager, partial(torchebm_losses.sliced, directions=count)
            )
    if "jax" in peers:
        from .peers.jax_training import JaxTrainer

        starts["SSM jvp(jvp), JAX jit"] = JaxTrainer
    return starts


def run(
    peers: frozenset[str] = frozenset(),
    *,
    seconds: float,
    seeds: int,
    problems: Sequence[LearningProblem] = PROBLEMS,
    log: Callable[[str], None] = lambda line: None,
) -> Trainings:
    """Train with all methods on all problems whose data are there.

    Args:
        peers: Other packages to compare with.
        seconds: CPU time of each training.
        seeds: Number of trainings of each method.
        problems: Data and networks.
        log: Called with a line before each training.

    Returns:
        The held-out losses.
    """
    curves: list[Curve] = []
    for problem in problems:
        try:
            data, test = problem.data()
        except DataError as error:
            log(f"{problem.name}: left out. {error}")
            continue
        with single_threaded(), quiet(), empty_cache():
            for seed in range(seeds):
                log(f"{problem.name}, seed {seed} ...")
                trainers = {
                    name: start(data, problem.network(test.shape[1], seed), seed)
                    for name, start in methods(peers).items()
                }
                curves += train(trainers, test, seconds, problem.name, seed)
    today = datetime.now(UTC).date().isoformat()
    return Trainings("time-to-loss", seconds, tuple(curves), today, describe_machine())


def train(
    trainers: Mapping[str, Trainer], test: Tensor, seconds: float, problem: str, seed: int
) -> list[Curve]:
    """Train with all trainers, interleaved, and evaluate them at the same times.

    Args:
        trainers: The trainers by name of the method.
        test: Test data.
        seconds: CPU time of each training.
        problem: Name of the problem.
        seed: Random seed, which is recorded.

    Returns:
        The held-out losses of each method.
    """
    compiled = {name: elapsed_first_steps(trainer) for name, trainer in trainers.items()}
    spent = dict.fromkeys(trainers, 0.0)
    steps = dict.fromkeys(trainers, FIRST_STEPS)
    times: dict[str, list[float]] = {name: [0.0] for name in trainers}
    losses = {name: [_held_out(trainer, test)] for name, trainer in trainers.items()}
    for point in range(POINTS):
        until = seconds * EARLIEST ** (1 - point / (POINTS - 1))
        for name, trainer in trainers.items():
            while spent[name] < until:
                start = time.process_time()
                for _ in range(CHUNK):
                    trainer.step()
                trainer.wait()
                spent[name] += time.process_time() - start
                steps[name] += CHUNK
            times[name].append(spent[name])
            losses[name].append(_held_out(trainer, test))
    return [
        Curve(problem, name, seed, compiled[name], steps[name], tuple(times[name]),
              tuple(losses[name]))
        for name in trainers
    ]  # fmt: skip


def elapsed_first_steps(trainer: Trainer) -> float:
    """Return the elapsed seconds of the first steps, which compile."""
    start = time.perf_counter()
    for _ in range(FIRST_STEPS):
        trainer.step()
    trainer.wait()
    return time.perf_counter() - start


def _held_out(trainer: Trainer, test: Tensor) -> float:
    return exact_sm_loss(trainer.model(), test).value


@contextmanager
def empty_cache() -> Generator[None, None, None]:
    """Let the compiler of torch start with an empty cache, so that seed 0 compiles everything."""
    before = os.environ.get(CACHE)
    with tempfile.TemporaryDirectory() as folder:
        os.environ[CACHE] = folder
        try:
            yield
        finally:
            del os.environ[CACHE]
            if before is not None:
                os.environ[CACHE] = before
