import warnings
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch

from benchmarks.outliers.tables import Array
from benchmarks.synthesis import (
    METHODS,
    TABLES,
    classifier_auc,
    copies,
    ctgan,
    decode,
    distances,
    gaussian_copula,
    independent_columns,
    main,
    measure,
    numbers_of,
    pair_error,
    split,
    strength,
)


def mixed(rows: int, seed: int) -> pa.Table:
    """Return a number, one that grows with it, its sign in words, and a date with gaps."""
    random = np.random.default_rng(seed)
    x = random.normal(size=rows)
    days = np.datetime64("2020-01-01") + np.round(100 * random.random(rows)).astype(int)
    return pa.table({
        "x": x,
        "y": np.exp(x + 0.5 * random.normal(size=rows)),
        "sign": np.where(x > 0, "plus", "minus"),
        "day": pa.array(days, mask=random.random(rows) < 0.1),
    })


def correlations(table: pa.Table) -> Array:
    x = numbers_of(table, table)
    text = [False, False, True, False]
    columns = list(zip(x.T, text, strict=True))
    return np.array([[strength(a, b, s, t) for a, s in columns] for b, t in columns])


def test_the_copula_reproduces_columns_and_correlations() -> None:
    train = mixed(4000, 0)
    samples = gaussian_copula(train, 4000, seed=0)
    assert samples.schema == train.schema
    assert set(samples["x"].to_pylist()) <= set(train["x"].to_pylist())
    assert np.mean(samples["sign"].to_numpy() == "plus") == pytest.approx(0.5, abs=0.03)
    assert samples["day"].null_count == pytest.approx(400, abs=80)
    expected, drawn = correlations(train), correlations(samples)
    assert drawn[0, 1] == pytest.approx(expected[0, 1], abs=0.03)
    assert drawn[0, 2] == pytest.approx(expected[0, 2], abs=0.02)
    assert abs(drawn[0, 3]) < 0.06


def test_the_copula_of_normal_columns_has_their_covariance() -> None:
    random = np.random.default_rng(0)
    rows = random.multivariate_normal([0, 0], [[1, -0.8], [-0.8, 1]], 20_000)
    samples = gaussian_copula(pa.table({"a": rows[:, 0], "b": rows[:, 1]}), 20_000, seed=1)
    drawn = np.stack([column.to_numpy() for column in samples.columns])
    np.testing.assert_allclose(np.cov(drawn), [[1, -0.8], [-0.8, 1]], atol=0.03)


def test_independent_columns_keep_the_columns_and_lose_the_relations() -> None:
    train = mixed(4000, 0)
    drawn = correlations(independent_columns(train, 4000, seed=0))
    assert np.abs(drawn - np.diag(np.diag(drawn))).max() < 0.06


def test_strengths_of_relations() -> None:
    x = np.arange(100.0)
    halves = (x >= 50).astype(float)
    assert strength(x, -(x**3), False, False) == pytest.approx(-1)
    assert strength(halves, 1 - halves, True, True) == pytest.approx(1)
    assert strength(halves, np.arange(100.0) % 2, True, True) == pytest.approx(0)
    # The means of the halves are 25 from the middle, and the variance is (100**2 - 1) / 12.
    assert strength(halves, x, True, False) == pytest.approx(25 / (9999 / 12) ** 0.5)
    assert strength(x, halves, False, True) == strength(halves, x, True, False)
    assert strength(x, np.where(x > 10, np.nan, -x), False, False) == pytest.approx(-1)
    assert strength(x, np.ones(100), False, False) == 0


def test_pairs_without_relations_have_the_mean_strength_as_error() -> None:
    x = np.arange(1000.0)
    related = pa.table({"a": x, "b": x, "c": -x})
    random = np.random.default_rng(0)
    shuffled = pa.table({name: random.permutation(x) for name in "abc"})
    assert pair_error(related, related) == 0
    assert pair_error(related, shuffled) == pytest.approx(1, abs=0.06)


def test_the_classifier_separates_lost_relations_and_not_the_same_distribution() -> None:
    held_out = mixed(600, 1)
    assert classifier_auc(held_out, mixed(600, 2), 0) == pytest.approx(0.5, abs=0.06)
    assert classifier_auc(held_out, independent_columns(mixed(600, 0), 600, 0), 0) > 0.8
    unknown = held_out.set_column(2, "sign", pa.array(["zero"] * 600))
    assert classifier_auc(held_out, unknown, 0) > 0.95


def test_copies_are_closer_than_held_out_rows() -> None:
    train, held_out = mixed(500, 0), mixed(500, 1)
    assert distances(train, held_out, copies(train, 500, 0)) == {"distance": 0, "closer": 1}
    same = distances(train, held_out, mixed(500, 2))
    assert same["distance"] == pytest.approx(1, abs=0.25)
    assert same["closer"] == pytest.approx(0.5, abs=0.06)
    assert distances(train, copies(train, 500, 0), held_out)["distance"] is None


def test_constants_and_names_are_left_out() -> None:
    table = mixed(100, 0)
    table = table.append_column("name", pa.array([f"n{i}" for i in range(100)]))
    table = table.append_column("source", pa.array(["here"] * 100))
    train, held_out = split(table)
    assert train.column_names == held_out.column_names == ["x", "y", "sign", "day"]
    assert (len(train), len(held_out)) == (50, 50)
    assert set(train["x"].to_pylist()).isdisjoint(held_out["x"].to_pylist())


def test_days_become_dates_and_rounded_numbers_integers() -> None:
    days = (date(2020, 1, 2) - date(1970, 1, 1)).days
    assert decode(pa.array([days + 0.4]), pa.date32()).to_pylist() == [date(2020, 1, 2)]
    assert decode(pa.array([2.6]), pa.int64()).to_pylist() == [3]
    assert decode(pa.array(["a"]), pa.string()).to_pylist() == ["a"]


def test_the_public_synthesizer_returns_the_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    package = pytest.importorskip("ctgan")
    quick = lambda **options: original(epochs=1, **options)
    original = package.CTGAN
    monkeypatch.setattr(package, "CTGAN", quick)
    train = mixed(600, 0)
    torch.set_default_dtype(torch.float32)
    with warnings.catch_warnings(action="ignore"):  # of its dependencies
        samples = ctgan(train, 30, seed=0)
    assert samples.schema == train.schema
    assert len(samples) == 30
    assert set(samples["sign"].to_pylist()) <= {"plus", "minus"}


def test_results_are_written_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TABLES, "cars", lambda: mixed(200, 0))
    calls: list[int] = []

    def count(train: pa.Table, number: int, seed: int) -> pa.Table:
        calls.append(number)
        return copies(train, number, seed)

    def absent(train: pa.Table, number: int, seed: int) -> pa.Table:
        raise ImportError("it is not installed")

    monkeypatch.setitem(METHODS, "copies", count)
    monkeypatch.setitem(METHODS, "CTGAN", absent)
    for _ in range(2):
        main(["--only", "cars", "--methods", "copies", "CTGAN", "--out", str(tmp_path)])
    assert calls == [100]
    text = (tmp_path / "README.md").read_text()
    assert "| copies | 0.000 | 0.000 |" in text
    assert "| CTGAN |" not in text
    assert measure(mixed(200, 0), copies)["closer"] == 1
