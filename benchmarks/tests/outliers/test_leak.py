from pathlib import Path

import numpy as np
import pytest

from benchmarks.outliers.leak import compare, copies, main, split
from benchmarks.outliers.tables import Table


def test_half_of_the_normal_rows_train_and_all_others_test(table: Table) -> None:
    """The table has 60 + 30 normal rows and 6 anomalies."""
    divided = split(table, np.arange(96))
    np.testing.assert_array_equal(divided.train, table.train[:45])
    np.testing.assert_array_equal(divided.test[:15], table.train[45:])
    np.testing.assert_array_equal(divided.test[15:], table.test)
    assert divided.label.tolist() == [0] * 45 + [1] * 6


def test_the_order_decides_which_rows_train(table: Table) -> None:
    divided = split(table, np.arange(96)[::-1])
    np.testing.assert_array_equal(divided.train[:30], table.held_out[::-1])
    assert divided.label.tolist() == [1] * 6 + [0] * 45


def test_copies_of_training_rows_are_counted(table: Table) -> None:
    assert copies(table) == 0
    twice = split(table, np.tile(np.arange(90), 2))
    assert copies(twice) == 1
    mixed = split(table, np.array([0, 1, 2, 3, 0, 1, 10, 11, 95]))
    assert copies(mixed) == pytest.approx(2 / 4)


def test_resampling_helps_the_nearest_neighbor_and_not_the_split() -> None:
    """Anomalies of the same distribution have an AUC of a half; copies raise it."""
    rows = np.random.default_rng(0).standard_normal((300, 4))
    label = np.repeat([0, 1], [50, 100]).astype(np.uint8)
    section = compare([Table("noise", rows[:150], rows[150:], label)], seeds=3)
    copied, nearest = section.rows[:2]
    assert copied[1] == "0.0"
    assert float(copied[2]) > 70
    assert float(nearest[1]) == pytest.approx(50, abs=6)
    assert float(nearest[2]) > 85


def test_small_tables_of_a_folder_are_compared(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main([str(folder), "--seeds", "1"])
    assert "2 tables of fewer than 1000 rows, 1 splits" in capsys.readouterr().out
