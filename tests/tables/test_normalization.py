"""Normalizing constants of noise-conditional densities in closed form, or none."""

import math

import pytest
import torch
from torch import Generator, Tensor, nn

from fdsm.tables.ensemble import SCORED_LEVELS, Ensemble, choose_objective
from fdsm.tables.normalization import MAX_COLUMNS, MAX_ERROR, flow_log_partition


class Noisy(nn.Module):
    """Standard normal rows with noise. At the scored level the log-density may be wrong."""

    members = 1

    def __init__(self, factor: float = 1.0) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor, sigma: Tensor) -> Tensor:
        wrong = torch.where(sigma > SCORED_LEVELS[0] + 1e-6, 1.0, self.factor)
        return 7 - wrong * x.square().sum(-1) / (2 * (1 + sigma.square()))


def ensemble(factor: float = 1.0) -> Ensemble:
    return Ensemble(Noisy(factor), choose_objective())  # type: ignore[arg-type]


@pytest.mark.parametrize("d", [2, 10, 20])
def test_constant_of_noisy_normal_rows(d: int, generator: Generator) -> None:
    x = torch.randn(2000, d, generator=generator)
    estimate = flow_log_partition(ensemble(), x, generator)
    assert estimate is not None
    value, error = estimate
    truth = 7 + d / 2 * math.log(2 * math.pi * (1 + SCORED_LEVELS[0] ** 2))
    assert error < MAX_ERROR
    assert abs(value - truth) < 4 * error + 0.01  # the tolerance of the flow


def test_no_constant_if_the_weights_spread_or_there_are_many_columns(generator: Generator) -> None:
    x = torch.randn(500, 10, generator=generator)
    assert flow_log_partition(ensemble(5.0), x, generator) is None
    wide = torch.randn(50, MAX_COLUMNS + 1, generator=generator)
    assert flow_log_partition(ensemble(), wide, generator) is None
