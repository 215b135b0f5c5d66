"""Distances to the nearest rows against loops over all rows."""

import math

import pytest
import torch
from torch import Generator, Tensor

from fdsm.outliers import Neighbors, neighbors
from fdsm.outliers.neighbors import mean_log_distance


def by_loops(x: Tensor, rows: Tensor, skip_equal_index: bool = False) -> list[float]:
    """The mean of log(d + 0.001) over the five smallest sums of absolute differences."""
    result = []
    for i, point in enumerate(x.tolist()):
        distances = sorted(
            sum(abs(a - b) for a, b in zip(point, row, strict=True))
            for j, row in enumerate(rows.tolist())
            if not (skip_equal_index and i == j)
        )
        nearest = distances[:5]
        result.append(sum(math.log(d + 1e-3) for d in nearest) / len(nearest))
    return result


@pytest.mark.parametrize("count", [1, 4, 5, 60])
def test_distances_are_those_of_all_pairs(count: int, generator: Generator) -> None:
    rows = torch.randn(count, 3, generator=generator)
    x = torch.randn(20, 3, generator=generator)
    found = mean_log_distance(Neighbors(rows).nearest(x))
    assert found.tolist() == pytest.approx(by_loops(x, rows))


def test_leave_one_out_compares_each_row_with_all_others(generator: Generator) -> None:
    rows = torch.randn(40, 3, generator=generator)
    nearest = Neighbors(rows).nearest(rows)
    found = mean_log_distance(nearest, nearest[:, 0] == 0)
    assert found.tolist() == pytest.approx(by_loops(rows, rows, skip_equal_index=True))


def test_copies_have_a_finite_value_and_count_as_neighbours() -> None:
    """Three copies: two other rows at distance zero, so log 0.001."""
    rows = torch.tensor([[1.0], [1.0], [1.0]])
    torch.testing.assert_close(
        mean_log_distance(Neighbors(rows).nearest(rows), torch.ones(3, dtype=torch.bool)),
        torch.full((3,), math.log(1e-3)),
        rtol=1e-6,
        atol=1e-6,
    )


def test_copy_of_a_row_is_closer_than_the_row_without_itself(generator: Generator) -> None:
    """With itself, the smallest distance is zero. Without, it is the next five."""
    rows = torch.randn(30, 2, generator=generator)
    nearest = Neighbors(rows).nearest(rows)
    with_itself, without = (
        mean_log_distance(nearest),
        mean_log_distance(nearest, nearest[:, 0] == 0),
    )
    assert with_itself.tolist() == pytest.approx(by_loops(rows, rows))
    assert without.tolist() == pytest.approx(by_loops(rows, rows, skip_equal_index=True))
    assert (with_itself < without).all()


def test_rows_are_different_if_at_most_one_in_a_hundred_is_a_copy(generator: Generator) -> None:
    rows = torch.randn(200, 2, generator=generator)
    assert Neighbors(rows).are_different
    assert Neighbors(torch.cat([rows[:198], rows[:2]])).are_different
    assert not Neighbors(torch.cat([rows[:197], rows[:3]])).are_different


def test_rows_in_chunks_have_the_same_values(
    monkeypatch: pytest.MonkeyPatch, generator: Generator
) -> None:
    found = Neighbors(torch.randn(50, 2, generator=generator))
    x = torch.randn(23, 2, generator=generator)
    whole = found.nearest(x)
    monkeypatch.setattr(neighbors, "CHUNK", 4)
    torch.testing.assert_close(found.nearest(x), whole)


def test_minus_d_times_the_value_estimates_the_log_density(generator: Generator) -> None:
    """For uniform rows, d · a(x) differs between two regions by the log of their densities."""
    dense = torch.rand(4000, 2, generator=generator)
    sparse = torch.rand(1000, 2, generator=generator) + 5  # a quarter of the density
    local = Neighbors(torch.cat([dense, sparse]))
    a, b = (0.1 + 0.8 * torch.rand(500, 2, generator=generator) + shift for shift in (0, 5))
    mean_a, mean_b = (mean_log_distance(local.nearest(x)).mean() for x in (a, b))
    difference = 2 * (mean_b - mean_a)
    assert difference.item() == pytest.approx(math.log(4), abs=0.1)
