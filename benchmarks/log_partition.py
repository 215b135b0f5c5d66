"""Bias, reported error and verdict of estimates of log Z, for targets with log Z = 0.

`python -m benchmarks log-partition` takes about five minutes on one core, and writes and prints
results/log_partition/estimates.json. The methods are annealed importance sampling (AIS) and
importance sampling from $N(0, s²I)$, each from samples of the prior alone and from both ends
(`bidirectional_log_partition`). An estimate is silently wrong if it is off by more than three
reported errors and no `LogPartitionWarning` was issued.
"""

import argparse
import json
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import fmean, median

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.distributions import (
    Categorical,
    Chi2,
    Independent,
    MixtureSameFamily,
    MultivariateNormal,
    Normal,
)

from fdsm.samplers import (
    GaussianMixtureProposal,
    LogPartitionWarning,
    ais,
    bidirectional_log_partition,
    importance_log_weights,
    log_mean_exp,
    sigmoid_schedule,
)
from fdsm.typing import LogDensity

normal = partial(Normal, validate_args=False)  # chains may leave the support of a float

RESULTS = Path(__file__).parent / "results/log_partition/estimates.json"
DIMENSIONS = (2, 5, 10, 20)
REPETITIONS, EASY_REPETITIONS = 20, 100
CHAINS, TEMPERATURES, SAMPLES, TARGET_SAMPLES = 200, 100, 1000, 200
"""Chains in each direction; samples of the proposal and of the target."""


@dataclass(frozen=True)
class Target:
    """A density with log Z = 0.

    Attributes:
        log_density: The log-density, `(N, d) -> (N,)`.
        sample: Returns a number of samples, `n -> (n, d)`.
        prior_scale: Standard deviation $s$ of the prior.
        easy: Whether the prior covers the target.
    """

    log_density: LogDensity
    sample: Callable[[int], Tensor]
    prior_scale: float = 2.0
    easy: bool = False


def mixture(
    means: Tensor,
    scales: Sequence[float],
    weights: Sequence[float],
    prior_scale: float = 2.0,
    easy: bool = False,
) -> Target:
    """Return a mixture of isotropic Gaussians."""
    components = normal(means, torch.tensor(scales)[:, None])
    law = MixtureSameFamily(
        Categorical(torch.tensor(weights)), Independent(components, 1), validate_args=False
    )
    return Target(law.log_prob, lambda n: law.sample((n,)), prior_scale, easy)


def student(d: int, freedom: float) -> Target:
    """Return the multivariate t distribution; one degree of freedom is Cauchy's."""
    log_volume = (
        math.lgamma(freedom / 2)
        - math.lgamma((freedom + d) / 2)
        + d / 2 * math.log(freedom * math.pi)
    )
    return Target(
        lambda x: -(freedom + d) / 2 * (x.square().sum(1) / freedom).log1p() - log_volume,
        lambda n: (
            torch.randn(n, d) * (freedom / Chi2(torch.tensor(freedom)).sample((n, 1))).sqrt()
        ),
    )


def funnel(d: int) -> Target:
    """Return Neal's funnel: $v ∼ N(0, 9)$ and $x_i ∼ N(0, e^v)$ for the other columns."""

    def log_density(x: Tensor) -> Tensor:
        v, rest = x[:, :1], x[:, 1:]
        log_p: Tensor = normal(0.0, 3.0).log_prob(v).sum(1)
        log_p += normal(0.0, (v / 2).exp()).log_prob(rest).sum(1)
        return log_p

    def sample(n: int) -> Tensor:
        v = 3 * torch.randn(n, 1)
        return torch.cat([v, (v / 2).exp() * torch.randn(n, d - 1)], 1)

    return Target(log_density, sample)


def banana(d: int) -> Target:
    """Return a curved ridge: the second column is $N(2 x_1² - 2, 1/16)$."""

    def log_density(x: Tensor) -> Tensor:
        curved: Tensor = normal(2 * x[:, 0].square() - 2, 0.25).log_prob(x[:, 1])
        curved += normal(0.0, 1.0).log_prob(x).sum(1) - normal(0.0, 1.0).log_prob(x[:, 1])
        return curved

    def sample(n: int) -> Tensor:
        x = torch.randn(n, d)
        x[:, 1] = 2 * x[:, 0].square() - 2 + x[:, 1] / 4
        return x

    return Target(log_density, sample)


def ridge(d: int, condition: float) -> Target:
    """Return a Gaussian with a condition number, in random directions."""
    axes, _ = torch.linalg.qr(torch.randn(d, d))
    variances = 4 * torch.logspace(0, -math.log10(condition), d)
    law = MultivariateNormal(torch.zeros(d), axes @ variances.diag() @ axes.T, validate_args=False)
    return Target(law.log_prob, lambda n: law.sample((n,)))


def targets(d: int) -> dict[str, Target]:
    """Return the targets in `d` dimensions."""
    axis = torch.eye(d)[:1]
    on_sphere = lambda k: 8 * torch.nn.functional.normalize(torch.randn(k, d))
    pair = lambda distance: torch.cat([0 * axis, distance * axis])
    near = pair(3.0) - 1.5 * axis
    apart = mixture(pair(8.0) - 4 * axis, (1.0, 1.0), (0.8, 0.2))
    return {
        "normal": mixture(0.5 * torch.ones(1, d), (1.0,), (1.0,), easy=True),
        "two modes, 3 apart": mixture(near, (1.0, 1.0), (0.5, 0.5), easy=True),
        "two modes, 3 apart, unequal": mixture(near, (1.0, 0.7), (0.8, 0.2), easy=True),
        "two modes, 8 apart, prior between": mixture(
            pair(8.0) - 4 * axis, (1.0, 1.0), (0.5, 0.5), easy=True
        ),
        "two modes, 8 apart, prior at one": mixture(pair(8.0), (1.0, 1.0), (0.5, 0.5), 1.0),
        "two modes, prior at that of 10 %": mixture(pair(8.0), (1.0, 1.0), (0.1, 0.9), 1.0),
        "two modes, 20 apart, prior at one": mixture(pair(20.0), (1.0, 1.0), (0.5, 0.5), 1.0),
        "two modes, samples of one": Target(
            apart.log_density, lambda n: torch.randn(n, d) - 4 * axis, 3.0
        ),
        "five modes": mixture(on_sphere(5), (1.0,) * 5, (0.2,) * 5, 3.0),
        "eight modes, unequal": mixture(
            on_sphere(8),
            (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
            (0.3, 0.2, 0.15, 0.1, 0.1, 0.05, 0.05, 0.05),
            3.0,
        ),
        "spike of width 0.01": mixture(pair(0.0), (1.0, 0.01), (0.3, 0.7), 1.0),
        "spike of width 0.1": mixture(pair(0.0), (1.0, 0.1), (0.3, 0.7)),
        "Cauchy": student(d, 1.0),
        "t, 2 degrees of freedom": student(d, 2.0),
        "t, 3 degrees of freedom": student(d, 3.0),
        "funnel": funnel(d),
        "ridge, condition 1e3": ridge(d, 1e3),
        "ridge, condition 1e4": ridge(d, 1e4),
        "banana": banana(d),
    }


@dataclass(frozen=True)
class Row:
    """Repeated estimates of one target with one method.

    Attributes:
        target: Name of the target.
        dimension: Its dimension.
        method: Name of the method.
        easy: Whether the prior covers the target, so that a notice is a false alarm.
        repetitions: Number of estimates.
        bias: Mean of the estimates.
        error: Median of the reported errors.
        wrong: Number of estimates that are off by more than three reported errors.
        noticed: Number of estimates with a warning.
        silent: Number of estimates that are off by more than three errors without a warning.
    """

    target: str
    dimension: int
    method: str
    easy: bool
    repetitions: int
    bias: float
    error: float
    wrong: int
    noticed: int
    silent: int


def log_weights(target: Target, d: int, n: int) -> dict[str, tuple[Tensor, Tensor]]:
    """Return forward and reverse log-weights of AIS and of importance sampling.

    Args:
        target: The target.
        d: Its dimension.
        n: Number of repetitions.

    Returns:
        Tensors with one row per repetition, by method.
    """
    prior = GaussianMixtureProposal(torch.zeros(1, d), target.prior_scale)
    start, end = prior.sample(n * CHAINS), target.sample(n * CHAINS)
    anneal = lambda first, last, x: ais(
        first, last, x, temperatures=sigmoid_schedule(TEMPERATURES), leapfrog=5, step_size=0.3,
        adapt=None,
    ).log_weights  # fmt: skip
    weigh = lambda x: importance_log_weights(target.log_density, prior, x)
    return {
        "AIS": (
            anneal(prior, target.log_density, start).view(n, -1),
            -anneal(target.log_density, prior, end).view(n, -1),
        ),
        "importance": (
            weigh(prior.sample(n * SAMPLES)).view(n, -1),
            weigh(target.sample(n * TARGET_SAMPLES)).view(n, -1),
        ),
    }


def rows(name: str, target: Target, d: int, n: int) -> list[Row]:
    """Return the rows of one target: each method forward alone and from both ends."""
    result = []
    for method, (forward, reverse) in log_weights(target, d, n).items():
        alone = log_mean_exp(forward.T)
        pairs = list(zip(alone.value.tolist(), alone.error.tolist(), strict=True))
        easy = target.easy and (method == "AIS" or d < 10)  # weights of one step spread with d
        result.append(summary(name, d, method, easy, pairs, [False] * n))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LogPartitionWarning)
            estimates = [
                bidirectional_log_partition(*w) for w in zip(forward, reverse, strict=True)
            ]
        pairs = [(e.value, e.error) for e in estimates]
        notices = [not e.consistent for e in estimates]
        result.append(summary(name, d, f"{method}, both ends", easy, pairs, notices))
    return result


def summary(
    name: str,
    d: int,
    method: str,
    easy: bool,
    pairs: Sequence[tuple[float, float]],
    notices: Sequence[bool],
) -> Row:
    """Return the row of pairs of value and error, and of notices."""
    wrong = [abs(value) > 3 * error + 1e-6 for value, error in pairs]
    silent = [w and not noticed for w, noticed in zip(wrong, notices, strict=True)]
    bias = fmean(value for value, _ in pairs)
    error = median(error for _, error in pairs)
    return Row(
        name, d, method, easy, len(pairs), bias, error, sum(wrong), sum(notices), sum(silent)
    )


def table(results: Sequence[Row]) -> Table:
    """Return the results as a table."""
    shown = Table(
        "target", "d", "method", "bias", "error", "off by > 3 errors", "noticed", "silent"
    )
    for r in results:
        counts = (f"{k} of {r.repetitions}" for k in (r.wrong, r.noticed, r.silent))
        shown.add_row(
            r.target, f"{r.dimension}", r.method, f"{r.bias:.3f}", f"{r.error:.2g}", *counts
        )
    return shown


def totals(results: Sequence[Row]) -> list[str]:
    """Return the share of silently wrong estimates and of false alarms, by method."""
    lines = []
    for method in dict.fromkeys(row.method for row in results):
        own = [row for row in results if row.method == method]
        easy = [row for row in own if row.easy]
        share = lambda rows, field: (
            sum(getattr(r, field) for r in rows) / sum(r.repetitions for r in rows)
        )
        lines.append(
            f"{method}: {share(own, 'silent'):.2%} of {sum(r.repetitions for r in own)} estimates "
            f"silently wrong, {share(easy, 'noticed'):.2%} false alarms on "
            f"{sum(r.repetitions for r in easy)} estimates of easy targets"
        )
    return lines


def main(arguments: list[str] | None = None) -> None:
    """Run all cases, write the results and print them."""
    argparse.ArgumentParser(prog="python -m benchmarks log-partition").parse_args(arguments)
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    results = [
        row
        for d in DIMENSIONS
        for name, target in targets(d).items()
        for row in rows(name, target, d, EASY_REPETITIONS if target.easy else REPETITIONS)
    ]
    RESULTS.write_text(
        json.dumps([asdict(row) for row in results], indent=1) + "\n", encoding="utf8"
    )
    console = Console(width=120)
    console.print(table(results))
    console.print("\n".join(totals(results)))
