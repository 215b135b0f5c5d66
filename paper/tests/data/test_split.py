"""Tests of random splits."""

import numpy as np
import pytest
import torch

from paper.data import DataError
from paper.data.split import (
    fixed_shuffle,
    holdout_split,
    index_splits,
    permutation,
    train_val_test_split,
)


def test_permutation_equals_the_shuffle_of_numpy() -> None:
    rows = np.arange(50)[:, None] * np.ones((1, 3))
    np.random.RandomState(2019).shuffle(rows)
    assert permutation(50, 2019).tolist() == rows[:, 0].tolist()


@pytest.mark.parametrize("n", [10, 70, 1797])
def test_each_row_is_in_exactly_one_split(n: int) -> None:
    parts = train_val_test_split(n, validation=0.1, test=0.2, seed=3)
    assert [len(part) for part in parts] == [n - n // 10 - n // 5, n // 10, n // 5]
    assert torch.cat(parts).sort().values.tolist() == list(range(n))
    kept, held = holdout_split(n, 0.3, seed=3)
    assert len(held) == 3 * n // 10
    assert torch.cat([kept, held]).sort().values.tolist() == list(range(n))


def test_the_split_depends_only_on_the_seed() -> None:
    assert torch.equal(holdout_split(20, 0.5, 1)[0], holdout_split(20, 0.5, 1)[0])
    assert not torch.equal(holdout_split(20, 0.5, 1)[0], holdout_split(20, 0.5, 2)[0])


def test_a_fraction_of_zero_holds_out_no_rows() -> None:
    assert [len(part) for part in holdout_split(5, 0.0, 0)] == [5, 0]


def test_splits_without_training_rows_raise() -> None:
    with pytest.raises(ValueError, match=r"less than 1, but are 0\.5 and 0\.5"):
        train_val_test_split(10, validation=0.5, test=0.5, seed=0)
    with pytest.raises(ValueError, match=r"must be in \[0, 1\), but is 1\.0"):
        holdout_split(10, 1.0, 0)
    with pytest.raises(DataError, match="2 rows are too few to hold out 2"):
        train_val_test_split(2, validation=0.1, test=0.1, seed=0)


def test_index_splits_returns_the_rows_of_each_split() -> None:
    splits = torch.tensor([2, 0]), torch.tensor([1]), torch.tensor([], dtype=torch.long)
    found = index_splits(torch.tensor([10, 11, 12]), splits)
    assert [rows.tolist() for rows in found] == [[12, 10], [11], []]


def test_fixed_shuffle_is_a_permutation_that_depends_on_the_number_of_rows() -> None:
    rows = torch.randn(30, 2)
    shuffled = fixed_shuffle(rows)
    assert torch.equal(fixed_shuffle(rows + 1), shuffled + 1)
    assert not torch.equal(shuffled, rows)
    assert torch.equal(shuffled.sort(0).values, rows.sort(0).values)
