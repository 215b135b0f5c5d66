"""Detectors of tables of mixed types: the default of this package, and baselines."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..outliers.methods import METHODS, Detector
from ..outliers.tables import Array, column_scales

MOST_LEVELS = 20


class MixedDetector(Protocol):
    """A detector of frames. A higher score is more anomalous."""

    def fit(self, X: pa.Table) -> object:
        """Fit the detector."""

    def outlier_scores(self, X: pa.Table) -> Array:
        """Return one score per row."""


class Reason(Protocol):
    """A column that makes a row unusual."""

    @property
    def column(self) -> str:
        """Name of the column."""


@runtime_checkable
class Explainer(Protocol):
    """A detector that gives reasons."""

    def explain(self, X: pa.Table) -> Sequence[Sequence[Reason]]:
        """Return the reasons for each row, the most important first."""


@dataclass(frozen=True)
class NamedColumn:
    """A reason that has the name of the column only."""

    column: str


class OneHot:
    """The usual encoding of a frame as numbers, for detectors that need them.

    Numbers stay, dates become days, and text with at most 20 levels becomes one column for each
    level. Other text is left out. Missing numbers and dates become NaN.
    """

    def fit(self, frame: pa.Table) -> "OneHot":
        """Find the levels of the columns."""
        self.columns: list[tuple[str, str | None]] = []
        for name in frame.column_names:
            levels = frame[name].drop_null().unique()
            if not pa.types.is_string(levels.type):
                self.columns.append((name, None))
            elif len(levels) <= MOST_LEVELS:
                self.columns += [(name, level) for level in sorted(levels.to_pylist())]
        return self

    def transform(self, frame: pa.Table) -> Array:
        """Return the encoded rows, shape `(N, D)`."""
        columns = [encode(frame[name], level) for name, level in self.columns]
        return np.stack(columns, 1)


def encode(column: pa.ChunkedArray, level: str | None) -> Array:
    """Return the numbers of a column: its values, its days, or 1 where it has this level."""
    if level is not None:
        column = pc.fill_null(pc.equal(column, level), False)
    elif pa.types.is_temporal(column.type):
        seconds = column.cast(pa.timestamp("s", getattr(column.type, "tz", None)))
        return encode(seconds.cast(pa.int64()), None) / 86_400
    numbers: Array = column.cast(pa.float64()).to_numpy()
    return numbers


@dataclass
class Encoded:
    """A detector of numbers, applied to a frame with the usual encoding."""

    detector: Detector

    def fit(self, X: pa.Table) -> "Encoded":
        """Fit the encoding and the detector."""
        self.encoding = OneHot().fit(X)
        self.detector.fit(self.encoding.transform(X))
        return self

    def outlier_scores(self, X: pa.Table) -> Array:
        """Return one score per row."""
        return self.detector.outlier_scores(self.encoding.transform(X))


class LargestDeviation:
    """The largest absolute deviation of a cell from the mean of its column, standardized.

    The column with this deviation is the reason. Categories are encoded as usual.
    """

    def fit(self, X: pa.Table) -> "LargestDeviation":
        """Fit the encoding, the means and the scales."""
        self.encoding = OneHot().fit(X)
        x = self.encoding.transform(X)
        self.mean, self.scale = np.nanmean(x, 0), column_scales(x)
        return self

    def deviations(self, X: pa.Table) -> Array:
        """Return the absolute standardized cells, 0 for missing ones."""
        z = np.abs((self.encoding.transform(X) - self.mean) / self.scale)
        deviations: Array = np.nan_to_num(z, nan=0.0)
        return deviations

    def outlier_scores(self, X: pa.Table) -> Array:
        """Return one score per row."""
        scores: Array = self.deviations(X).max(1)
        return scores

    def explain(self, X: pa.Table) -> Sequence[Sequence[Reason]]:
        """Return the column with the largest deviation of each row."""
        first = self.deviations(X).argmax(1)
        return [[NamedColumn(self.encoding.columns[index][0])] for index in first]


def score_matching(seed: int) -> MixedDetector:
    """Return the default detector of this package."""
    from fdsm import ScoreMatchingDensity

    detector: MixedDetector = ScoreMatchingDensity(random_state=seed)
    return detector


DETECTORS: dict[str, Callable[[int], MixedDetector]] = {
    "fdsm": score_matching,
    "z-score": lambda seed: LargestDeviation(),
    "1-NN": lambda seed: Encoded(METHODS["knn1"].build(seed)),
    "iForest": lambda seed: Encoded(METHODS["iforest"].build(seed)),
    "GMM-8": lambda seed: Encoded(METHODS["gmm8"].build(seed)),
}
"""The detectors for a random seed, by the name that the results use."""
