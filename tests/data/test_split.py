"""Splits leave nothing out and nothing twice."""

import numpy as np
import pytest
import torch

from fdsm.data import DataError
from fdsm.data.split import held_out, shuffled, train_val_test_split


def test_rows_are_shuffled_as_numpy_shuffles_them() -> None:
    rows = np.arange(50)[:, None] * np.ones((1, 3))
    np.random.RandomState(2019).shuffle(rows)
    assert shuffled(50, 2019).tolist() == rows[:, 0].tolist()


@pytest.mark.parametrize("n", [10, 70, 1797])
def test_every_row_is_in_one_split(n: int) -> None:
    parts = train_val_test_split(n, validation=0.1, test=0.2, seed=3)
    assert [len(part) for part in parts] == [n - n // 10 - n // 5, n // 10, n // 5]
    assert torch.cat(parts).sort().values.tolist() == list(range(n))
    kept, held = held_out(n, 0.3, seed=3)
    assert len(held) == 3 * n // 10
    assert torch.cat([kept, held]).sort().values.tolist() == list(range(n))


def test_the_seed_decides() -> None:
    assert torch.equal(held_out(20, 0.5, 1)[0], held_out(20, 0.5, 1)[0])
    assert not torch.equal(held_out(20, 0.5, 1)[0], held_out(20, 0.5, 2)[0])


def test_nothing_may_be_held_out() -> None:
    assert [len(part) for part in held_out(5, 0.0, 0)] == [5, 0]


def test_splits_that_leave_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="leave some rows"):
        train_val_test_split(10, validation=0.5, test=0.5, seed=0)
    with pytest.raises(ValueError, match=r"lies in \[0, 1\)"):
        held_out(10, 1.0, 0)
    with pytest.raises(DataError, match="2 rows are too few to hold out 2"):
        train_val_test_split(2, validation=0.1, test=0.1, seed=0)
