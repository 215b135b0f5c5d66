"""Estimates of log Z from both ends are honest where those from one end are silently wrong."""

import json

import pytest
import torch
from scipy.stats import multivariate_t

from benchmarks.log_partition import (
    DIMENSIONS,
    RESULTS,
    Row,
    rows,
    student,
    targets,
    totals,
)

MISSED = {
    "two modes, 8 apart, prior at one",
    "two modes, prior at that of 10 %",
    "two modes, 20 apart, prior at one",
    "spike of width 0.01",
}


def committed() -> list[Row]:
    return [Row(**row) for row in json.loads(RESULTS.read_text(encoding="utf8"))]


@pytest.mark.parametrize("name", ["two modes, 20 apart, prior at one", "spike of width 0.01"])
def test_missed_regions_are_silent_at_one_end_and_noticed_from_both(name: str) -> None:
    for row in rows(name, targets(5)[name], 5, 5):
        both = row.method.endswith("both ends")
        assert row.silent == (0 if both else 5)
        assert row.noticed == (5 if both else 0)


@pytest.mark.parametrize("freedom", [1.0, 2.0, 3.0])
def test_density_of_the_t_distribution_is_that_of_scipy(freedom: float) -> None:
    x = student(5, freedom).sample(100)
    expected = multivariate_t(shape=torch.eye(5).numpy(), df=freedom).logpdf(x.numpy())
    torch.testing.assert_close(student(5, freedom).log_density(x), torch.from_numpy(expected))


def test_committed_results_have_no_silent_case() -> None:
    """By chance 0.3 % of single estimates are more than three errors off."""
    results = committed()
    assert {row.dimension for row in results} == set(DIMENSIONS)
    assert {row.target for row in results} == set(targets(2))
    both = [row for row in results if row.method.endswith("both ends")]
    assert not [row for row in both if abs(row.bias) > 3 * row.error and not row.noticed]
    assert sum(row.silent for row in both) <= 0.003 * sum(row.repetitions for row in both)
    alone = [row for row in results if row not in both and row.target in MISSED]
    assert sum(row.silent for row in alone) > 0.5 * sum(row.repetitions for row in alone)


def test_committed_results_have_few_false_alarms() -> None:
    easy = [row for row in committed() if row.easy]
    assert sum(row.noticed for row in easy) <= 0.05 * sum(row.repetitions for row in easy)
    assert len(totals(committed())) == 4


@pytest.mark.nightly
@pytest.mark.parametrize("name", targets(2))
@pytest.mark.parametrize("dimension", [2, 10])
def test_no_target_is_silently_wrong(name: str, dimension: int) -> None:
    torch.manual_seed(7)
    for row in rows(name, targets(dimension)[name], dimension, 10):
        assert row.silent <= 1 or not row.method.endswith("both ends")
