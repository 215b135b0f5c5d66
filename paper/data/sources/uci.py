r"""The three UCI tables of the paper's kernel experiments (Table 1), prepared as published.

1. Parkinsons: subject, age and sex are removed. While any column correlates above 0.98 with
   another, the first such column is removed; 15 of 19 remain. Wines: the quality is removed. Each
   of the 11 columns is dequantized with $U(-1, 1)$ times the median gap between its values.
2. Rows are shuffled with numpy and seed 2019. The last `min(1000, N // 10)` rows are the test
   rows, the `min(1000, (N - test) // 10)` rows before them are for validation.
3. The whitening is fitted to *all* rows. Then $N(0, 0.05²)$ is added once to the whitened rows.

Stored rows are in the units of the table and contain this noise. The fitted transform maps them
to the published rows.

References:
    Tsanas et al. (2009), https://doi.org/10.24432/C5ZS3N (Parkinsons).
    Cortez et al. (2009), https://doi.org/10.24432/C56S3T (wines).
"""

import csv
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from fdsm.serialize import Json

from ..dataset import Dataset, build_dataset
from ..download import RemoteFile
from ..errors import DataError, problems_of
from ..transforms import Transform, Whiten

MAX_CORRELATION = 0.98
FOLDERS = ("uci", "UCI", "")
SITE = "https://archive.ics.uci.edu/ml/machine-learning-databases"


class NumericTable(NamedTuple):
    """A table of numbers.

    Attributes:
        columns: Names of the columns.
        values: The numbers, shape `(N, D)`.
    """

    columns: tuple[str, ...]
    values: npt.NDArray[np.float64]


def parse_numbers(content: bytes, path: Path) -> NumericTable:
    """Parse a text file of numbers with a header, separated by commas or semicolons.

    Args:
        content: Content of the file.
        path: Path of the file.

    Returns:
        The table.

    Raises:
        DataError: If a cell is not a number, or a line has more or fewer cells than the header.
    """
    lines = content.decode("utf-8", "replace").splitlines()
    delimiter = ";" if lines and ";" in lines[0] else ","
    names, *rows = [row for row in csv.reader(lines, delimiter=delimiter) if row] or [[]]
    for number, row in enumerate(rows, 2):
        if len(row) != len(names):
            raise DataError(f"{path}: row {number} has {len(row)} cells, expected {len(names)}")
    numbers = [[_number(cell) for cell in row] for row in rows]
    values = np.array(numbers).reshape(len(rows), len(names))
    if bad := int(np.isnan(values).sum()):
        raise DataError(f"{path} has {bad:,} cells that are not numbers")
    return NumericTable(tuple(names), values)


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return math.nan


def select_voice_columns(table: NumericTable, random: np.random.RandomState) -> NumericTable:
    """Remove subject, age, sex and highly correlated columns from the Parkinsons table.

    Args:
        table: The table with all 22 columns.
        random: Not used, because the values are continuous.

    Returns:
        The table with the remaining 15 columns.
    """
    names, x = list(table.columns[3:]), table.values[:, 3:]
    correlations = np.abs(_correlations(x))
    while (correlated := (correlations > MAX_CORRELATION).sum(1) > 1).any():
        first = int(correlated.argmax())
        x = np.delete(x, first, 1)
        del names[first]
        # The published code uses absolute correlations only in the first pass.
        correlations = _correlations(x)
    return NumericTable(tuple(names), x)


def _correlations(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.asarray(np.corrcoef(x.T))


def dequantize_wine(table: NumericTable, random: np.random.RandomState) -> NumericTable:
    """Remove the quality from a wine table and dequantize the other columns.

    Args:
        table: The table with all 12 columns.
        random: Random number generator.

    Returns:
        The table with 11 columns, each with $U(-1, 1)$ times its median gap added.
    """
    x = table.values[:, :-1]
    gaps = np.array([np.median(np.diff(np.unique(column))) for column in x.T])
    return NumericTable(table.columns[:-1], x + random.uniform(-1, 1, x.shape) * gaps)


@dataclass(frozen=True)
class _UCITable:
    noise: float = 0.05
    seed: int = 2019
    transform: Transform = Whiten()

    _file: ClassVar[RemoteFile]
    _columns: ClassVar[int]
    _prepare: ClassVar[Callable[[NumericTable, np.random.RandomState], NumericTable]]

    def load(self) -> Dataset:
        """Read the data set. Raises `DataError` if the file is missing or damaged."""
        table, record = self._file.read(parse_numbers)
        if len(table.columns) != self._columns:
            raise DataError(
                f"{self._file.find()} has {len(table.columns)} columns, expected {self._columns}. "
                f"Replace it with the official file from {self._file.origin}"
            )
        with problems_of(self._file.fetch()):
            return self._prepared(table, record)

    def _prepared(self, table: NumericTable, record: Json) -> Dataset:
        random = np.random.RandomState(self.seed)
        order = random.permutation(len(table.values))
        table = type(self)._prepare(NumericTable(table.columns, table.values[order]), random)
        clean = torch.from_numpy(table.values)
        whiten = Whiten().fit(clean)
        white = whiten.deterministic(clean)
        white = white + self.noise * torch.from_numpy(random.standard_normal(white.shape))
        rows = whiten.inverse(white).to(torch.float32)
        test = len(rows) - min(1000, len(rows) // 10)
        validation = test - min(1000, test // 10)
        return build_dataset(
            self,
            (rows[:validation], rows[validation:test], rows[test:]),
            fitted=self.transform.fit(clean),
            files=[record],
            columns=list(table.columns),
            fitted_on="all rows, before the noise",
        )


@dataclass(frozen=True)
class Parkinsons(_UCITable):
    """Voice measurements of people with Parkinson's disease: 5,875 rows of 15 columns.

    Attributes:
        noise: Standard deviation of the noise that is added once to the whitened rows.
        seed: Random seed of the shuffle, the dequantization and the noise.
        transform: Transform from stored rows to model inputs. Fitted to all rows.
    """

    _file = RemoteFile(
        ("parkinsons_updrs.data",),
        FOLDERS,
        "sha256:f2c7d5025dec4e92e7feae367a5f7ccf58789a10ac6b54bdf15976c599f9dd39",
        (f"{SITE}/parkinsons/telemonitoring/parkinsons_updrs.data",),
    )
    _columns = 22
    _prepare = select_voice_columns


@dataclass(frozen=True)
class RedWine(_UCITable):
    """Physicochemical measurements of red wines: 1,599 rows of 11 columns.

    Attributes:
        noise: Standard deviation of the noise that is added once to the whitened rows.
        seed: Random seed of the shuffle, the dequantization and the noise.
        transform: Transform from stored rows to model inputs. Fitted to all rows.
    """

    _file = RemoteFile(
        ("winequality-red.csv",),
        FOLDERS,
        "sha256:4a402cf041b025d4566d954c3b9ba8635a3a8a01e039005d97d6a710278cf05e",
        (f"{SITE}/wine-quality/winequality-red.csv",),
    )
    _columns = 12
    _prepare = dequantize_wine


@dataclass(frozen=True)
class WhiteWine(_UCITable):
    """Physicochemical measurements of white wines: 4,898 rows of 11 columns.

    Attributes:
        noise: Standard deviation of the noise that is added once to the whitened rows.
        seed: Random seed of the shuffle, the dequantization and the noise.
        transform: Transform from stored rows to model inputs. Fitted to all rows.
    """

    _file = RemoteFile(
        ("winequality-white.csv",),
        FOLDERS,
        "sha256:76c3f809815c17c07212622f776311faeb31e87610d52c26d87d6e361b169836",
        (f"{SITE}/wine-quality/winequality-white.csv",),
    )
    _columns = 12
    _prepare = dequantize_wine
