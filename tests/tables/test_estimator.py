"""The scikit-learn estimator against closed forms, and with the tools of scikit-learn."""

import json
import os
import pickle
import runpy
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import joblib
import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

import fdsm
from fdsm import ScoreMatchingDensity
from fdsm.cli import main
from fdsm.noise import Geometric

from .estimator_cases import FACTOR, Floats, gaussian, machine_records, small

COVARIANCE = FACTOR @ FACTOR.T
NOISE = 0.1
"""Noise level of the log-density, in standard deviations of the columns."""


@pytest.fixture(autouse=True)
def _float32(_float64: None) -> None:
    torch.set_default_dtype(torch.float32)


@pytest.fixture(scope="module")
def of_gaussian() -> ScoreMatchingDensity:
    return ScoreMatchingDensity(iterations=200, random_state=0).fit(gaussian(1000, 0))


def test_log_density_is_that_of_a_gaussian(of_gaussian: ScoreMatchingDensity) -> None:
    """Noise of 0.1 standard deviations adds to the covariance. A lost Jacobian adds log 1,300."""
    x = gaussian(2000, 1)
    noisy = COVARIANCE + NOISE**2 * np.diag(np.diag(COVARIANCE))
    quadratic = np.einsum("ni,ij,nj->n", x, np.linalg.inv(noisy), x)
    exact = -quadratic / 2 - np.linalg.slogdet(2 * np.pi * noisy)[1] / 2
    found = of_gaussian.score_samples(x)
    assert of_gaussian.model_.log_partition is not None
    assert (found - exact).mean() == pytest.approx(0, abs=0.1)
    assert (found - exact).std() < 0.35 * exact.std()


def test_score_is_the_smallest_denoising_loss_of_a_gaussian(
    of_gaussian: ScoreMatchingDensity,
) -> None:
    r"""With $ε$ of dimension d, the mean of $‖σ s(x + σε) + ε‖²$ is $Σ_i λ_i / (λ_i + σ²)$.

    Here $λ_i$ are the eigenvalues of the correlation matrix. The loss is divided by d and averaged
    over $\log σ$.
    """
    deviations = np.sqrt(np.diag(COVARIANCE))
    eigenvalues = np.linalg.eigvalsh(COVARIANCE / np.outer(deviations, deviations))
    sigma = np.array(Geometric(2.0, 0.05, 1000).levels)[:, None]
    smallest = (eigenvalues / (eigenvalues + sigma**2)).mean()
    found = of_gaussian.score(gaussian(4000, 1))
    assert -1.03 * smallest < found < -0.98 * smallest


def test_score_does_not_depend_on_the_order_of_the_rows(
    of_gaussian: ScoreMatchingDensity,
) -> None:
    """The noise level grows along a batch, so it must not go with the distance to the mean."""
    x = gaussian(500, 1)
    by_distance = x[np.square(x @ np.linalg.inv(FACTOR).T).sum(1).argsort()]
    values = [of_gaussian.score(rows) for rows in (by_distance, by_distance[::-1])]
    assert values[0] == pytest.approx(values[1], rel=0.05)


@pytest.mark.parametrize("alpha", [0.05, 0.3])
def test_predict_flags_a_share_alpha_of_normal_rows(alpha: float, quick_training: None) -> None:
    """Training rows are close to a row, themselves, so they are called outliers less often."""
    train, fresh = gaussian(1000, 0), gaussian(2000, 1)
    model = small(alpha=alpha).fit(train)
    tolerance = 0.1 * alpha + 0.02
    assert (model.predict(fresh) == -1).mean() == pytest.approx(alpha, abs=tolerance)
    assert (model.predict(train) == -1).mean() < alpha + tolerance


def test_outliers_have_negative_decisions_high_scores_and_low_p_values(
    of_gaussian: ScoreMatchingDensity,
) -> None:
    x = np.concatenate([gaussian(500, 1), 2 * gaussian(500, 2)])
    decisions, labels = of_gaussian.decision_function(x), of_gaussian.predict(x)
    assert set(labels) == {-1, 1}
    assert ((decisions < 0) == (labels == -1)).all()
    scores, p = of_gaussian.outlier_scores(x), of_gaussian.p_values(x)
    np.testing.assert_allclose(decisions, of_gaussian.offset_ - scores)
    far = np.array([[60.0, -0.5, 3.0]])  # 6 standard deviations, against the correlation
    assert of_gaussian.predict(far) == [-1]
    assert of_gaussian.p_values(far) == [1 / 1001]
    assert scores[p < 0.01].min() > scores[p > 0.2].max()


def test_samples_have_the_covariance_of_the_data(of_gaussian: ScoreMatchingDensity) -> None:
    samples = of_gaussian.sample(1500, random_state=0)
    deviations = np.sqrt(np.diag(COVARIANCE))
    difference = (np.cov(samples.T) - COVARIANCE) / np.outer(deviations, deviations)
    assert np.abs(difference).max() < 0.15
    assert (of_gaussian.sample(5, random_state=3) == of_gaussian.sample(5, random_state=3)).all()
    assert (of_gaussian.sample(5, random_state=3) != of_gaussian.sample(5, random_state=4)).all()


def test_the_command_line_gives_the_same_scores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    train, new = gaussian(200, 0), gaussian(50, 1)
    for name, rows in (("train", train), ("new", new)):
        lines = [",".join(map(repr, row)) for row in rows.tolist()]
        Path(f"{name}.csv").write_text("\n".join(["a,b,c", *lines]) + "\n")
    seed = np.random.RandomState(0).randint(2**31)
    main(["train", "train.csv", "--iterations", "20", "--seed", str(seed)])
    main(["score", "runs/train", "new.csv"])
    capsys.readouterr()
    header, *lines = Path("new.scores.csv").read_text().splitlines()
    names = header.replace('"', "").split(",")
    cells = [line.split(",") for line in lines]
    by_name = lambda name: np.array([float(line[names.index(name)]) for line in cells])
    model = small(random_state=0).fit(train)
    np.testing.assert_allclose(model.outlier_scores(new), by_name("score"), rtol=1e-4)
    np.testing.assert_allclose(model.score_samples(new), by_name("log_density"), rtol=1e-4)
    np.testing.assert_allclose(model.p_values(new), by_name("p_value"), rtol=1e-5)


# scikit-learn


CHECKS = {
    "check_estimator_cloneable",
    "check_get_params_invariance",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_set_params",
    "check_fit2d_1feature",
    "check_n_features_in",
}
"""Checks of scikit-learn that train few models."""


def test_some_checks_of_scikit_learn_pass(quick_training: None) -> None:
    """The nightly test runs all of them."""
    checks = estimator_checks_generator(ScoreMatchingDensity(iterations=3))
    chosen = [(model, check) for model, check in checks if check.func.__name__ in CHECKS]
    assert {check.func.__name__ for _, check in chosen} == CHECKS
    for model, check in chosen:
        check(model)


@pytest.mark.nightly
@pytest.mark.timeout(900)  # it trains about fifty models
def test_all_checks_of_scikit_learn_pass_and_none_is_skipped() -> None:
    """One check is skipped unless scipy is imported with support of other arrays."""
    code = """
import json
from sklearn.utils.estimator_checks import check_estimator
import fdsm
from fdsm import ScoreMatchingDensity
results = check_estimator(ScoreMatchingDensity(iterations=3), on_fail=None, on_skip=None)
print(json.dumps([(r["check_name"], r["status"], str(r["exception"])) for r in results]))
"""
    environment = os.environ | {"SCIPY_ARRAY_API": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    results = json.loads(done.stdout)
    assert len(results) >= 40
    assert [result for result in results if result[1] != "passed"] == []


def test_grid_search_prefers_a_trained_model(quick_training: None) -> None:
    grid = {"iterations": [1, 40]}
    search = GridSearchCV(small(), grid, cv=2).fit(gaussian(200, 0))
    assert search.best_params_ == {"iterations": 40}
    untrained, trained = search.cv_results_["mean_test_score"]
    assert untrained < trained - 0.05 < 0


def test_a_pipeline_changes_the_log_density_by_the_jacobian(quick_training: None) -> None:
    """Scaled data have the same model inputs, so only the volume changes."""
    train, new = gaussian(300, 0), gaussian(50, 1)
    pipeline = make_pipeline(StandardScaler(), small()).fit(train)
    alone = small().fit(train)
    volume = np.log(pipeline[0].scale_).sum()
    np.testing.assert_allclose(
        pipeline.score_samples(new), alone.score_samples(new) + volume, atol=1e-3
    )
    np.testing.assert_allclose(
        pipeline.decision_function(new), alone.decision_function(new), atol=1e-3
    )
    assert (pipeline.predict(new) == alone.predict(new)).all()


@pytest.mark.nightly
def test_the_example_finds_malignant_tumors(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib").use("agg")
    path = Path(fdsm.__file__).parents[1] / "examples" / "table_outliers.py"
    runpy.run_path(str(path), run_name="__main__")
    lines = [line.rsplit(": ", 1) for line in capsys.readouterr().out.splitlines()]
    printed = dict(lines)
    assert float(printed["AUC-ROC of malignant against benign"]) > 0.93
    assert float(printed["AUC-ROC of the pipeline"]) > 0.93
    assert printed["best number of iterations"] == "200"
    assert float(printed["benign tumors with a p-value below 0.05"].rstrip("%")) < 10
    assert float(printed["benign"].split("%")[0]) < 10
    assert float(printed["malignant"].split("%")[0]) > 60
    assert "expected about" in "".join(printed.values())


def test_a_pickled_model_gives_the_same_scores(of_gaussian: ScoreMatchingDensity) -> None:
    x = gaussian(50, 1)
    copy = pickle.loads(pickle.dumps(of_gaussian))
    for method in ("score_samples", "decision_function", "p_values", "predict"):
        np.testing.assert_array_equal(getattr(copy, method)(x), getattr(of_gaussian, method)(x))
    assert copy.explain(x[:3]) == of_gaussian.explain(x[:3])
    assert (copy.sample(3, random_state=0) == of_gaussian.sample(3, random_state=0)).all()


def test_a_clone_has_the_parameters_and_no_model(of_gaussian: ScoreMatchingDensity) -> None:
    copy = clone(of_gaussian)
    assert copy.get_params() == of_gaussian.get_params()
    for method in ("score_samples", "predict", "score", "explain"):
        with pytest.raises(NotFittedError):
            getattr(copy, method)(gaussian(3, 0))
    with pytest.raises(NotFittedError):
        copy.sample()


# Random states


def fit_and_score(seed: int) -> Floats:
    torch.set_num_threads(1)
    model = small(random_state=seed).fit(gaussian(100, 0))
    return np.concatenate([model.decision_function(gaussian(20, 1)), model.sample(2, 0)[0]])


@pytest.mark.nightly
@pytest.mark.parametrize("backend", ["threading", pytest.param("loky", marks=pytest.mark.nightly)])
def test_a_seed_gives_the_same_numbers_also_in_other_threads_and_processes(backend: str) -> None:
    jobs = joblib.Parallel(n_jobs=2, backend=backend)(
        joblib.delayed(fit_and_score)(seed) for seed in (7, 8)
    )
    np.testing.assert_array_equal(jobs[0], fit_and_score(7))
    assert (jobs[1] != jobs[0]).any()


def test_random_states_and_the_generator_of_numpy_are_used(quick_training: None) -> None:
    x = gaussian(100, 0)
    score = lambda state: small(iterations=2, random_state=state).fit(x).score(x)
    state = np.random.RandomState(3)
    first, second = score(state), score(state)
    assert first != second
    assert score(3) == first
    np.random.seed(3)
    assert score(None) == first


def test_torch_is_left_as_it_was(two_threads: None, quick_training: None) -> None:
    torch.manual_seed(5)
    state = torch.get_rng_state()
    model = small(iterations=2).fit(gaussian(50, 0))
    model.score(gaussian(5, 0))
    model.sample(2)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_num_threads() == 2
    assert torch.get_default_dtype() == torch.float32


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.nightly
def test_ctrl_c_stops_the_training() -> None:
    """It is pressed until it is noticed: Python loses an interruption in a weakref callback.

    A shell starts background jobs with a SIGINT that is ignored, so the handler is set here.
    """
    model, noticed = small(iterations=10**7), threading.Event()
    small(iterations=2).fit(gaussian(50, 0))  # an interrupted import cannot be repeated
    state = torch.get_rng_state()

    def press() -> None:
        while not noticed.wait(1.0):
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=press)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            model.fit(gaussian(50, 0))
    finally:
        noticed.set()
        thread.join()
        signal.signal(signal.SIGINT, before)
    assert torch.equal(torch.get_rng_state(), state)
    with pytest.raises(NotFittedError):
        model.predict(gaussian(5, 0))
    assert model.set_params(iterations=2).fit(gaussian(50, 0)).n_iter_ == 2


# Errors


def test_all_wrong_parameters_are_listed() -> None:
    model = small(alpha=1.5, iterations=0, categorical="kind")
    with pytest.raises(ValueError, match=r"alpha must be between 0 and 1, but is 1\.5") as error:
        model.fit(gaussian(50, 0))
    assert "iterations must be at least 1, but is 0" in str(error.value)
    assert "categorical must be a list of names, but is the text 'kind'" in str(error.value)
    with pytest.raises(ValueError, match=r"no column 'lod'\. Did you mean 'load'"):
        small(numeric=["lod"]).fit(machine_records())


def test_the_number_of_samples_must_be_positive(of_gaussian: ScoreMatchingDensity) -> None:
    with pytest.raises(ValueError, match="n_samples must be at least 1, but is 0"):
        of_gaussian.sample(0)


def test_outliers_among_the_training_rows_are_found(quick_training: None) -> None:
    """A row is not its own neighbor, because the rows are different."""
    X = np.random.default_rng(0).normal(size=(200, 3))
    X[:5] = 6 * np.array([[1, 1, 1], [-1, 1, 1], [1, -1, 1], [1, 1, -1], [-1, -1, -1]])
    model = ScoreMatchingDensity(iterations=20, random_state=0)
    found = model.fit_predict(X)
    assert (found[:5] == -1).all()
    assert (found == -1).mean() < 0.1
    assert (model.predict(X) == found).all()


@pytest.mark.parametrize(("columns", "times"), [(3, 3), (1, 2)])
def test_copies_are_left_out_and_do_not_change_p_values(
    columns: int, times: int, quick_training: None
) -> None:
    """With copies, all new rows have p-values below 0.05 (three times), or 36 % (one column)."""
    random = np.random.default_rng(0)
    x = random.normal(size=(150, columns))
    model = ScoreMatchingDensity(iterations=40, random_state=0)
    copies = 150 * (times - 1)
    with pytest.warns(UserWarning, match=f"{copies} rows are copies of other rows and were left"):
        model.fit(np.tile(x, (times, 1)))
    p = model.p_values(random.normal(size=(2000, columns)))
    assert 0.01 < (p <= 0.05).mean() < 0.1
    assert p.min() == pytest.approx(1 / 151)
