import json
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.outliers.methods import METHODS, Method
from benchmarks.outliers.run import Job, evaluate, read_results, timed
from benchmarks.outliers.tables import Array, Table


class Known:
    """A detector whose score is the first column, and whose p-values are known."""

    def fit(self, X: Array) -> None:
        assert len(X) == 60

    def outlier_scores(self, X: Array) -> Array:
        return X[:, 0]

    def p_values(self, X: Array) -> Array:
        """Return a value below 0.05 for three rows, and 0.05 for the others."""
        return np.where(np.arange(len(X)) < 3, 0.01, 0.05)

    def sample(self, n_samples: int) -> Array:
        return np.zeros((n_samples, 3))


class Failing(Known):
    def outlier_scores(self, X: Array) -> Array:
        return np.full(len(X), np.nan)


class Warning_(Known):
    def fit(self, X: Array) -> None:
        warnings.warn("did not converge", stacklevel=1)


@pytest.fixture(autouse=True)
def _methods(monkeypatch: pytest.MonkeyPatch) -> None:
    for detector in (Known, Failing, Warning_):
        method = Method(detector.__name__, lambda _, d=detector: d(), seeded=False)
        monkeypatch.setitem(METHODS, detector.__name__, method)


def test_the_measures_of_a_known_ranking(table: Table) -> None:
    """Five of six anomalies are above all normal rows, and one is between them."""
    test = table.test.copy()
    test[:, 0] = [*range(30), 14.5, *range(100, 105)]
    result = evaluate(Known(), replace(table, test=test))
    assert result["auc_roc"] == pytest.approx((5 * 30 + 15) / (6 * 30))
    assert result["auc_pr"] == pytest.approx((5 + 6 / 21) / 6)
    assert result["p_below_level"] == pytest.approx(3 / 30)


def test_a_result_is_written_and_recognized(table: Table, tmp_path: Path) -> None:
    job = Job(table, "Known", 0)
    assert not job.is_done(tmp_path)
    result = job.run(tmp_path)
    assert json.loads((tmp_path / "made_up.json").read_text()) == {"Known-0": result}
    assert result["auc_roc"] == 1
    assert (result["method"], result["seed"], result["missing"]) == ("Known", 0, 0.0)
    assert job.is_done(tmp_path)
    assert not Job(table, "Known", 1).is_done(tmp_path)
    assert not Job(replace(table, train=table.train + 1), "Known", 0).is_done(tmp_path)


def test_a_result_without_the_test_of_samples_is_not_done(table: Table, tmp_path: Path) -> None:
    Job(table, "Known", 0).run(tmp_path)
    job = Job(table, "Known", 0, samples=True)
    assert not job.is_done(tmp_path)
    assert job.run(tmp_path)["sample_auc"] > 0.95  # all samples are the same row
    assert job.is_done(tmp_path)
    assert Job(table, "knn1", 0, samples=True).run(tmp_path).keys().isdisjoint({"sample_auc"})
    assert Job(table, "knn1", 0, samples=True).is_done(tmp_path)


def test_scores_that_are_not_finite_are_a_failure_that_is_tried_again(
    table: Table, tmp_path: Path
) -> None:
    job = Job(table, "Failing", 0)
    result = job.run(tmp_path)
    assert "auc_roc" not in result
    assert "NaN" in result["error"]
    assert not job.is_done(tmp_path)


def test_warnings_are_recorded(table: Table, tmp_path: Path) -> None:
    assert Job(table, "Warning_", 0).run(tmp_path)["warnings"] == ["did not converge"]


def test_baselines_work_with_missing_cells(table: Table, tmp_path: Path) -> None:
    result = Job(table, "knn1", 0, missing=0.2).run(tmp_path)
    assert result["missing"] == pytest.approx(0.2)
    assert result["digest"] == table.digest
    assert result["auc_roc"] == 1


def test_a_table_without_results_has_none(tmp_path: Path) -> None:
    assert read_results(tmp_path, "nothing") == {}


def test_the_value_and_the_time_of_a_function() -> None:
    value, seconds = timed(lambda: sum(range(300_000)))
    assert value == 44_999_850_000
    assert 0 < seconds < 5
