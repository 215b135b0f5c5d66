"""The detectors that are compared.

The baselines see standardized columns. A missing cell is replaced by the mean of its column. A
column that is constant in training is centered and not scaled. All parameters are fixed, and the
same for all tables.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Protocol, runtime_checkable

import numpy as np
import sklearn
from sklearn.ensemble import IsolationForest
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import LocalOutlierFactor, NearestNeighbors
from sklearn.svm import OneClassSVM

import fdsm

from .tables import Array, column_scales


class Detector(Protocol):
    """A detector of outliers. A higher score is more anomalous."""

    def fit(self, X: Array) -> object:
        """Fit the detector to normal rows, shape `(N, D)`. NaN marks a missing cell."""

    def outlier_scores(self, X: Array) -> Array:
        """Return one score per row, shape `(N,)`."""


@runtime_checkable
class Sampler(Protocol):
    """A detector that can also be sampled."""

    def sample(self, n_samples: int) -> Array:
        """Return samples, shape `(n_samples, D)`."""


@dataclass
class Baseline:
    """A detector of standardized columns without missing cells.

    Attributes:
        fit_estimator: Returns an estimator fitted to the rows with a random seed.
        score: Returns the outlier scores of rows, given the estimator.
        seed: Random seed.
    """

    fit_estimator: Callable[[Array, int], Any]
    score: Callable[[Any, Array], Array]
    seed: int

    def fit(self, X: Array) -> "Baseline":
        """Fit the means, the scales and the estimator."""
        self.mean, self.scale = np.nanmean(X, 0), column_scales(X)
        self.estimator = self.fit_estimator(self.standardize(X), self.seed)
        return self

    def standardize(self, X: Array) -> Array:
        """Return the standardized rows, in which the mean replaces missing cells."""
        standardized: Array = np.nan_to_num((X - self.mean) / self.scale, nan=0.0)
        return standardized

    def outlier_scores(self, X: Array) -> Array:
        """Return one score per row. Higher is more anomalous."""
        return self.score(self.estimator, self.standardize(X))


class Mixture(Baseline):
    """A Gaussian mixture of standardized columns, which can be sampled."""

    def sample(self, n_samples: int) -> Array:
        """Return samples in the units of the table."""
        samples: Array = self.estimator.sample(n_samples)[0] * self.scale + self.mean
        return samples


Score = Callable[[Any, Array], Array]
MINUS_SCORE: Score = lambda estimator, x: -estimator.score_samples(x)
"""In scikit-learn, a higher score is more normal."""
DECISION: Score = lambda estimator, x: estimator.decision_function(x)
"""In PyOD, a higher score is more anomalous."""


@dataclass(frozen=True)
class Method:
    """A detector of the benchmark.

    Attributes:
        title: What the tables of results call it.
        build: Returns an unfitted detector for a random seed. Raises `ImportError` if its package
            is not installed.
        seeded: Whether the result depends on the seed.
        version: Returns the package of the method and its version, for the record.
    """

    title: str
    build: Callable[[int], Detector]
    seeded: bool
    version: Callable[[], str] = lambda: f"scikit-learn {sklearn.__version__}"


def score_matching(seed: int) -> Detector:
    """Return the default detector of this package."""
    from fdsm import ScoreMatchingDensity

    detector: Detector = ScoreMatchingDensity(random_state=seed)
    return detector


def neighbors(k: int) -> Callable[[int], Detector]:
    """Return a method whose score is the distance to the k-th nearest training row."""

    def build(seed: int) -> Detector:
        return Baseline(
            lambda x, _: NearestNeighbors(n_neighbors=min(k, len(x))).fit(x),
            lambda estimator, x: estimator.kneighbors(x)[0][:, -1],
            seed,
        )

    return build


def isolation_forest(seed: int) -> Detector:
    """Return an isolation forest with the defaults of scikit-learn: 100 trees of 256 rows."""
    return Baseline(lambda x, s: IsolationForest(random_state=s).fit(x), MINUS_SCORE, seed)


def local_outlier_factor(seed: int) -> Detector:
    """Return the local outlier factor of 20 neighbors, the default of scikit-learn."""
    return Baseline(
        lambda x, _: LocalOutlierFactor(n_neighbors=min(20, len(x) - 1), novelty=True).fit(x),
        MINUS_SCORE,
        seed,
    )


def one_class_svm(seed: int) -> Detector:
    """Return a one-class SVM with an RBF kernel and the defaults of scikit-learn."""
    return Baseline(lambda x, _: OneClassSVM().fit(x), MINUS_SCORE, seed)


def mixture(seed: int) -> Detector:
    """Return a mixture of 8 Gaussians, or of one for each 50 rows if there are fewer than 400."""
    return Mixture(
        lambda x, s: _fit_mixture(x, min(8, max(1, len(x) // 50)), s), MINUS_SCORE, seed
    )


COMPONENTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
"""The numbers of components among which BIC chooses."""


def mixture_by_bic(seed: int) -> Detector:
    """Return a mixture with the number of components that minimizes BIC."""

    def fit(x: Array, s: int) -> GaussianMixture:
        fits = [_fit_mixture(x, k, s) for k in COMPONENTS if k <= max(1, len(x) // 10)]
        return min(fits, key=lambda estimator: estimator.bic(x))

    return Mixture(fit, MINUS_SCORE, seed)


def ecod(seed: int) -> Detector:
    """Return ECOD, which uses the empirical distribution of each column (Li et al., 2022)."""
    from pyod.models.ecod import ECOD

    return Baseline(lambda x, _: ECOD().fit(x), DECISION, seed)


def copod(seed: int) -> Detector:
    """Return COPOD, which uses the empirical copula (Li et al., 2020)."""
    from pyod.models.copod import COPOD

    return Baseline(lambda x, _: COPOD().fit(x), DECISION, seed)


def _fit_mixture(x: Array, components: int, seed: int) -> GaussianMixture:
    return GaussianMixture(components, reg_covar=1e-3, random_state=seed).fit(x)


PYOD = lambda: f"pyod {version('pyod')}"

METHODS = {
    "fdsm": Method(
        "fdsm", score_matching, seeded=True, version=lambda: f"fdsm {fdsm.__version__}"
    ),
    "knn1": Method("1-NN", neighbors(1), seeded=False),
    "knn5": Method("5-NN", neighbors(5), seeded=False),
    "iforest": Method("iForest", isolation_forest, seeded=True),
    "gmm8": Method("GMM-8", mixture, seeded=True),
    "gmm_bic": Method("GMM-BIC", mixture_by_bic, seeded=True),
    "lof": Method("LOF", local_outlier_factor, seeded=False),
    "ocsvm": Method("OC-SVM", one_class_svm, seeded=False),
    "ecod": Method("ECOD", ecod, seeded=False, version=PYOD),
    "copod": Method("COPOD", copod, seeded=False, version=PYOD),
}
"""The methods, by the name that the command line and the result files use."""
