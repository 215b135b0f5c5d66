"""The normalizing constant of the density of a table, by its probability flow.

The flow of the noise-conditional model is normalized and close to its log-density at one noise
level. So it is a good proposal for importance sampling, also with many columns.
"""

import warnings
from functools import partial

import torch
from torch import Generator, Tensor

from ..evaluation import SolverError, flow_of_log_density
from ..models import MeanOfMembers
from ..samplers import (
    GaussianMixtureProposal,
    LogPartitionWarning,
    bidirectional_log_partition,
    hmc,
    importance_log_weights,
    log_mean_exp,
)
from .ensemble import LEVELS, SCORED_LEVELS, Ensemble

MAX_COLUMNS = 30
"""Largest number of columns. The time grows with it, and so does the spread of the weights."""
SAMPLES, MOVES = 200, 10
"""Number of samples of the flow and of rows that are moved toward the density, and of moves before
and after the burn-in."""
TOLERANCE = 1e-3
"""Tolerance of the flow in nats, below the spread of the weights."""
MAX_ERROR = 0.1
"""Largest accepted standard error in nats."""


def flow_log_partition(
    ensemble: Ensemble, x: Tensor, generator: Generator
) -> tuple[float, float] | None:
    """Estimate the logarithm of the normalizing constant of the log-density of an ensemble.

    The weights of samples of the flow are compared with those of rows that Hamiltonian Monte Carlo
    moves toward the density, see `bidirectional_log_partition`.

    Args:
        ensemble: The ensemble.
        x: Training rows, shape `(N, D)`.
        generator: Random number generator.

    Returns:
        The estimate and its standard error in nats, or `None` if there are many columns, the error
        is large or the comparison fails.
    """
    if x.shape[1] > MAX_COLUMNS:
        return None
    flow = flow_of_log_density(
        MeanOfMembers(ensemble.network),
        GaussianMixtureProposal(x, LEVELS.first),
        (LEVELS.first, SCORED_LEVELS[0]),
        tolerance=TOLERANCE,
    )
    weigh = partial(importance_log_weights, ensemble.log_density, flow)
    try:
        forward = weigh(flow.sample(SAMPLES, generator))
        if not log_mean_exp(forward).error < MAX_ERROR:
            return None
        rows = x[torch.randint(len(x), (SAMPLES,), device=x.device, generator=generator)]
        chains = hmc(ensemble.log_density, rows, MOVES, burn_in=MOVES, generator=generator)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LogPartitionWarning)
            estimate = bidirectional_log_partition(forward, weigh(chains.samples))
    except (SolverError, ValueError):
        return None
    reliable = estimate.consistent and estimate.error < MAX_ERROR
    return (estimate.value, estimate.error) if reliable else None
