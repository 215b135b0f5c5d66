"""Errors among the training rows: cells beyond an exponential tail of surprises."""

import math

import pytest
import torch
from torch import Generator, Tensor

from fdsm.tables.outliers.training_errors import find_errors

N = 6000


def surprise(x: Tensor) -> Tensor:
    """The surprise of numbers that nothing is known about but their median and deviation."""
    scale = x.abs().median()
    return (x / scale).square().log1p() / 2


LAWS = {
    "normal": lambda generator: torch.randn(N, generator=generator),
    # A chi-square variable with two degrees of freedom, halved, is exponential.
    "t2": lambda generator: (
        torch.randn(N, generator=generator) / torch.rand(N, generator=generator).log().neg().sqrt()
    ),
    "cauchy": lambda generator: torch.empty(N).cauchy_(generator=generator),
    "lognormal": lambda generator: torch.randn(N, generator=generator).exp() - 1,
}


@pytest.mark.parametrize("law", LAWS)
def test_nearly_no_row_of_a_table_without_errors_is_left_out(
    law: str, generator: Generator
) -> None:
    """On average at most 0.03 % of 6,000 rows with five columns, in 20 tables."""
    left_out = [
        find_errors(torch.stack([surprise(LAWS[law](generator)) for _ in range(5)], 1)).sum()
        for _ in range(20)
    ]
    assert torch.stack(left_out).double().mean() <= 0.0003 * N


def test_level_is_kept_for_exponential_tails(generator: Generator) -> None:
    """Then p-values are exact up to the scale, and 0.1 is the chance that any row is left out.

    The scale is estimated from the 20th and the 200th largest of 6,000 values.
    """
    u = torch.rand(400, N, generator=generator).log().neg()
    any_left_out = torch.stack([find_errors(row[:, None]).any() for row in u])
    assert 0.05 < any_left_out.double().mean() < 0.2


@pytest.mark.parametrize("law", LAWS)
def test_planted_errors_are_left_out(law: str, generator: Generator) -> None:
    """Five cells, each a thousand times as far away as the farthest other one."""
    x = LAWS[law](generator)
    x[:5] = 1000 * x.abs().max() * (1 + torch.arange(5))
    left_out = find_errors(torch.stack([surprise(LAWS[law](generator)), surprise(x)], 1))
    assert left_out[:5].all()
    assert left_out[5:].sum() <= 3


@pytest.mark.parametrize(("factor", "count"), [(0.5, 1), (2.0, 0)])
def test_p_value_by_hand(factor: float, count: int) -> None:
    """The smallest of 6,000 p-values is rejected at level 0.1 if it is at most 0.1 / 6000."""
    u = -torch.log((torch.arange(N) + 0.5).double() / N)
    scale = (u[19] - u[199]) / math.log(10)
    u[0] = u[19] + scale * math.log(20 / N / (0.1 / N * factor))
    assert find_errors(u[:, None]).sum().item() == count


def test_equal_surprises_are_no_errors() -> None:
    """In a column that is predicted exactly, nearly all surprises are zero."""
    u = torch.zeros(N)
    u[:100] = 0.2
    assert not find_errors(u[:, None]).any()
    u[0] = 5.0
    assert find_errors(u[:, None]).nonzero().tolist() == [[0]]


def test_missing_cells_and_small_tables_have_no_errors() -> None:
    u = torch.cat([torch.linspace(0, 1, 2999), torch.tensor([1e6])])
    assert find_errors(u[:, None]).nonzero().tolist() == [[2999]]
    assert not find_errors(u[1:, None]).any()
    u[0] = torch.nan
    assert not find_errors(u[:, None]).any()
