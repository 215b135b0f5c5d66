"""A model is compared with reference densities, and samples with rows of the table."""

import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Generator, Tensor

from fdsm.tables.comparison import (
    classifier_auc,
    compare_densities,
    correlation,
    kolmogorov_distance,
    sample_problems,
    total_variation,
)
from fdsm.tables.schema import Categorical, Numeric, TableSchema

NAN = math.nan
NAMES = TableSchema((Numeric("length"), Numeric("weight")))


def normal_rows(n: int = 1000) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    z = torch.randn(n, 2, generator=Generator().manual_seed(0)).double().numpy()
    return z * [1.0, 10.0] + [5.0, 70.0]


def test_the_loss_of_a_gaussian_is_known_and_the_references_reach_it(
    generator: Generator,
) -> None:
    """The loss of noisy normal rows with variance v = 1 + 0.3² is -D / 2v."""
    variance = 1 + 0.3**2
    train, held_out = (torch.randn(n, 3, generator=generator).double() for n in (4000, 2000))
    comparison = compare_densities(
        lambda x: -x.square().sum(1) / (2 * variance),
        train,
        held_out,
        noise=0.3,
        generator=generator,
    )
    expected, error = -3 / (2 * variance), comparison.loss.error
    assert error is not None
    assert abs(comparison.loss.value - expected) < 5 * error
    assert [reference.name for reference in comparison.references] == [
        "Gaussian",
        "Gaussian mixture",
    ]
    gaussian = comparison.references[0]
    assert gaussian.loss.value == pytest.approx(comparison.loss.value, abs=0.03)
    assert not gaussian.is_better
    assert comparison.loss.settings["rows"] == 500


def wide(x: Tensor) -> Tensor:
    return -x.square().sum(1) / 50


@pytest.mark.parametrize("log_density", [wide, lambda x: wide(x) * math.nan])
def test_a_gaussian_that_is_better_than_the_model_is_noticed(
    log_density: object, generator: Generator
) -> None:
    rows = torch.randn(600, 2, generator=generator).double()
    comparison = compare_densities(
        log_density,  # type: ignore[arg-type]
        rows[:300],
        rows[300:],
        noise=0.1,
        generator=generator,
    )
    assert comparison.references[0].is_better


def test_few_rows_are_compared_with_a_gaussian_only(generator: Generator) -> None:
    rows = torch.randn(20, 4, generator=generator).double()
    comparison = compare_densities(wide, rows[:10], rows[10:], noise=0.1, generator=generator)
    assert [reference.name for reference in comparison.references] == ["Gaussian"]


def test_classifier_separates_what_differs() -> None:
    x = torch.randn(2400, 3, generator=Generator().manual_seed(0)).double()
    assert classifier_auc(x[:1200], x[1200:]) == pytest.approx(0.5, abs=0.06)
    assert classifier_auc(x[:1200] + 10, x[1200:]) == pytest.approx(1.0, abs=0.001)
    # The best possible AUC of two normals at a distance of √3 is Φ(√(3/2)) = 0.89.
    assert classifier_auc(x[:1200] + 1, x[1200:]) == pytest.approx(0.87, abs=0.04)
    assert classifier_auc(x[:19], x[1200:]) is None


def test_classifier_sees_missing_cells() -> None:
    x = torch.randn(600, 2, generator=Generator().manual_seed(0)).double()
    gaps = x.clone()
    gaps[::2, 1] = torch.nan
    auc = classifier_auc(gaps[:300], x[300:])
    assert auc is not None
    assert auc > 0.65


def test_good_samples_have_no_problems() -> None:
    rows = normal_rows()
    assert sample_problems(NAMES, rows[::-1], rows) == []
    assert sample_problems(NAMES, 1.5 * (rows - rows.mean(0)) + rows.mean(0), rows) == []
    assert sample_problems(NAMES, rows + 0.3 * rows.std(0), rows) == []


def test_shifted_samples_name_the_column_and_the_shift() -> None:
    rows = normal_rows()
    shift = np.array([0, 3 * rows[:, 1].std(ddof=1)])
    (problem,) = sample_problems(NAMES, rows + shift, rows)
    assert problem == (
        "weight: the mean of the samples is off by 3 standard deviations of the rows. Do not use "
        "samples where the mean of weight matters."
    )
    problems = sample_problems(NAMES, rows + 1000, rows)
    assert [problem.partition(":")[0] for problem in problems] == ["length", "weight"]


@pytest.mark.parametrize(("factor", "text"), [(5.0, "5 times"), (0.1, "0.1 times")])
def test_samples_with_another_spread_name_the_column_and_the_factor(
    factor: float, text: str
) -> None:
    rows = normal_rows() - [5.0, 70.0]
    (problem,) = sample_problems(NAMES, rows * [factor, 1.0], rows)
    assert problem == (
        f"length: the standard deviation of the samples is {text} that of the rows. Do not use "
        "samples where the spread of length matters."
    )


def test_samples_with_another_correlation_name_the_columns() -> None:
    z = torch.randn(2000, 2, generator=Generator().manual_seed(0)).double().numpy()
    rows = np.stack([z[:, 0], 0.8 * z[:, 0] + 0.6 * z[:, 1]], 1)
    (problem,) = sample_problems(NAMES, np.stack([z[:, 0], z[:, 1]], 1), rows)
    ours, true = (np.corrcoef(x.T)[0, 1] for x in (z, rows))
    assert problem == (
        f"The correlation of length and weight is {ours:.2f} in the samples instead of {true:.2f}."
        " Do not use samples where this relation matters."
    )
    close = np.stack([z[:, 0], 0.7 * z[:, 0] + 0.51**0.5 * z[:, 1]], 1)
    assert sample_problems(NAMES, close, rows) == []


def test_infinite_samples_are_a_problem() -> None:
    samples = normal_rows()
    samples[3, 1] = math.inf
    assert sample_problems(NAMES, samples, normal_rows()) == [
        "Some samples are not finite. Leave them out, or train again with another seed."
    ]


def test_only_cells_with_values_are_compared() -> None:
    """98 % of a column are missing: filled with the mean, its spread would be a seventh."""
    rows = normal_rows()
    rows[:980, 1] = NAN
    samples = rows[::-1].copy()
    samples[:20, 1] += 0.2 * 10
    assert sample_problems(NAMES, samples, rows) == []
    samples[:20, 1] += 3 * 10
    (problem,) = sample_problems(NAMES, samples, rows)
    assert problem.startswith("weight: the mean of the samples is off by 3")


def test_correlations_of_few_cells_are_not_compared() -> None:
    """Twenty cells of opposite sign in samples and rows."""
    x = normal_rows()[:, 0] - 5
    rows, samples = np.stack([x, x], 1), np.stack([x, -x], 1)
    assert "correlation of length and weight" in sample_problems(NAMES, samples, rows)[0]
    samples[20:, 1] = NAN
    assert sample_problems(NAMES, samples, rows) == []


def test_few_samples_are_too_few_for_a_judgment() -> None:
    rows = normal_rows()
    assert sample_problems(NAMES, rows[:0], rows) == []
    assert sample_problems(NAMES, rows.mean(0, keepdims=True), rows) == []
    assert sample_problems(NAMES, rows[:10] * 3 - 2 * rows.mean(0), rows) == []


def test_categories_are_not_compared() -> None:
    """Codes of categories have no mean that could be off."""
    schema = TableSchema((Categorical("kind", "string", ("a", "b", "c")), Numeric("length")))
    length = normal_rows()[:, :1]
    rows = np.concatenate([np.zeros((1000, 1)), length], 1)
    samples = np.concatenate([np.full((1000, 1), 2.0), length], 1)
    assert sample_problems(schema, samples, rows) == []
    samples[:, 1] += 2
    (problem,) = sample_problems(schema, samples, rows)
    assert problem.startswith("length: the mean of the samples is off by 2")


def test_distances_are_those_of_the_distributions(generator: Generator) -> None:
    a, b = (torch.randn(n, generator=generator).numpy().astype(float) for n in (80, 50))
    expected = stats.ks_2samp(a, b + 0.5).statistic
    assert kolmogorov_distance(np.append(a, NAN), b + 0.5) == pytest.approx(expected)
    first, second = np.array([0.0, 0, 1, NAN]), np.array([0.0, 2, 2, 2])
    assert total_variation(first, second) == pytest.approx((5 / 12 + 1 / 3 + 3 / 4) / 2)
    for distance in (kolmogorov_distance, total_variation):
        assert distance(first, first) == 0
        assert distance(first, np.array([NAN])) is None


def test_correlations_use_the_rows_where_both_columns_are_present(generator: Generator) -> None:
    z = torch.randn(60, 3, generator=generator).numpy().astype(float)
    x = np.stack([z[:, 0], 1e9 + 1e-3 * (z[:, 0] + z[:, 1]), 1e200 * (z[:, 2] - z[:, 0])], 1)
    x[:10, 0], x[5:20, 1] = NAN, NAN
    matrix = correlation(np.column_stack([x, np.ones(60)]))
    for i in range(3):
        for j in range(3):
            both = ~np.isnan(x[:, i]) & ~np.isnan(x[:, j])
            a, b = (x[both, k] / np.nanmax(np.abs(x[:, k])) for k in (i, j))
            assert matrix[i, j] == pytest.approx(np.corrcoef(a, b)[0, 1], abs=1e-6)
    assert np.isnan(matrix[3]).all(), "a constant has no correlation"
