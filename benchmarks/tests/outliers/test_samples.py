import numpy as np
import pytest

from benchmarks.outliers.samples import choose_rows, classifier_auc, round_like


def test_samples_of_the_same_distribution_cannot_be_told_apart() -> None:
    rows, samples = np.random.default_rng(0).standard_normal((2, 400, 3))
    assert classifier_auc(rows, samples, seed=0) == pytest.approx(0.5, abs=0.06)


def test_the_auc_of_shifted_samples_is_that_of_the_best_classifier() -> None:
    """Of normal variables one standard deviation apart, the AUC is Φ(1/√2) = 0.760."""
    rows, samples = np.random.default_rng(0).standard_normal((2, 1000, 1))
    auc = classifier_auc(1e6 * rows, 1e6 * (samples + 1), seed=0)
    assert 0.65 < auc < 0.78


def test_the_dependence_of_columns_is_seen() -> None:
    x, noise = np.random.default_rng(0).standard_normal((2, 400))
    rows, samples = np.column_stack([x, x]), np.column_stack([x, noise])
    assert classifier_auc(rows, samples, seed=0) > 0.9


def test_samples_are_rounded_to_repeated_values_and_to_integers() -> None:
    repeated = np.repeat([0.0, 0.5, 2.0], 10)
    integers = np.arange(0.0, 300.0, 10)
    real = np.linspace(0, 1, 30)
    samples = np.array([[0.2, 14.6, 0.123], [1.3, -7.4, 5.5], [9.0, 8.0, -1.0]])
    rounded = round_like(np.column_stack([repeated, integers, real]), samples)
    np.testing.assert_array_equal(rounded, [[0, 15, 0.123], [2, -7, 5.5], [2, 8, -1]])
    assert samples[0, 0] == pytest.approx(0.2)


def test_at_most_a_thousand_different_rows_are_chosen() -> None:
    rows = np.arange(1500.0)[:, None]
    chosen = choose_rows(rows, seed=0)
    assert len(np.unique(chosen)) == len(chosen) == 1000
    np.testing.assert_array_equal(choose_rows(rows[:1000], seed=0), rows[:1000])
