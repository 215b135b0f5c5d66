import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.imputation import (
    MECHANISMS,
    METHODS,
    TABLES,
    choose_rows,
    compare_cells,
    energy_distance,
    gaps,
    main,
    measure,
    summarize,
)
from benchmarks.outliers.tables import Array
from paper.data import DataError


@pytest.fixture
def rows() -> Array:
    """Return correlated normal rows of very different units."""
    random = np.random.default_rng(0)
    x = random.normal(size=(2000, 1)) + 0.1 * random.normal(size=(2000, 5))
    scaled: Array = x * [1, 10, 100, 1e3, 1e4]
    return scaled


def test_a_fifth_of_the_cells_is_deleted_at_random(rows: Array) -> None:
    deleted = gaps(rows, "at random", seed=0)
    assert deleted.mean() == pytest.approx(0.2, abs=0.012)  # three standard errors
    above = rows > np.median(rows, 0)
    assert deleted[above].mean() == pytest.approx(deleted[~above].mean(), abs=0.025)


def test_larger_values_are_deleted_more_often(rows: Array) -> None:
    """The probability grows from 0 to 0.4, so it is 0.1 and 0.3 on average in the halves."""
    deleted = gaps(rows, "larger values more often", seed=0)
    above = rows > np.median(rows, 0)
    assert deleted.mean() == pytest.approx(0.2, abs=0.012)
    assert deleted[above].mean() == pytest.approx(0.3, abs=0.02)
    assert deleted[~above].mean() == pytest.approx(0.1, abs=0.015)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_every_row_and_every_column_keeps_a_cell(mechanism: str) -> None:
    for seed in range(50):
        deleted = gaps(np.arange(6.0).reshape(3, 2), mechanism, seed)
        assert not deleted.all(1).any()
        assert not deleted.all(0).any()


def test_a_perfect_method_has_no_error(rows: Array) -> None:
    deleted = gaps(rows, "at random", seed=0)
    assert compare_cells(rows, rows, deleted) == {"cells": 0, "columns": 0, "rows": 0}


def test_a_shift_by_a_deviation_is_the_distance_of_cells_and_columns(rows: Array) -> None:
    deleted = gaps(rows, "at random", seed=0)
    shifted = np.where(deleted, rows + rows.std(0), rows)
    distances = compare_cells(rows, shifted, deleted)
    assert distances["cells"] == pytest.approx(1)
    assert distances["columns"] == pytest.approx(1)
    assert distances["rows"] > 0.1


def test_the_mean_has_the_error_of_a_deviation_and_a_constant_distribution(rows: Array) -> None:
    """Cells: 1. Columns: the mean absolute deviation of a normal variable, (2 / pi)**0.5."""
    record = measure(rows, "at random", METHODS["mean"], seed=0)
    assert record["cells"] == pytest.approx(1, abs=0.05)
    assert record["columns"] == pytest.approx((2 / np.pi) ** 0.5, abs=0.04)
    assert record["left"] == 0


def test_regressions_and_neighbors_use_the_other_columns(rows: Array) -> None:
    """The columns have correlation 1 / 1.01, so the error of a regression is about 0.11."""
    errors = {
        name: measure(rows[:300], "at random", METHODS[name], seed=0)
        for name in ("KNN", "iterative", "iterative, one draw")
    }
    assert errors["iterative"]["cells"] == pytest.approx(0.11, abs=0.03)
    assert errors["KNN"]["cells"] < 0.25
    assert errors["iterative, one draw"]["cells"] == pytest.approx(0.11 * 2**0.5, abs=0.05)


def test_a_method_that_knows_the_rows_and_a_gap_that_is_left(rows: Array) -> None:
    def perfect(known: Array, seed: int) -> Array:
        deleted = np.isnan(known)
        raw = np.where(deleted, np.nan, rows)
        return (rows - np.nanmean(raw, 0)) / np.nanstd(raw, 0)

    record = measure(rows, "larger values more often", perfect, seed=0)
    assert record["cells"] == pytest.approx(0, abs=1e-12)
    unchanged = measure(rows, "at random", lambda known, seed: known, seed=0)
    mean = measure(rows, "at random", METHODS["mean"], seed=0)
    assert unchanged["left"] == gaps(rows, "at random", 0).sum()
    assert unchanged["cells"] == pytest.approx(mean["cells"])


def test_energy_distance_of_normal_rows() -> None:
    r"""$E|X - Y|$ of two normal numbers that are $d$ apart is that of $N(d, 2)$."""
    random = np.random.default_rng(0)
    x, y = random.normal(size=(3000, 1)), 2 + random.normal(size=(3000, 1))
    s, d = 2**0.5, 2.0
    folded = s * (2 / np.pi) ** 0.5 * np.exp(-(d**2) / 4) + d * (1 - 2 * 0.07864960352514258)
    expected = 2 * folded - 2 * s * (2 / np.pi) ** 0.5
    assert energy_distance(x, y) ** 2 == pytest.approx(expected, rel=0.06)


@pytest.mark.parametrize(("method", "value"), [("fdsm", 0.0), ("fdsm, one draw", 7.0)])
def test_the_model_fills_the_gaps_of_its_table(
    method: str, value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Model:
        """Fills gaps with 0, and in the first of several draws with 7."""

        def impute(self, table: pa.Table, *, draws: int | None = None, seed: int = 0) -> object:
            fill = lambda number: pa.table({n: table[n].fill_null(number) for n in ("x0", "x1")})
            return fill(0.0) if draws is None else [fill(7.0 + i) for i in range(draws)]

    fit = lambda table, **options: Model()
    monkeypatch.setattr("benchmarks.imputation.TableModel.fit", fit)
    filled = METHODS[method](np.array([[1.0, np.nan], [np.nan, 2.0]]), 0)
    np.testing.assert_array_equal(filled, [[1, value], [value, 2]])


def test_twenty_tables_have_numbers_only() -> None:
    assert len(TABLES) == 20
    for name, read in TABLES.items():
        try:
            rows = choose_rows(read())
        except DataError:
            continue
        assert np.isfinite(rows).all(), name
        assert 100 <= len(rows) <= 1000, name
        assert (rows.min(0) < rows.max(0)).all(), name


def test_differences_are_from_the_best_method_of_each_measure() -> None:
    same = {"rows": 1.0, "seconds": 1.0}
    record = lambda cells, columns: {"cells": cells, "columns": columns, **same}
    results = {
        "a": {"at random, mean, 0": record(1.0, 0.2), "at random, KNN, 0": record(0.5, 0.4)},
        "b": {"at random, mean, 0": record(1.0, 0.2), "at random, KNN, 0": record(0.7, 0.4)},
    }
    [section] = summarize(results, 1)
    assert section.rows == [
        ["mean", "1.000", "+0.400 ± 0.100", "0.200", "—", "1.000", "—", "2.00", "1.00"],
        ["KNN", "0.600", "—", "0.400", "+0.200 ± 0.000", "1.000", "—", "1.00", "1.00"],
    ]


def test_results_are_kept_and_failures_are_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(TABLES, "iris", lambda: np.random.default_rng(0).normal(size=(60, 3)))
    calls: list[int] = []

    def fails_once_per_mechanism(rows: Array, seed: int) -> Array:
        calls.append(seed)
        if len(calls) <= 2:
            raise ValueError("no")
        return np.nan_to_num(rows)

    monkeypatch.setitem(METHODS, "mean", fails_once_per_mechanism)
    arguments = ["--only", "iris", "--methods", "mean", "--out", str(tmp_path)]
    for expected in (2, 4, 4):
        main(arguments)
        assert len(calls) == expected
    written = json.loads((tmp_path / "iris.json").read_text())
    assert set(written) == {f"{mechanism}, mean, 0" for mechanism in MECHANISMS}
    assert "## At random (1 tables)" in (tmp_path / "README.md").read_text()
