"""The summary of a run on a table has the counts, distances and correlations of its rows."""

import json
import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Generator, Tensor

from paper.data.tables import Categorical, Constant, DateTime, Identifier, Numeric, TableSchema
from fdsm.tables.report.records import table_from_json
from fdsm.tables.summary import (
    binomial_quantile,
    calibration,
    correlation,
    histogram,
    kolmogorov,
    robust_range,
    score_edges,
    summarize_table,
    total_variation,
)

NAN = math.nan
SCHEMA = TableSchema((
    Identifier("id", "int64", "running number"),
    Numeric("x"),
    Numeric("count", "int64", integer=True),
    Numeric("grade", "int64", integer=True, levels=(1.0, 2.0, 4.0)),
    Constant("unit", "string", "kg"),
    Categorical("kind", "string", ("a", "b", "c")),
    DateTime("day", "date32[day]"),
))


def codes(n: int, generator: Generator) -> Tensor:
    x = torch.randn(n, generator=generator)
    count = torch.randint(0, 90, (n,), generator=generator)
    grade = torch.tensor([1.0, 2.0, 4.0])[torch.randint(0, 3, (n,), generator=generator)]
    kind = torch.randint(0, 3, (n,), generator=generator)
    return torch.stack([x, count, grade, kind, 1e9 + 1e7 * x], 1).double()


def summary(
    train: Tensor,
    samples: Tensor | None,
    held_out: Tensor | None = None,
    schema: TableSchema = SCHEMA,
) -> dict[str, Any]:
    scores = torch.linspace(0, 1, len(train))
    return summarize_table(
        schema, train, held_out, samples, scores, scores, scores, sample_auc=0.6
    )


def of_column(record: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = (one for one in record["histograms"] if one["column"] == name)
    return dict(found)


def test_the_report_reads_the_summary(generator: Generator) -> None:
    train, held_out, samples = (codes(n, generator) for n in (200, 50, 80))
    train[:20, 0] = NAN
    record = summary(train, samples, held_out)
    table = table_from_json(json.loads(json.dumps(record, allow_nan=False)))
    assert table.rows == {"train": 200, "held_out": 200, "samples": 80}
    assert [(one.name, one.type, one.used) for one in table.columns] == [
        ("id", "identifier", False), ("x", "numeric", True), ("count", "numeric", True),
        ("grade", "numeric", True), ("unit", "constant", False), ("kind", "categorical", True),
        ("day", "date", True),
    ]  # fmt: skip
    assert [one.missing for one in table.columns][1:4] == [0.1, 0.0, 0.0]
    assert [one.details for one in table.columns][4] == "always kg"
    for one in table.histograms:
        assert one.data.total + one.data.missing == 200
        assert one.samples is not None
        assert one.samples.total == 80
    assert [one.is_date for one in table.histograms] == [False] * 4 + [True]
    assert table.sample_auc == pytest.approx(0.6)


def test_counts_of_levels_and_categories_are_exact() -> None:
    train = torch.tensor([[0.0, 5, 1, 0, 0], [1, 6, 2, 0, 1], [2, 7, 2, 1, 2], [3, 8, 4, NAN, 3]])
    samples = torch.tensor([[0.0, 5, 1.4, 2, 0], [0, 5, 1.6, 2, 0], [0, 5, 99, 1, 0]])
    record = summary(train.double(), samples.double())
    grade, kind = of_column(record, "grade"), of_column(record, "kind")
    assert grade["levels"] == ["1", "2", "4"]
    assert grade["data"]["counts"] == [1, 2, 1]
    assert grade["samples"]["counts"] == [1, 1, 1], "samples are rounded to the levels"
    assert kind["levels"] == ["a", "b", "c"]
    assert kind["data"] == {"counts": [2, 1, 0], "below": 0, "above": 0, "missing": 1}
    assert kind["samples"]["counts"] == [0, 1, 2]
    assert kind["distance"] == pytest.approx(2 / 3)


def test_bins_of_integers_have_equal_numbers_of_integers(generator: Generator) -> None:
    record = summary(codes(500, generator), None)
    edges = np.array(of_column(record, "count")["edges"])
    np.testing.assert_array_equal(edges % 1, 0.5)
    assert set(np.diff(edges)) == {4.0}, "90 values in about 28 bins"
    assert of_column(record, "count")["samples"] is None
    assert of_column(record, "count")["distance"] is None


def test_rare_categories_are_counted_together() -> None:
    schema = TableSchema((Categorical("c", "string", tuple(map(str, range(20)))),))
    train = torch.arange(20).double()[:, None].repeat(2, 1)
    record = summary(train, None, schema=schema)
    column = of_column(record, "c")
    assert column["levels"] == [*map(str, range(11)), "9 others"]
    assert column["data"]["counts"] == [2] * 11 + [18]


def test_an_outlier_does_not_hide_the_other_rows(generator: Generator) -> None:
    train = codes(1000, generator)
    train[0, 0] = 1e12
    x = of_column(summary(train, None), "x")
    assert x["data"]["above"] == 1
    assert sum(count > 0 for count in x["data"]["counts"]) > 20
    assert len(x["data"]["counts"]) == 30


def test_samples_just_outside_the_training_rows_are_in_a_bin() -> None:
    train = torch.linspace(0, 1, 101).double()[:, None]
    samples = torch.tensor([[-0.01], [1.01], [7.0]]).double()
    x = of_column(summary(train, samples, schema=TableSchema((Numeric("x"),))), "x")
    assert (x["samples"]["below"], x["samples"]["above"]) == (0, 1)
    assert x["data"]["counts"][0] == 0


def test_samples_that_are_not_finite_are_missing() -> None:
    train = torch.tensor([[0.0, 5, 1, 0, 0], [1, 6, 2, 0, 1]]).double()
    samples = torch.tensor([[math.inf] * 5, [NAN] * 5, [0, 5, 1, 0, 0]]).double()
    record = summary(train, samples)
    assert [one["samples"]["missing"] for one in record["histograms"]] == [2] * 5
    assert {one["distance"] for one in record["histograms"]} == {0.5, 0.0}


def test_the_columns_that_differ_most_are_shown(generator: Generator) -> None:
    train, samples = (torch.randn(50, 70, generator=generator).double() for _ in range(2))
    samples[:, 65:] += 9
    record = summary(train, samples, schema=TableSchema.of_numbers([f"x{i}" for i in range(70)]))
    shown = [one["column"] for one in record["histograms"]]
    assert len(shown) == 60
    assert record["histograms_left_out"] == 10
    assert shown[-5:] == ["x65", "x66", "x67", "x68", "x69"], "in the order of the table"


def test_a_column_without_values_has_no_histogram() -> None:
    train = torch.tensor([[1.0, NAN], [2.0, NAN]]).double()
    record = summary(train, train, schema=TableSchema.of_numbers(["x", "y"]))
    assert [one["column"] for one in record["histograms"]] == ["x"]
    assert record["columns"][1]["missing"] == 1


def test_distances_are_those_of_the_distributions(generator: Generator) -> None:
    a, b = (torch.randn(n, generator=generator).numpy().astype(float) for n in (80, 50))
    expected = stats.ks_2samp(a, b + 0.5).statistic
    assert kolmogorov(np.append(a, NAN), b + 0.5) == pytest.approx(expected)
    first, second = np.array([0.0, 0, 1, NAN]), np.array([0.0, 2, 2, 2])
    assert total_variation(first, second) == pytest.approx((5 / 12 + 1 / 3 + 3 / 4) / 2)
    for distance in (kolmogorov, total_variation):
        assert distance(first, first) == 0
        assert distance(first, np.array([NAN])) is None


def test_correlations_use_the_rows_where_both_columns_are_present(generator: Generator) -> None:
    z = torch.randn(60, 3, generator=generator).numpy().astype(float)
    x = np.stack([z[:, 0], 1e9 + 1e-3 * (z[:, 0] + z[:, 1]), 1e200 * (z[:, 2] - z[:, 0])], 1)
    x[:10, 0], x[5:20, 1] = NAN, NAN
    found = correlation(np.column_stack([x, np.ones(60)]))
    for i in range(3):
        for j in range(3):
            both = ~np.isnan(x[:, i]) & ~np.isnan(x[:, j])
            a, b = (x[both, k] / np.nanmax(np.abs(x[:, k])) for k in (i, j))
            assert found[i, j] == pytest.approx(np.corrcoef(a, b)[0, 1], abs=1e-6)
    assert np.isnan(found[3]).all(), "a constant has no correlation"


def test_correlations_are_of_numbers_and_of_two_categories() -> None:
    train = torch.tensor([[0.0, 1, 0, 0], [1, 0, 1, 1], [2, 0, 2, 2], [3, 0, 0, 3]]).double()
    train[:, 3] *= 24 * 3600  # days
    schema = TableSchema((
        Numeric("x"),
        Categorical("two", "string", ("a", "b")),
        Categorical("three", "string", ("a", "b", "c")),
        DateTime("day", "date32[day]"),
    ))
    found = summary(train, train.flip(0), schema=schema)["correlations"]
    assert found["columns"] == ["x", "two", "day"]
    np.testing.assert_allclose(found["data"], np.corrcoef(train[:, [0, 1, 3]].T))
    np.testing.assert_allclose(found["samples"], found["data"])
    assert (
        summary(train[:, 2:3], None, schema=TableSchema(schema.columns[2:3]))["correlations"]
        is None
    )


def test_the_strongest_correlations_are_kept(generator: Generator) -> None:
    train = torch.randn(100, 40, generator=generator).double()
    train[:, 39] = -train[:, 2]
    schema = TableSchema.of_numbers([f"x{i}" for i in range(40)])
    found = summary(train, None, schema=schema)["correlations"]
    assert (len(found["columns"]), found["left_out"], found["samples"]) == (30, 10, None)
    assert {"x2", "x39"} <= set(found["columns"])
    i, j = (found["columns"].index(name) for name in ("x2", "x39"))
    assert found["data"][i][j] == pytest.approx(-1)


def test_uniform_p_values_have_equal_counts() -> None:
    """Conformal p-values are multiples of 1 / n. Each bin includes its upper end."""
    n = 140
    record = calibration(np.arange(1, n + 1) / n)
    assert record["counts"] == [7] * 20
    assert record["expected"] == 7
    assert calibration(np.array([0.05, 0.0500001, 1.0, 0.0, NAN]))["counts"] == [
        2,
        1,
        *[0] * 17,
        1,
    ]


@pytest.mark.parametrize("n", [0, 1, 30, 400, 100_000])
def test_the_range_of_counts_is_binomial(n: int) -> None:
    for q in (0.025, 0.975):
        assert binomial_quantile(n, 0.05, q) == stats.binom.ppf(q, n, 0.05)


def test_scores_of_outliers_have_bins_above_those_of_known_rows() -> None:
    scores = np.linspace(2, 6, 500)
    edges = score_edges(np.append(scores, [np.inf, NAN]))
    np.testing.assert_allclose([edges[0], edges[40], edges[-1]], [2, 6, 12])
    counted = histogram(np.array([1.0, 5.0, 11.9, 50.0, np.inf, NAN]), edges)
    assert (counted["below"], counted["above"], counted["missing"]) == (1, 2, 1)
    assert sum(counted["counts"]) == 2  # type: ignore[arg-type]


@pytest.mark.parametrize("values", [[], [3.0], [1e17, 1e17], [0.0] * 500 + [9.0]])
def test_ranges_are_never_empty(values: list[float]) -> None:
    low, high = robust_range(np.array(values))
    assert low < high
    assert all(low <= value <= high for value in values)
