"""Each baseline is checked on rows whose scores are known."""

import numpy as np
import pytest

from benchmarks.outliers.methods import METHODS, Mixture, mixture, mixture_by_bic, neighbors
from benchmarks.outliers.tables import Array

INSTALLED = [name for name in METHODS if name not in {"fdsm", "ecod", "copod"}]


@pytest.fixture
def rows() -> Array:
    return np.random.default_rng(0).standard_normal((400, 2)) * [1, 1000] + [5, -300]


@pytest.mark.parametrize("name", INSTALLED)
def test_a_far_row_has_a_higher_score_than_a_central_one(name: str, rows: Array) -> None:
    detector = METHODS[name].build(0)
    detector.fit(rows)
    near, far = detector.outlier_scores(np.array([[5.0, -300.0], [5.0, 9700.0]]))
    assert far > near


@pytest.mark.parametrize("k", [1, 5])
def test_the_score_of_neighbors_is_the_distance_to_the_kth(k: int) -> None:
    train = np.arange(10.0)[:, None]
    detector = neighbors(k)(0)
    detector.fit(train)
    (score,) = detector.outlier_scores(np.array([[-1.0]]))
    assert score * train.std() == pytest.approx(k)


def test_a_missing_cell_counts_as_the_mean_of_its_column(rows: Array) -> None:
    detector = neighbors(1)(0)
    detector.fit(rows)
    missing, mean = detector.outlier_scores(np.array([[5.0, np.nan], [5.0, rows[:, 1].mean()]]))
    assert missing == pytest.approx(mean)


def test_a_new_value_in_a_constant_column_raises_the_score() -> None:
    train = np.column_stack([np.arange(10.0), np.ones(10)])
    detector = neighbors(1)(0)
    detector.fit(train)
    np.testing.assert_allclose(detector.outlier_scores(np.array([[3.0, 1.0], [3.0, 5.0]])), [0, 4])


def test_the_score_of_one_gaussian_is_minus_its_log_density(rows: Array) -> None:
    detector = mixture(0)
    detector.fit(rows[:60])  # one component
    x = np.array([[5.0, -300.0], [7.0, 800.0]])
    mean, covariance = rows[:60].mean(0), np.cov(rows[:60].T, bias=True)
    square = np.einsum("ni,ij,nj->n", x - mean, np.linalg.inv(covariance), x - mean)
    difference = np.diff(detector.outlier_scores(x))
    np.testing.assert_allclose(difference, np.diff(square) / 2, rtol=0.01)


@pytest.mark.parametrize(("rows", "components"), [(40, 1), (120, 2), (399, 7), (1000, 8)])
def test_small_tables_have_fewer_components(rows: int, components: int) -> None:
    detector = mixture(0)
    detector.fit(np.random.default_rng(0).standard_normal((rows, 2)))
    assert isinstance(detector, Mixture)
    assert detector.estimator.n_components == components


def test_bic_chooses_the_number_of_clusters() -> None:
    random = np.random.default_rng(0)
    centers = np.array([[0, 0], [30, 0], [0, 30]])
    detector = mixture_by_bic(0)
    detector.fit(centers[random.integers(3, size=600)] + random.standard_normal((600, 2)))
    assert isinstance(detector, Mixture)
    assert detector.estimator.n_components == 3


def test_samples_of_a_mixture_are_in_the_units_of_the_table(rows: Array) -> None:
    detector = Mixture(*vars(mixture(0)).values())
    detector.fit(rows)
    samples = detector.sample(20_000)
    np.testing.assert_allclose(samples.mean(0), rows.mean(0), atol=30, rtol=0.01)
    np.testing.assert_allclose(samples.std(0), rows.std(0), rtol=0.03)
