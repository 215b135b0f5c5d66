"""Typed records of `table.json` and of the files in `scored/` of a run on a table."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from ...serialize import Json
from paper.report.records import real, text

LARGEST = 1e100
"""Numbers of a plot must be smaller."""


@dataclass(frozen=True)
class Counts:
    """Numbers of rows in the bins of a histogram, or in the levels of a category.

    Attributes:
        inside: Number of rows in each bin or level.
        below: Number of rows below the first bin.
        above: Number of rows above the last bin.
        missing: Number of rows without a value.
    """

    inside: tuple[float, ...]
    below: float = 0.0
    above: float = 0.0
    missing: float = 0.0

    @property
    def total(self) -> float:
        """Number of rows with a value."""
        return sum(self.inside) + self.below + self.above

    @property
    def shares(self) -> tuple[float, ...]:
        """Share of the rows with a value in each bin or level."""
        return tuple(count / (self.total or 1.0) for count in self.inside)

    @property
    def shares_at_or_above(self) -> tuple[float, ...]:
        """Share of the rows with a value at or above each edge of the bins."""
        reversed_counts = itertools.accumulate((self.above, *reversed(self.inside)))
        return tuple(count / (self.total or 1.0) for count in reversed_counts)[::-1]


@dataclass(frozen=True)
class Histogram:
    """A histogram of scores.

    Attributes:
        edges: Edges of the bins, increasing.
        counts: Numbers of rows in the bins.
    """

    edges: tuple[float, ...]
    counts: Counts


@dataclass(frozen=True)
class Column:
    """A column of the table.

    Attributes:
        name: Its name.
        type: Its type in one or two words.
        details: How it was used, or why it was not.
        missing: Share of the rows without a value. NaN if it is not known.
        used: Whether the model uses it.
    """

    name: str
    type: str
    details: str
    missing: float
    used: bool


@dataclass(frozen=True)
class ColumnHistogram:
    """Values of a column in the training rows and in samples, in the same bins.

    Attributes:
        column: Name of the column.
        edges: Edges of the bins of a number or a date. Empty for levels.
        levels: Names of the levels. Empty for bins.
        is_date: Whether the edges are seconds since 1970.
        data: Training rows.
        samples: Samples, or `None` if there are none.
        distance: Distance between the distributions of samples and training rows, between 0 and 1.
            NaN if it was not measured.
        held_out_distance: The same for held-out rows and training rows.
    """

    column: str
    edges: tuple[float, ...]
    levels: tuple[str, ...]
    is_date: bool
    data: Counts
    samples: Counts | None
    distance: float
    held_out_distance: float


@dataclass(frozen=True)
class Correlations:
    """Correlation matrices of some columns.

    Attributes:
        columns: Names of the columns.
        data: Matrix of the training rows. NaN where a column has one value.
        samples: Matrix of the samples, or `None` if there are none.
        left_out: Number of columns that are not in the matrices because there are too many.
    """

    columns: tuple[str, ...]
    data: tuple[tuple[float, ...], ...]
    samples: tuple[tuple[float, ...], ...] | None
    left_out: int


@dataclass(frozen=True)
class Calibration:
    """Counts of p-values of held-out rows in bins of equal width.

    Attributes:
        counts: Number of rows in each bin.
        expected: Expected number in each bin.
        low: Lower end of the range that holds 95 % of the counts of uniform p-values.
        high: Upper end of that range.
    """

    counts: tuple[float, ...]
    expected: float
    low: float
    high: float


@dataclass(frozen=True)
class TableRecord:
    """Content of `table.json`.

    Attributes:
        rows: Numbers of rows by name: `train`, `held_out`, `samples`.
        columns: All columns of the table, used or not.
        histograms: Values of columns in training rows and samples.
        histograms_left_out: Number of columns without a histogram because there are too many.
        correlations: Correlations of columns, or `None` if fewer than two have any.
        train_scores: Outlier scores of training rows.
        held_out_scores: Outlier scores of held-out rows.
        calibration: The p-values of held-out rows.
        sample_auc: AUC of a classifier that separates samples from training rows, or NaN.
    """

    rows: Mapping[str, int]
    columns: tuple[Column, ...]
    histograms: tuple[ColumnHistogram, ...]
    histograms_left_out: int
    correlations: Correlations | None
    train_scores: Histogram
    held_out_scores: Histogram
    calibration: Calibration
    sample_auc: float


@dataclass(frozen=True)
class Reason:
    """A column that makes a row unusual.

    Attributes:
        column: Name of the column.
        value: Its value in the row. `None` if it is missing.
        expected: The expected value. `None` if there is none.
        share: Share of the score that is due to the column. NaN if it is not known.
        is_new: Whether the value never occurred in training, although most values do.
    """

    column: str
    value: Json
    expected: Json
    share: float
    is_new: bool = False


@dataclass(frozen=True)
class Outlier:
    """A row with a high score.

    Attributes:
        row: Number or name of the row.
        score: Its score.
        p_value: Its p-value.
        flagged: Whether it is an outlier at the false discovery rate.
        reasons: The columns that make it unusual, the strongest first.
    """

    row: str
    score: float
    p_value: float
    flagged: bool
    reasons: tuple[Reason, ...]


@dataclass(frozen=True)
class ScoredRecord:
    """Content of a file in `scored/`: the scores of a data file.

    Attributes:
        file: Name of the data file.
        rows: Number of rows.
        flagged: Number of flagged rows.
        fdr: False discovery rate at which rows were flagged. NaN if it is not known.
        threshold: Lowest flagged score. NaN if no row is flagged.
        histogram: The scores.
        top: Rows with the highest scores.
    """

    file: str
    rows: int
    flagged: int
    fdr: float
    threshold: float
    histogram: Histogram
    top: tuple[Outlier, ...]


def table_from_json(
    value: Mapping[str, Any], missing: Mapping[str, float] = MappingProxyType({})
) -> TableRecord:
    """Return the record of the content of `table.json`.

    Args:
        value: The content.
        missing: Shares of missing cells by column, for columns without one in `value`.

    Returns:
        The record.

    Raises:
        LookupError: If an entry is missing.
        TypeError: If an entry is not an object or a list.
        ValueError: If a number is not finite, or lengths do not match.
    """
    scores, correlations = value["scores"], value.get("correlations")
    edges = scores["edges"]
    return TableRecord(
        {text(name): _count(count) for name, count in value["rows"].items()},
        tuple(_column(column, missing) for column in value["columns"]),
        tuple(_column_histogram(histogram) for histogram in value["histograms"]),
        _count(value.get("histograms_left_out", 0)),
        None if correlations is None else _correlations(correlations),
        _histogram({"edges": edges, **scores["train"]}),
        _histogram({"edges": edges, **scores["held_out"]}),
        _calibration(value["calibration"]),
        real(value.get("sample_auc")),
    )


def scored_from_json(value: Mapping[str, Any]) -> ScoredRecord:
    """Return the record of the content of a file in `scored/`.

    Args:
        value: The content.

    Returns:
        The record.

    Raises:
        LookupError: If an entry is missing.
        TypeError: If an entry is not an object or a list.
        ValueError: If a number is not finite, or lengths do not match.
    """
    threshold = _drawable(value.get("threshold"))
    return ScoredRecord(
        text(value["file"]),
        _count(value["rows"]),
        _count(value["flagged"]),
        real(value.get("fdr")),
        threshold,
        _histogram(value["score_histogram"]),
        tuple(_outlier(outlier, threshold) for outlier in value["top"]),
    )


def _outlier(value: Mapping[str, Any], threshold: float) -> Outlier:
    reasons = tuple(
        Reason(
            text(reason["column"]),
            reason.get("value"),
            reason.get("expected"),
            real(reason.get("share")),
            reason.get("is_new") is True,
        )
        for reason in value.get("reasons") or ()
    )
    score = real(value["score"])
    flagged = bool(value.get("flagged", score >= threshold))  # older records have no such entry
    return Outlier(text(value["row"]), score, real(value.get("p_value")), flagged, reasons)


def _column(value: Mapping[str, Any], missing: Mapping[str, float]) -> Column:
    name, share = text(value["name"]), real(value.get("missing"))
    return Column(
        name,
        text(value["type"]),
        text(value.get("details", "")),
        missing.get(name, math.nan) if math.isnan(share) else share,
        value.get("used") is True,
    )


def _column_histogram(value: Mapping[str, Any]) -> ColumnHistogram:
    levels = tuple(text(level) for level in value.get("levels") or ())
    edges = () if levels else _edges(value["edges"])
    bins = len(levels) or len(edges) - 1
    samples = value.get("samples")
    return ColumnHistogram(
        text(value["column"]),
        edges,
        levels,
        value.get("is_date") is True,
        _counts(value["data"], bins),
        None if samples is None else _counts(samples, bins),
        real(value.get("distance")),
        real(value.get("held_out_distance")),
    )


def _histogram(value: Mapping[str, Any]) -> Histogram:
    edges = _edges(value["edges"])
    return Histogram(edges, _counts(value, len(edges) - 1))


def _counts(value: Mapping[str, Any], bins: int) -> Counts:
    inside = _numbers(value["counts"])
    outside = [_number(value.get(name, 0)) for name in ("below", "above", "missing")]
    if len(inside) != bins:
        raise ValueError(f"a histogram has {len(inside)} counts for {bins} bins")
    if min((*inside, *outside), default=0.0) < 0:
        raise ValueError("a histogram has a negative count")
    return Counts(inside, *outside)


def _correlations(value: Mapping[str, Any]) -> Correlations:
    columns = tuple(text(name) for name in value["columns"])
    samples = value.get("samples")
    return Correlations(
        columns,
        _matrix(value["data"], len(columns)),
        None if samples is None else _matrix(samples, len(columns)),
        _count(value.get("left_out", 0)),
    )


def _matrix(value: Sequence[Sequence[Json]], size: int) -> tuple[tuple[float, ...], ...]:
    matrix = tuple(tuple(map(_drawable, row)) for row in value)
    if len(matrix) != size or any(len(row) != size for row in matrix):
        raise ValueError(f"a correlation matrix of {size} columns has another shape")
    return matrix


def _calibration(value: Mapping[str, Any]) -> Calibration:
    expected, low, high = (_number(value[name]) for name in ("expected", "low", "high"))
    return Calibration(_numbers(value["counts"]), expected, low, high)


def _edges(value: Sequence[Json]) -> tuple[float, ...]:
    edges = _numbers(value)
    if len(edges) < 2 or any(low >= high for low, high in itertools.pairwise(edges)):
        raise ValueError("the edges of a histogram do not increase")
    return edges


def _numbers(value: Sequence[Json]) -> tuple[float, ...]:
    return tuple(map(_number, value))


def _number(value: Json) -> float:
    number = real(value)
    if not abs(number) < LARGEST:
        raise ValueError(f"{text(value)[:40]} is not a finite number")
    return number


def _count(value: Json) -> int:
    return int(_number(value))


def _drawable(value: Json) -> float:
    """Return a number that can be plotted, or NaN."""
    number = real(value)
    return number if abs(number) < LARGEST else math.nan
