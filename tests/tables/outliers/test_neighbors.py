"""Distances to the nearest rows outside a fold, against loops over all rows."""

import math

import pytest
import torch
from torch import Generator, Tensor

from fdsm.tables.outliers import Neighbors, neighbors

NAN = torch.nan


def by_loops(x: Tensor, rows: Tensor, count: int = 5, itself: int = -1) -> float:
    """The mean of log(d + 0.001) over the smallest sums of absolute differences."""
    distances = sorted(
        sum(abs(a - b) for a, b in zip(x.tolist(), row, strict=True))
        for i, row in enumerate(rows.tolist())
        if i != itself
    )
    return sum(math.log(d + 1e-3) for d in distances[:count]) / count


def new(x: Tensor) -> Tensor:
    """No row is a training row."""
    return torch.full((len(x),), -1)


@pytest.mark.parametrize("n", [9, 60])
def test_distances_are_those_to_rows_outside_the_fold(n: int, generator: Generator) -> None:
    """With three folds of three rows there are six rows outside, and with 60 rows 40."""
    rows, folds = torch.randn(n, 3, generator=generator), torch.arange(n) % 3
    x = torch.randn(20, 3, generator=generator)
    values = Neighbors(rows, folds).mean_log_distance(x[None], new(x)[None])
    for k in range(3):
        expected = [by_loops(row, rows[folds != k]) for row in x]
        assert values[k].tolist() == pytest.approx(expected, abs=1e-5)  # distances are float32


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_one_hot_vectors_are_compared_as_a_whole(dtype: torch.dtype, generator: Generator) -> None:
    """Categories of 3 and 5 levels between numbers, minus their frequencies, and by loops."""

    def draw(n: int) -> Tensor:
        numbers = torch.randn(n, 3, generator=generator)
        first, second = (
            torch.eye(k)[torch.randint(k, (n,), generator=generator)] - 1 / k for k in (3, 5)
        )
        return torch.cat([numbers[:, :1], first, numbers[:, 1:], second], 1).to(dtype)

    rows, folds, x = draw(60), torch.arange(60) % 3, draw(20)
    one_hot = Neighbors(rows, folds, (slice(1, 4), slice(6, 11)))
    torch.testing.assert_close(
        one_hot._distances(x[None]),
        torch.cdist(x[None], rows, p=1.0).float(),
        rtol=1e-5,
        atol=1e-5,
    )
    values = one_hot.mean_log_distance(x[None], new(x)[None])
    for k in range(3):
        expected = [by_loops(row, rows[folds != k]) for row in x]
        assert values[k].tolist() == pytest.approx(expected, rel=1e-5)


def test_with_few_rows_outside_a_fold_all_but_one_count() -> None:
    rows, folds = torch.tensor([[0.0], [1.0], [5.0], [7.0]]), torch.tensor([0, 1, 1, 1])
    x = torch.tensor([[2.0]])
    values = Neighbors(rows, folds).mean_log_distance(x[None], new(x)[None])
    assert values[0].tolist() == pytest.approx([by_loops(x[0], rows[1:], 2)])


def test_a_row_is_not_its_own_neighbor(generator: Generator) -> None:
    rows, folds = torch.randn(40, 3, generator=generator), torch.arange(40) % 2
    local = Neighbors(rows, folds)
    values = local.mean_log_distance(rows[None], local.index_of(rows)[None])
    for i, row in enumerate(rows):
        other = 1 - i % 2  # in the model of the other fold, the row is a training row
        expected = by_loops(row, rows[folds != other], itself=i // 2)
        assert values[other, i].item() == pytest.approx(expected)
        expected = by_loops(row, rows[folds != i % 2])
        assert values[i % 2, i].item() == pytest.approx(expected)


def test_copies_have_a_finite_value_and_count_as_neighbors() -> None:
    """Two other rows at distance zero, so log 0.001."""
    rows = torch.ones(6, 1)
    local = Neighbors(rows, torch.arange(6) % 2)
    values = local.mean_log_distance(rows[None], local.index_of(rows)[None])
    torch.testing.assert_close(values, torch.full((2, 6), math.log(1e-3)), rtol=1e-6, atol=1e-6)


def test_rows_with_gaps_are_recognized(generator: Generator) -> None:
    rows = torch.randn(30, 3, generator=generator)
    rows[4, 1] = NAN
    local = Neighbors(rows, torch.arange(30) % 3)
    assert local.index_of(rows).tolist() == list(range(30))
    other = rows[:6].clone()
    other[4, 2] = NAN
    assert local.index_of(other + 0.0).tolist() == [0, 1, 2, 3, -1, 5]
    assert local.index_of(other.double()).tolist() == [0, 1, 2, 3, -1, 5]


def test_gaps_are_filled_from_rows_outside_the_fold() -> None:
    """The second column is ten times the first, in another fold a hundred times."""
    first = torch.arange(1.0, 9.0)
    folds = torch.arange(8) % 2
    rows = torch.stack([first, torch.where(folds == 0, 10.0, 100.0) * first], 1)
    filled = Neighbors(rows, folds).completions(torch.tensor([[[4.2, NAN]]]))
    assert filled.shape == (5, 2, 1, 2)
    assert filled[0, 0, 0].tolist() == pytest.approx([4.2, 400.0])
    assert filled[0, 1, 0].tolist() == pytest.approx([4.2, 50.0])


def test_training_rows_with_gaps_are_filled_from_their_own_fold() -> None:
    """So the rows outside a fold contain nothing of the fold."""
    first = torch.arange(1.0, 9.0)
    folds = torch.arange(8) % 2
    rows = torch.stack([first, torch.where(folds == 0, 10.0, 100.0) * first], 1)
    rows[4, 1] = rows[5, 1] = NAN
    complete = Neighbors(rows, folds).complete_rows
    assert complete[4, 1].item() in {30.0, 70.0}
    assert complete[5, 1].item() in {400.0, 800.0}
    assert torch.equal(complete[:4], rows[:4])


def test_rows_are_different_if_at_most_one_in_a_hundred_is_a_copy(generator: Generator) -> None:
    rows, folds = torch.randn(200, 2, generator=generator), torch.arange(200) % 4
    assert Neighbors(rows, folds).are_different
    assert Neighbors(torch.cat([rows[:198], rows[:2]]), folds).are_different
    assert not Neighbors(torch.cat([rows[:197], rows[:3]]), folds).are_different


def test_a_single_fold_is_refused() -> None:
    with pytest.raises(ValueError, match="distances need at least two folds"):
        Neighbors(torch.randn(20, 2), torch.zeros(20, dtype=torch.long))


def test_rows_in_chunks_have_the_same_values(
    monkeypatch: pytest.MonkeyPatch, generator: Generator
) -> None:
    local = Neighbors(torch.randn(50, 2, generator=generator), torch.arange(50) % 4)
    x = torch.randn(23, 2, generator=generator)
    whole = local.mean_log_distance(x[None], new(x)[None])
    monkeypatch.setattr(neighbors, "CHUNK", 4)
    torch.testing.assert_close(local.mean_log_distance(x[None], new(x)[None]), whole)


def test_minus_d_times_the_value_estimates_the_log_density(generator: Generator) -> None:
    """For uniform rows, d · a(x) differs between two regions by the log of their densities."""
    dense = torch.rand(4000, 2, generator=generator)
    sparse = torch.rand(1000, 2, generator=generator) + 5  # a quarter of the density
    local = Neighbors(torch.cat([dense, sparse]), torch.arange(5000) % 4)
    a, b = (0.1 + 0.8 * torch.rand(500, 2, generator=generator) + shift for shift in (0, 5))
    mean_a, mean_b = (local.mean_log_distance(x[None], new(x)[None]).mean() for x in (a, b))
    difference = 2 * (mean_b - mean_a)
    assert difference.item() == pytest.approx(math.log(4), abs=0.1)
