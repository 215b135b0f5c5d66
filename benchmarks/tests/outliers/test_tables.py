from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.outliers.tables import Table, column_scales, delete_cells, read_table


def test_a_table_is_read_from_its_file(folder: Path, table: Table) -> None:
    read = read_table(folder / "a_one.npz")
    np.testing.assert_array_equal(read.test, table.test)
    assert (read.name, read.group) == ("a_one", "a")
    assert read.facts() == {
        "train_rows": 60,
        "columns": 3,
        "test_normals": 30,
        "anomalies": 6,
        "digest": table.digest,
    }
    np.testing.assert_array_equal(read.held_out, table.test[:30])


def test_the_digest_depends_on_every_array(table: Table) -> None:
    changed = [
        replace(table, train=table.train + 1),
        replace(table, test=table.test + 1),
        replace(table, label=1 - table.label),
    ]
    assert len({table.digest, *(other.digest for other in changed)}) == 4


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"train": np.ones((2, 2))}, "no array called label or test"),
        ({"train": np.ones((2, 2)), "test": np.ones((2, 3)), "label": [0, 1]}, "expected train"),
        ({"train": np.ones((2, 2)), "test": np.ones((2, 2)), "label": [0, 0]}, "must contain"),
    ],
)
def test_a_wrong_file_is_refused(
    arrays: dict[str, np.ndarray], message: str, tmp_path: Path
) -> None:
    np.savez(tmp_path / "t.npz", **arrays)
    with pytest.raises(ValueError, match=message):
        read_table(tmp_path / "t.npz")


def test_the_asked_fraction_of_cells_is_deleted_and_the_others_are_kept(table: Table) -> None:
    large = replace(table, train=np.random.default_rng(1).standard_normal((20_000, 5)))
    deleted = delete_cells(large, 0.2, seed=0)
    gone = np.isnan(deleted.train)
    assert gone.mean() == pytest.approx(0.2, abs=0.005)
    np.testing.assert_array_equal(deleted.train[~gone], large.train[~gone])
    assert np.isnan(deleted.test).any()
    assert not np.isnan(large.train).any()


def test_a_row_keeps_a_cell(table: Table) -> None:
    deleted = delete_cells(table, 0.99, seed=0)
    present = (~np.isnan(deleted.train)).sum(1)
    assert present.min() == 1
    assert (present == 1).mean() > 0.9


def test_deleted_cells_depend_on_the_seed_only(table: Table) -> None:
    first, again, other = (delete_cells(table, 0.5, seed).train for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(np.isnan(first), np.isnan(other))


def test_a_constant_column_has_the_scale_one() -> None:
    """The standard deviation of 520 times 1.11 is 2e-16 in float64."""
    rows = np.column_stack([np.full(520, 1.11), np.tile([0.0, 4.0], 260)])
    rows[0, 1] = rows[1, 1] = np.nan
    assert rows[:, 0].std() > 0
    np.testing.assert_array_equal(column_scales(rows), [1, 2])
