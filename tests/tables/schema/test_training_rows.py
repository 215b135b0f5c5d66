"""Tests of the rows that a model is trained on."""

import resource
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from fdsm.tables.errors import DataError, problems_of
from fdsm.tables.frame import frame_from, read_table
from fdsm.tables.schema import TableSchema, TrainingRows, training_rows

VALUES = np.random.default_rng(0).normal(size=(40, 3))


def rows_of(frame: pa.Table, seed: int = 0) -> TrainingRows:
    return training_rows(frame, TableSchema.infer(frame), seed)


def test_rows_are_in_the_random_order_of_the_seed() -> None:
    """Results of the detector depend on this order."""
    order = np.random.RandomState(0).permutation(40)
    rows = rows_of(frame_from(VALUES))
    np.testing.assert_array_equal(rows.codes, VALUES[order])
    assert rows.codes.dtype == np.float64
    assert (rows.dropped, rows.copies, rows.equal_rows) == (0, 0, 0)
    other = np.random.RandomState(3).permutation(40)
    np.testing.assert_array_equal(rows_of(frame_from(VALUES), seed=3).codes, VALUES[other])


def test_rows_without_any_cell_are_dropped_and_equal_categories_stay() -> None:
    frame = pa.table({
        "k": [1] * 23,
        "a": [None] * 3 + [2] * 10 + [None] * 10,
        "b": [None] * 3 + ["x"] * 10 + ["y"] * 10,
    })
    rows = rows_of(frame)
    assert (rows.dropped, rows.copies, len(rows.codes)) == (3, 0, 20)


def test_copies_are_left_out_and_equal_rows_are_counted() -> None:
    copied = rows_of(frame_from(np.tile(VALUES, (3, 1))))
    assert (copied.copies, copied.equal_rows, copied.codes.shape) == (80, 0, (40, 3))
    equal = rows_of(frame_from(np.concatenate([VALUES, VALUES[:7]])))
    assert (equal.copies, equal.equal_rows, equal.codes.shape) == (0, 7, (47, 3))


def test_too_few_rows_raise() -> None:
    values = np.concatenate([VALUES[:8], np.full((9, 3), np.nan)])
    with pytest.raises(DataError, match=r"^8 different rows with values, but at least 10"):
        rows_of(frame_from(values))
    with pytest.raises(DataError, match=r"^1 row, but at least 10 are needed"):
        rows_of(frame_from(VALUES[:1]))


def test_a_table_without_usable_columns_raises_with_the_reasons() -> None:
    frame = pa.table({"id": range(20), "k": [1] * 20, "e": [None] * 20})
    with (
        pytest.raises(
            DataError,
            match=r"^a\.csv: no column can be used: 1 constant \(k\), 1 empty \(e\), 1 ignored "
            r"\(id: running",
        ) as caught,
        problems_of("a.csv"),
    ):
        rows_of(frame)
    assert caught.value.setting == "columns"


@pytest.mark.nightly
def test_ten_million_zeros_raise_without_using_much_memory(tmp_path: Path) -> None:
    path = tmp_path / "zeros.csv"
    path.write_bytes(b"a\n" + b"0\n" * 10**7)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(DataError, match=r"no column can be used: 1 constant \(a\)"):
        rows_of(read_table(path).table)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 650_000  # kilobytes: 20 MB of text, 80 MB of integers, 80 MB of float64
