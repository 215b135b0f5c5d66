r"""A two-dimensional density learnt by SSM, FD-SSM and FD-DSM, side by side.

The target is known in closed form, so that what was learnt can be judged by its Fisher divergence
$E‖∇\log q - ∇\log p‖²$, which score matching minimises without knowing $p$, and by
$KL(p ‖ q)$, for which the model $q$ is normalised on a grid. All methods start from the same
weights and see the same batches; SSM and FD-SSM also draw the same directions, so that they
differ by nothing but the error of the differences. Everything is float32.
"""

import copy
import json
import math
import statistics
import time
from collections.abc import Generator as Iterator
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from torch import Generator, Tensor, nn

from .. import __version__
from ..data import GaussianRing
from ..derivatives import Autodiff, FiniteDifference, score_of
from ..files import replacing
from ..objectives import SSM, SlicedDSM
from ..projections import Sphere
from ..typing import LogDensity, Objective

DTYPE = torch.float32
BATCH = 512
LEARNING_RATE = 5e-3
FRESH = 4096
"""How many samples, not trained on, the Fisher divergence is a mean over."""
RECORDS = 20
"""How many times in a run the Fisher divergence is measured."""


class ConfinedMLP(nn.Module):
    r"""An unnormalised log-density on the plane, $\mathrm{MLP}(x) - e^{c}‖x‖²/2$.

    The network grows at most linearly, so that the learnt quadratic makes $e^f$ integrable. It
    also gives $f$ a curvature from the start, without which the second differences of an untrained
    network are rounding error in float32.

    Attributes:
        network: The perceptron.
        log_precision: The logarithm $c$ of the precision of the confinement.
    """

    def __init__(self, width: int = 64, gain: float = 3.0) -> None:
        """Draw the weights from torch's global random numbers.

        Args:
            width: The number of units of each of the three hidden layers.
            gain: By how much the first layer is larger than usual, for features as narrow as the
                details to be learnt.
        """
        super().__init__()
        first = nn.Linear(2, width, dtype=DTYPE)
        with torch.no_grad():
            first.weight.mul_(gain)
            first.bias.mul_(gain)
        hidden = [nn.Linear(width, width, dtype=DTYPE) for _ in range(2)]
        last = nn.Linear(width, 1, dtype=DTYPE)
        self.network = nn.Sequential(
            first, nn.SiLU(), hidden[0], nn.SiLU(), hidden[1], nn.SiLU(), last
        )
        self.log_precision = nn.Parameter(torch.zeros((), dtype=DTYPE))

    def forward(self, x: Tensor) -> Tensor:
        """Return the log-density up to a constant, shape `(B, 2) -> (B,)`."""
        values: Tensor = self.network(x).squeeze(1)
        return values - self.log_precision.exp() * x.square().sum(1) / 2


@dataclass(frozen=True)
class Method:
    """An objective and what it asks of the model, per example.

    Attributes:
        objective: The objective.
        values: How many values of the log-density it takes.
        gradients: How many nested gradients with respect to the data it takes.
    """

    objective: Objective
    values: int
    gradients: int


METHODS = {
    "SSM": Method(SSM(Autodiff(), Sphere(0.1)), values=1, gradients=2),
    "FD-SSM": Method(SSM(FiniteDifference(), Sphere(0.1)), values=3, gradients=0),
    "FD-DSM": Method(SlicedDSM(0.1, FiniteDifference(), Sphere(0.1)), values=2, gradients=0),
}


@dataclass(frozen=True)
class Grid:
    """A square grid around the origin, to normalise and to draw densities on.

    Attributes:
        half_width: The largest coordinate.
        points: How many points a side has.
    """

    half_width: float = 4.0
    points: int = 201

    def axis(self) -> Tensor:
        """Return the coordinates of one side, shape `(n,)`."""
        return torch.linspace(-self.half_width, self.half_width, self.points, dtype=DTYPE)

    def cell(self) -> float:
        """Return the area that belongs to a point."""
        return (2 * self.half_width / (self.points - 1)) ** 2

    @torch.no_grad()
    def log_density(self, f: LogDensity) -> Tensor:
        """Return `f` at all points, normalised to one over the grid.

        Args:
            f: A log-density, `(B, 2) -> (B,)`, that has no mass to speak of outside.

        Returns:
            The normalised values, shape `(n, n)` as `(x, y)`, in float64.
        """
        values = f(torch.cartesian_prod(self.axis(), self.axis())).double()
        return (values - values.logsumexp(0) - math.log(self.cell())).view(self.points, -1)

    def divergence(self, log_p: Tensor, log_q: Tensor) -> float:
        """Return $KL(p ‖ q)$ in nats of two densities given by their values on the grid."""
        return (log_p.exp() * (log_p - log_q)).sum().item() * self.cell()


@dataclass(frozen=True)
class Record:
    """How far a run had got after some iterations, and the seconds they took by themselves."""

    iteration: int
    seconds: float
    fisher: float


@dataclass(frozen=True)
class Learnt:
    """What became of one method.

    Attributes:
        milliseconds: The median time of an iteration.
        curve: The Fisher divergence from before the first iteration to after the last.
        kl: The divergence $KL(p ‖ q)$ of the model from the target, in nats.
        log_density: The learnt log-density on the grid, normalised, shape `(n, n)`.
    """

    milliseconds: float
    curve: tuple[Record, ...]
    kl: float
    log_density: Tensor


def fisher_divergence(model: LogDensity, target: GaussianRing, x: Tensor) -> float:
    r"""Return the Fisher divergence of a model from the target.

    $$E_p ‖∇\log q(x) - ∇\log p(x)‖²$$

    Args:
        model: The log-density $\log q$, up to a constant.
        target: The density $p$.
        x: Samples of $p$, shape `(B, 2)`.

    Returns:
        The mean over `x`.

    Example:
        >>> target = GaussianRing(modes=1, radius=0.0, scale=1.0)
        >>> x = torch.tensor([[3.0, 4.0]])
        >>> fisher_divergence(lambda x: -x.square().sum(1), target, x)
        25.0
    """
    with torch.no_grad():
        return (score_of(model)(x) - target.score(x)).square().sum(1).mean().item()


class Learner:
    """A model in training by one method, with a clock.

    Args:
        objective: What to minimise.
        model: The model to train, in place.
        iterations: How many there will be; the learning rate falls to zero over them.
        seed: Where the noise and the directions start.
    """

    def __init__(
        self, objective: Objective, model: nn.Module, *, iterations: int, seed: int
    ) -> None:
        self.objective, self.model = objective, model
        self.optimiser = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimiser, iterations)
        self.generator = Generator().manual_seed(seed)
        self.times: list[float] = []
        self.curve: list[Record] = []

    def step(self, x: Tensor) -> None:
        """Train on one batch, shape `(B, 2)`, and take the time."""
        start = time.perf_counter()
        self.optimiser.zero_grad()
        loss = self.objective(self.model, x, generator=self.generator).mean()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()
        self.times.append(time.perf_counter() - start)
        self.schedule.step()

    def record(self, target: GaussianRing, x: Tensor) -> float:
        """Add the Fisher divergence on fresh samples `x` to the curve, and return it."""
        fisher = fisher_divergence(self.model, target, x)
        self.curve.append(Record(len(self.times), sum(self.times), fisher))
        return fisher

    def learnt(self, target: GaussianRing, grid: Grid) -> Learnt:
        """Return what has become of the model."""
        log_density = grid.log_density(self.model)
        return Learnt(
            milliseconds=1000 * statistics.median(self.times),
            curve=tuple(self.curve),
            kl=grid.divergence(grid.log_density(target.log_density), log_density),
            log_density=log_density,
        )


def compare(
    target: GaussianRing,
    methods: Mapping[str, Method],
    *,
    iterations: int,
    seed: int,
    console: Console | None = None,
) -> dict[str, Learnt]:
    """Train a model by each method, one iteration of each in turn, so that the times compare.

    One thread is used: a model of this size gains nothing from two, and where cores are shared
    they wait for each other.

    Args:
        target: The density to learn.
        methods: What to learn it by.
        iterations: How many batches to train on, at least one.
        seed: Decides everything but the times.
        console: Where to show the progress; nowhere by default.

    Returns:
        What became of each method, by its name.

    Raises:
        ValueError: If there are no iterations.
    """
    if iterations < 1:
        raise ValueError(f"there must be at least one iteration, but got {iterations}")
    weights, directions, *streams = _seeds(seed, 4)
    batches, fresh = (Generator().manual_seed(stream) for stream in streams)
    model = _untrained(weights)
    learners = {
        name: Learner(m.objective, copy.deepcopy(model), iterations=iterations, seed=directions)
        for name, m in methods.items()
    }
    with one_thread(), _progress(console) as progress:
        bars = {name: progress.add_task(name, total=iterations, fisher=0.0) for name in learners}
        due = {round(k * iterations / RECORDS) for k in range(1, RECORDS + 1)}
        unseen = target.sample(FRESH, fresh)

        def record() -> None:
            for name, learner in learners.items():
                progress.update(bars[name], fisher=learner.record(target, unseen))

        record()
        for iteration in range(1, iterations + 1):
            x = target.sample(BATCH, batches)
            for name, learner in learners.items():
                learner.step(x)
                progress.advance(bars[name])
            if iteration in due:
                record()
        return {name: learner.learnt(target, Grid()) for name, learner in learners.items()}


def _progress(console: Console | None) -> Progress:
    return Progress(
        TextColumn("{task.description:<6}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("Fisher divergence {task.fields[fisher]:.3f}"),
        console=console,
        disable=console is None,
    )


def _seeds(seed: int, n: int) -> list[int]:
    generator = Generator().manual_seed(seed)
    return [int(s) for s in torch.randint(2**62, (n,), generator=generator)]


def _untrained(seed: int) -> ConfinedMLP:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return ConfinedMLP()


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute on one thread, and on as many as before afterwards.

    Yields:
        Nothing.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def run(
    out: Path, *, iterations: int = 1500, seed: int = 0, console: Console | None = None
) -> dict[str, Learnt]:
    """Learn a ring of eight Gaussians by all methods and keep the results.

    Args:
        out: The folder for `density.npz`, the densities on a grid, and `result.json`, everything
            else. Both are replaced, at the end and whole, so that a failed run changes nothing.
        iterations: How many batches to train on.
        seed: Decides everything but the times.
        console: Where to show the progress; nowhere by default.

    Returns:
        What became of each method, by its name.
    """
    out.mkdir(parents=True, exist_ok=True)
    target = GaussianRing()
    learnt = compare(target, METHODS, iterations=iterations, seed=seed, console=console)
    result = {
        "experiment": "density",
        "seed": seed,
        "versions": {"fdsm": __version__, "torch": torch.__version__},
        "settings": {
            "target": asdict(target),
            "iterations": iterations,
            "batch": BATCH,
            "learning_rate": LEARNING_RATE,
            "grid": asdict(Grid()),
        },
        "methods": {name: _numbers(METHODS[name], learnt[name]) for name in learnt},
    }
    with replacing(out / "density.npz") as path, path.open("wb") as file:
        np.savez(file, **_arrays(target, learnt, seed))
    with replacing(out / "result.json") as path:
        path.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    return learnt


def _arrays(target: GaussianRing, learnt: Mapping[str, Learnt], seed: int) -> dict[str, Any]:
    tensors = {
        "axis": Grid().axis(),
        "samples": target.sample(FRESH, Generator().manual_seed(seed)),
        "target": Grid().log_density(target.log_density).exp(),
        **{name: result.log_density.exp() for name, result in learnt.items()},
    }
    return {name: tensor.to(DTYPE).numpy() for name, tensor in tensors.items()}


def _numbers(method: Method, learnt: Learnt) -> dict[str, object]:
    return {
        "objective": repr(method.objective),
        "values": method.values,
        "gradients": method.gradients,
        "milliseconds_per_iteration": learnt.milliseconds,
        "fisher_before": learnt.curve[0].fisher,
        "fisher_after": learnt.curve[-1].fisher,
        "kl": learnt.kl,
        "curve": [asdict(record) for record in learnt.curve],
    }
