r"""The three UCI tables of the paper's kernel experiments (Table 1), prepared as published.

1. Parkinsons: without subject, age and sex; then, as long as a column correlates above 0.98
   with another, the first such is deleted, which leaves 15 of 19. Wines: without the quality,
   11 columns, each dequantised by $U(-1, 1)$ times the median gap between its values.
2. Rows are shuffled by numpy with seed 2019. The last `min(1000, N // 10)` are the test, the
   `min(1000, (N - test) // 10)` before them the validation.
3. The whitening is fitted to *all* rows, then $N(0, 0.05²)$ is added once to the whitened rows.

Stored rows are in the units of the table and contain that noise, so that the fitted transform
takes them to the published ones, and back.

References:
    Tsanas et al. (2009), https://doi.org/10.24432/C5ZS3N (Parkinsons).
    Cortez et al. (2009), https://doi.org/10.24432/C56S3T (wines).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from ..dataset import Dataset, Source, build_dataset
from ..download import Published
from ..errors import DataError
from ..files.csv import Numbers, read_csv
from ..transforms import Transform, Whiten

CORRELATED = 0.98


@dataclass(frozen=True)
class Parkinsons:
    """Voice measurements of people with Parkinson's disease: 5,875 rows of 15 columns.

    Attributes:
        noise: The standard deviation of the noise added once to the whitened rows.
        seed: Decides the shuffle, then the noise.
        transform: From the table's units to what the model sees; fitted to all rows.
    """

    noise: float = 0.05
    seed: int = 2019
    transform: Transform = Whiten()

    def load(self) -> Dataset:
        """Read the data set; raises `DataError` if that is impossible."""
        return _load(self, _PARKINSONS, voice_columns, noise=self.noise, seed=self.seed)


@dataclass(frozen=True)
class RedWine:
    """Physicochemical measurements of red wines: 1,599 rows of 11 columns.

    Attributes:
        noise: The standard deviation of the noise added once to the whitened rows.
        seed: Decides the shuffle, then the dequantisation, then the noise.
        transform: From the table's units to what the model sees; fitted to all rows.
    """

    noise: float = 0.05
    seed: int = 2019
    transform: Transform = Whiten()

    def load(self) -> Dataset:
        """Read the data set; raises `DataError` if that is impossible."""
        return _load(self, _RED, dequantised_wine, noise=self.noise, seed=self.seed)


@dataclass(frozen=True)
class WhiteWine:
    """Physicochemical measurements of white wines: 4,898 rows of 11 columns.

    Attributes:
        noise: The standard deviation of the noise added once to the whitened rows.
        seed: Decides the shuffle, then the dequantisation, then the noise.
        transform: From the table's units to what the model sees; fitted to all rows.
    """

    noise: float = 0.05
    seed: int = 2019
    transform: Transform = Whiten()

    def load(self) -> Dataset:
        """Read the data set; raises `DataError` if that is impossible."""
        return _load(self, _WHITE, dequantised_wine, noise=self.noise, seed=self.seed)


Preparation = Callable[[Numbers, np.random.RandomState], Numbers]


def voice_columns(table: Numbers, random: np.random.RandomState) -> Numbers:
    """Return the Parkinsons table without the columns that say what others say.

    Args:
        table: All 22 columns.
        random: Not used: these numbers are continuous.

    Returns:
        The 15 columns that stay.
    """
    names, x = list(table.columns[3:]), table.values[:, 3:]
    correlations = np.abs(_correlations(x))
    while (crowded := (correlations > CORRELATED).sum(1) > 1).any():
        first = int(crowded.argmax())
        x = np.delete(x, first, 1)
        del names[first]
        # Absolute at first and signed from here on, as published.
        correlations = _correlations(x)
    return Numbers(tuple(names), x)


def _correlations(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.asarray(np.corrcoef(x.T))


def dequantised_wine(table: Numbers, random: np.random.RandomState) -> Numbers:
    """Return a wine table without the quality, with every column made continuous.

    Args:
        table: All 12 columns.
        random: Source of the dequantisation.

    Returns:
        11 columns, each with $U(-1, 1)$ times the median gap between its sorted values added.
    """
    x = table.values[:, :-1]
    gaps = np.array([np.median(np.diff(np.unique(column))) for column in x.T])
    return Numbers(table.columns[:-1], x + random.uniform(-1, 1, x.shape) * gaps)


def _load(
    source: Source, file: Published, prepare: Preparation, *, noise: float, seed: int
) -> Dataset:
    table, provenance = file.read(read_csv)
    if len(table.columns) != _COLUMNS[file.names[0]]:
        raise DataError(
            f"{file.find()} has {len(table.columns)} columns instead of "
            f"{_COLUMNS[file.names[0]]}: put the official file there, {file.source}"
        )
    random = np.random.RandomState(seed)
    order = random.permutation(len(table.values))
    table = prepare(Numbers(table.columns, table.values[order]), random)
    clean = torch.from_numpy(table.values)
    whiten = Whiten().fit(clean)
    white = whiten.deterministic(clean)
    white = white + noise * torch.from_numpy(random.standard_normal(white.shape))
    rows = whiten.inverse(white).to(torch.float32)
    test = len(rows) - min(1000, len(rows) // 10)
    validation = test - min(1000, test // 10)
    return build_dataset(
        source,
        (rows[:validation], rows[validation:test], rows[test:]),
        fitted=source.transform.fit(clean),
        files=[provenance],
        columns=list(table.columns),
        fitted_on="all rows, before the noise",
    )


_ARCHIVE = "https://archive.ics.uci.edu/ml/machine-learning-databases"
_FOLDERS = ("uci", "UCI", "")
_COLUMNS = {"parkinsons_updrs.data": 22, "winequality-red.csv": 12, "winequality-white.csv": 12}
_PARKINSONS = Published(
    ("parkinsons_updrs.data",),
    _FOLDERS,
    "sha256:f2c7d5025dec4e92e7feae367a5f7ccf58789a10ac6b54bdf15976c599f9dd39",
    (f"{_ARCHIVE}/parkinsons/telemonitoring/parkinsons_updrs.data",),
)
_RED = Published(
    ("winequality-red.csv",),
    _FOLDERS,
    "sha256:4a402cf041b025d4566d954c3b9ba8635a3a8a01e039005d97d6a710278cf05e",
    (f"{_ARCHIVE}/wine-quality/winequality-red.csv",),
)
_WHITE = Published(
    ("winequality-white.csv",),
    _FOLDERS,
    "sha256:76c3f809815c17c07212622f776311faeb31e87610d52c26d87d6e361b169836",
    (f"{_ARCHIVE}/wine-quality/winequality-white.csv",),
)
