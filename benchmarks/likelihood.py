"""Log-likelihoods by the probability flow: accuracy, coverage, time and memory.

`python -m benchmarks likelihood` writes and prints
results/likelihood/accuracy.json and results/likelihood/costs.json. Accuracy is measured on
Gaussian mixtures whose noisy densities are known. Time and memory are compared with the same
solver and the divergence by a loop over `d` backward passes, on a network with three hidden
layers.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import pairwise, product
from pathlib import Path
from statistics import median

import torch
from rich.console import Console
from rich.table import Table
from torch import Generator, Tensor, nn
from torch.distributions import Independent, Normal

from fdsm.derivatives import score_of
from fdsm.evaluation import (
    FittedDensity,
    ProbabilityFlow,
    flow_of_log_density,
    flow_of_score,
    log_likelihood,
    single_threaded,
    time_interleaved,
)
from fdsm.models import NoiseConditionalMLP

from .memory import peak_bytes

RESULTS = Path(__file__).parent / "results/likelihood"
DIMENSIONS = (2, 16, 64)
LEVELS = (50.0, 0.01)
MIXTURES, ROWS = 4, 50
DIRECTIONS = 16
WIDTH, BATCH, REPEATS = 128, 128, 3


@dataclass(frozen=True)
class Accuracy:
    """Errors of log-likelihoods of rows of mixtures, in nats.

    Attributes:
        dimension: The dimension.
        model: Energy or score.
        directions: Number of random directions, or None for the exact divergence.
        largest: The largest error.
        stated: The largest stated error.
        covered: The share of rows whose error is at most twice the stated one.
    """

    dimension: int
    model: str
    directions: int | None
    largest: float
    stated: float
    covered: float


@dataclass(frozen=True)
class Costs:
    """Costs of log-likelihoods, and of the same with a loop over backward passes.

    Attributes:
        dimension: The dimension.
        model: Energy or score.
        seconds: Median CPU time.
        loop_seconds: The same of the loop.
        peak_bytes: Largest memory that torch allocates for one divergence. It is the same in all
            steps of the solver.
        loop_peak_bytes: The same of the loop.
    """

    dimension: int
    model: str
    seconds: float
    loop_seconds: float
    peak_bytes: int
    loop_peak_bytes: int


@dataclass(frozen=True)
class Mixture:
    """A mixture of isotropic Gaussians, given the noise level."""

    weights: Tensor
    means: Tensor
    scales: Tensor

    @classmethod
    def random(cls, d: int, generator: Generator) -> "Mixture":
        """Return a mixture of three components."""
        weights = 0.2 + torch.rand(3, generator=generator)
        means = 2 * torch.randn(3, d, generator=generator)
        return cls(weights / weights.sum(), means, 0.3 + torch.rand(3, generator=generator))

    def energy(self, x: Tensor, sigma: Tensor) -> Tensor:
        """Return the log-density up to a constant, `(B, d), (B,) -> (B,)`."""
        variances = self.scales.square() + sigma.square()[:, None]
        squares = (x[:, None] - self.means).square().sum(2)
        terms = self.weights.log() - x.shape[1] / 2 * variances.log() - squares / (2 * variances)
        return terms.logsumexp(1)

    def at(self, sigma: float) -> FittedDensity:
        """Return the density at a noise level."""
        identity = torch.eye(self.means.shape[1])
        variances = (self.scales.square() + sigma**2)[:, None, None]
        return FittedDensity(self.weights, self.means, variances * identity)


def accuracy(d: int, model: str, directions: int | None) -> Accuracy:
    """Return the errors on random mixtures, with a quarter of the rows in the tails."""
    print(
        f"accuracy: {d} dimensions, {model}, {directions or 'exact'}", file=sys.stderr, flush=True
    )
    generator = Generator().manual_seed(d)
    build = {"energy": flow_of_log_density, "score": flow_of_score}[model]
    errors, stated = torch.empty(2, MIXTURES, ROWS)
    for i in range(MIXTURES):
        mixture = Mixture.random(d, generator)
        base, truth = (mixture.at(sigma) for sigma in LEVELS)
        f = mixture.energy if model == "energy" else score_of(mixture.energy)
        x = truth.sample(ROWS, generator)
        x[::4] += 3 * d**-0.5 * torch.randn(x[::4].shape, generator=generator)
        flow = build(f, base, LEVELS)
        result = log_likelihood(flow, x, directions=directions, generator=generator)
        errors[i], stated[i] = (result.log_prob - truth.log_prob(x)).abs(), result.error
    covered = (errors <= 2 * stated).double().mean().item()
    return Accuracy(d, model, directions, errors.max().item(), stated.max().item(), covered)


class ScoreMLP(nn.Module):
    """A score with three hidden layers, given the noise level."""

    def __init__(self, d: int) -> None:
        super().__init__()
        sizes = (d + 1, WIDTH, WIDTH, WIDTH)
        hidden = (m for pair in pairwise(sizes) for m in (nn.Linear(*pair), nn.SiLU()))
        self.network = nn.Sequential(*hidden, nn.Linear(WIDTH, d))

    def forward(self, x: Tensor, sigma: Tensor) -> Tensor:
        """Return the score, shape `(B, d), (B,) -> (B, d)`."""
        scaled: Tensor = self.network(
            torch.cat([x / (1 + sigma[:, None]), sigma.log()[:, None]], 1)
        )
        return scaled / (1 + sigma[:, None]) - x / (1 + sigma[:, None].square())


def loop_over_backward_passes(
    velocity: Callable[..., Tensor], x: Tensor, _: Tensor | None, t: Tensor
) -> Tensor:
    """Return the divergence of a velocity by one backward pass per coordinate, shape `(1, B)`."""
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        columns = velocity(x, t).unbind(1)
        gradients = [torch.autograd.grad(v.sum(), x, retain_graph=True)[0] for v in columns]
    return torch.stack([g[:, i] for i, g in enumerate(gradients)]).sum(0)[None]


def flows(d: int, model: str) -> tuple[ProbabilityFlow, ProbabilityFlow]:
    """Return the flow of a network, and the same with the loop."""
    torch.manual_seed(0)
    base = Independent(Normal(torch.zeros(d), LEVELS[0]), 1)
    if model == "energy":
        energy = NoiseConditionalMLP(d, (WIDTH,) * 3)
        flow = flow_of_log_density(energy, base, LEVELS, tolerance=1e-4)
    else:
        flow = flow_of_score(ScoreMLP(d), base, LEVELS, tolerance=1e-4)
    return flow, replace(flow, traces=partial(loop_over_backward_passes, flow.velocity))


def costs(d: int, model: str, rows: int = BATCH, repeats: int = REPEATS) -> Costs:
    """Return the time and memory of both methods, measured alternately."""
    print(f"costs: {d} dimensions, {model}", file=sys.stderr, flush=True)
    x = torch.randn(rows, d)
    pair = flows(d, model)
    exact, loop = (torch.no_grad()(partial(flow.log_prob, x)) for flow in pair)
    torch.testing.assert_close(exact(), loop(), rtol=0, atol=1e-2)
    functions = {"exact": exact, "loop": loop}
    times = time_interleaved(functions, repeats, torch.device("cpu"), max_seconds=60)
    t = torch.zeros(rows)
    peaks = (peak_bytes(torch.no_grad()(partial(flow.traces, x, None, t))) for flow in pair)
    return Costs(d, model, median(times["exact"]), median(times["loop"]), *peaks)


def measure_costs() -> list[Costs]:
    """Measure and write the costs of all cases."""
    with single_threaded():
        rows = [costs(d, model) for d in DIMENSIONS for model in ("energy", "score")]
    write("costs", rows)
    return rows


def measure_accuracy() -> list[Accuracy]:
    """Measure and write the errors of all cases, in float64."""
    torch.set_default_dtype(torch.float64)
    rows: list[Accuracy] = []
    with single_threaded():
        for directions in (None, DIRECTIONS):
            for d, model in product(DIMENSIONS, ("energy", "score")):
                rows.append(accuracy(d, model, directions))
                write("accuracy", rows)
    return rows


def write(name: str, rows: Sequence[Accuracy | Costs]) -> None:
    """Write results."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    text = json.dumps([asdict(row) for row in rows], indent=1) + "\n"
    (RESULTS / f"{name}.json").write_text(text, encoding="utf8")


def tables(accuracies: list[Accuracy], measured: list[Costs]) -> tuple[Table, Table]:
    """Return the results as tables."""
    errors = Table("d", "model", "directions", "largest error", "largest stated", "covered")
    for a in accuracies:
        errors.add_row(
            f"{a.dimension}", a.model, f"{a.directions or 'exact'}", f"{a.largest:.2g}",
            f"{a.stated:.2g}", f"{a.covered:.1%}",
        )  # fmt: skip
    compared = Table("d", "model", "s", "time / loop", "MB", "memory / loop")
    for c in measured:
        compared.add_row(
            f"{c.dimension}", c.model, f"{c.seconds:.2f}", f"{c.seconds / c.loop_seconds:.2f}",
            f"{c.peak_bytes / 1e6:.1f}", f"{c.peak_bytes / c.loop_peak_bytes:.2f}",
        )  # fmt: skip
    return errors, compared


def main(arguments: list[str] | None = None) -> None:
    """Run all cases, write the results and print them."""
    argparse.ArgumentParser(prog="python -m benchmarks likelihood").parse_args(arguments)
    measured, accuracies = measure_costs(), measure_accuracy()
    Console(width=120).print(*tables(accuracies, measured))
