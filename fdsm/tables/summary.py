"""The summary of a run on a table that its report shows, written as `table.json`."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from paper.data.tables import (
    Categorical,
    Column,
    Constant,
    DateTime,
    Empty,
    Identifier,
    Ignored,
    Numeric,
    TableSchema,
)
from ..serialize import Json

Array = NDArray[np.float64]

BINS = 30
"""Number of bins of a column."""

MAX_HISTOGRAMS = 60
"""Largest number of columns with a histogram."""

MAX_LEVELS = 12
"""Categories beyond this number are counted together."""

MAX_CORRELATIONS = 30
"""Largest number of columns of a correlation matrix."""

SCORE_BINS, SCORE_REACH = 40, 1.5
"""Number of bins in the range of the scores of known rows, and how many widths of that range the
bins continue above it, for the scores of unusual rows."""

P_VALUE_BINS = 20
"""Number of bins of p-values."""

LARGEST = 1e90
"""Bins end here, so that their widths and squares are finite."""

TYPES: dict[type[Column], str] = {
    Numeric: "numeric",
    Categorical: "categorical",
    DateTime: "date",
    Constant: "constant",
    Identifier: "identifier",
    Ignored: "ignored",
    Empty: "empty",
}
"""Names of the types of columns."""


def summarize_table(
    schema: TableSchema,
    train: Tensor,
    held_out: Tensor | None,
    samples: Tensor | None,
    train_scores: Tensor,
    held_out_scores: Tensor,
    p_values: Tensor,
    *,
    sample_auc: float | None = None,
) -> dict[str, Json]:
    """Summarize a run on a table: columns, samples, outlier scores and p-values.

    Args:
        schema: The types of the columns.
        train: Codes of the training rows, shape `(N, C)`. NaN where a cell is missing.
        held_out: Codes of the held-out rows, shape `(M, C)`. `None` if there are none, as with
            cross-fitting.
        samples: Codes of samples, shape `(S, C)`, or `None`.
        train_scores: Outlier scores of the training rows.
        held_out_scores: Outlier scores of rows that the model was not trained on.
        p_values: The p-values of the same rows.
        sample_auc: AUC of a classifier that separates samples from training rows, if it is known.

    Returns:
        The content of `table.json`.
    """
    training = _array(train)
    other = None if held_out is None else _array(held_out)
    drawn = None if samples is None else as_written(schema, samples)
    distances = [
        _distances(schema, index, training, other, drawn) for index in range(training.shape[1])
    ]
    order = sorted(range(len(distances)), key=lambda index: -(distances[index][0] or 0.0))
    shown = sorted(order[:MAX_HISTOGRAMS])
    scores = [_array(train_scores), _array(held_out_scores)]
    edges = score_edges(np.concatenate(scores))
    return {
        "rows": {
            "train": len(training),
            "held_out": len(held_out_scores),
            "samples": 0 if drawn is None else len(drawn),
        },
        "columns": _columns(schema, training),
        "histograms": [
            {
                **_column_histogram(schema, index, training, drawn),
                "distance": distances[index][0],
                "held_out_distance": distances[index][1],
            }
            for index in shown
            if not np.isnan(training[:, index]).all()
        ],
        "histograms_left_out": len(distances) - len(shown),
        "correlations": _correlations(schema, training, drawn),
        "scores": {
            "edges": edges.tolist(),
            "train": histogram(scores[0], edges),
            "held_out": histogram(scores[1], edges),
        },
        "calibration": calibration(_array(p_values)),
        "sample_auc": sample_auc,
    }


def as_written(schema: TableSchema, samples: Tensor) -> Array:
    """Return the codes of samples after they are written and read again: rounded, for example.

    Codes that are not finite are missing.
    """
    drawn = _array(samples)
    return schema.encode(schema.decode(np.where(np.isfinite(drawn), drawn, np.nan)))[0]


def histogram(values: Array, edges: Sequence[float] | Array) -> dict[str, Json]:
    """Count values in bins.

    Args:
        values: The values. NaN means missing.
        edges: Increasing edges of the bins. The last bin includes both its edges.

    Returns:
        The counts in the bins, below the first and above the last, and the number of missing ones.

    Example:
        >>> histogram(np.array([0.0, 0.5, 1.0, 7.0, np.nan]), [0.0, 0.5, 1.0])
        {'counts': [1, 2], 'below': 0, 'above': 1, 'missing': 1}
    """
    present = values[~np.isnan(values)]
    return {
        "counts": np.histogram(present, np.asarray(edges))[0].tolist(),
        "below": int((present < edges[0]).sum()),
        "above": int((present > edges[-1]).sum()),
        "missing": len(values) - len(present),
    }


def score_edges(scores: Array) -> Array:
    """Return edges of bins for scores of known rows, with room above for those of outliers."""
    low, high = robust_range(scores[np.isfinite(scores)])
    width = (high - low) / SCORE_BINS
    return low + width * np.arange(SCORE_BINS * (1 + SCORE_REACH) + 1)


def robust_range(values: Array) -> tuple[float, float]:
    """Return a range that contains nearly all values and that single outliers do not widen.

    It is the range of the values, but at most half the width of the central 98 % beyond those on
    either side.

    Args:
        values: Finite numbers.

    Returns:
        The lower and the upper end, which are never equal.

    Example:
        >>> low, high = robust_range(np.array([*np.linspace(0, 1, 1001), 1e6]))
        >>> (round(low, 2), round(high, 2))
        (0.0, 1.48)
    """
    if not len(values):
        return 0.0, 1.0
    values = values.clip(-LARGEST, LARGEST)
    low, high = np.quantile(values, [0.01, 0.99])
    reach = (high - low) / 2
    if reach > 0:
        low, high = max(values.min(), low - reach), min(values.max(), high + reach)
    else:
        low, high = values.min(), values.max()
    if low == high:
        reach = max(0.5, 1e-6 * abs(low))
        low, high = low - reach, high + reach
    return float(low), float(high)


def calibration(p_values: Array) -> dict[str, Json]:
    """Count p-values in bins of equal width, with the counts expected of uniform ones.

    Args:
        p_values: Numbers in (0, 1]. A bin includes its upper end.

    Returns:
        The counts, the expected count, and the 2.5 % and 97.5 % quantiles of the binomial
        distribution of a count.
    """
    present = p_values[~np.isnan(p_values)]
    # p-values are multiples of 1 / n, which rounding may put beyond the end of their bin
    bins = np.ceil(present * P_VALUE_BINS - 1e-9).clip(1, P_VALUE_BINS).astype(int) - 1
    low, high = (binomial_quantile(len(present), 1 / P_VALUE_BINS, q) for q in (0.025, 0.975))
    return {
        "counts": np.bincount(bins, minlength=P_VALUE_BINS).tolist(),
        "expected": len(present) / P_VALUE_BINS,
        "low": low,
        "high": high,
    }


def binomial_quantile(trials: int, probability: float, quantile: float) -> int:
    """Return the smallest count whose cumulative binomial probability reaches a quantile.

    Args:
        trials: Number of trials.
        probability: Probability of a success, between 0 and 1.
        quantile: The quantile, between 0 and 1.

    Returns:
        The count.

    Example:
        >>> binomial_quantile(100, 0.5, 0.025), binomial_quantile(100, 0.5, 0.975)
        (40, 60)
    """
    odds = math.log(probability) - math.log1p(-probability)
    counts = np.arange(1, trials + 1)
    steps = np.log((trials - counts + 1) / counts) + odds
    log_terms = np.concatenate([[0.0], np.cumsum(steps)]) + trials * math.log1p(-probability)
    return int(np.searchsorted(np.exp(log_terms).cumsum(), quantile))


def correlation(values: Array) -> Array:
    """Return the Pearson correlations of columns, each from the rows where both are present.

    Args:
        values: Shape `(N, C)`. NaN where a cell is missing.

    Returns:
        The matrix, shape `(C, C)`. NaN where one of the columns has a single value.
    """
    present = ~np.isnan(values)
    scale = np.abs(np.where(present, values, 0)).max(0, initial=0.0)
    x = np.where(present, values / np.where(scale > 0, scale, 1), 0)
    mask = present.astype(float)
    x = np.where(present, x - x.sum(0) / np.maximum(mask.sum(0), 1), 0)
    count = np.maximum(mask.T @ mask, 1)
    sums, squares = x.T @ mask, np.square(x).T @ mask
    covariance = x.T @ x - sums * sums.T / count
    variance = squares - np.square(sums) / count
    # below this the variance is rounding error of the sums of squares
    variance = np.where(variance > 1e-12 * np.maximum(squares, 1e-300), variance, np.nan)
    return np.asarray((covariance / np.sqrt(variance * variance.T)).clip(-1, 1))


def _array(tensor: Tensor) -> Array:
    return tensor.detach().cpu().double().numpy()


def _columns(schema: TableSchema, training: Array) -> list[Json]:
    used = {column.name: index for index, column in enumerate(schema.used)}
    missing = np.isnan(training).mean(0) if len(training) else np.zeros(training.shape[1])
    return [
        {
            "name": name,
            "type": TYPES[type(column)],
            "details": details,
            "missing": float(missing[used[name]]) if name in used else None,
            "used": name in used,
        }
        for column, (name, _, details, _) in zip(schema.columns, schema.summary(), strict=True)
    ]


def _middles(levels: Sequence[float]) -> Array:
    return np.asarray(levels)[1:] / 2 + np.asarray(levels)[:-1] / 2


def _distances(
    schema: TableSchema, index: int, training: Array, other: Array | None, drawn: Array | None
) -> tuple[float | None, float | None]:
    """Return the distances of samples and of held-out rows to training rows in a column."""
    distance = total_variation if isinstance(schema.used[index], Categorical) else kolmogorov
    return (
        None if drawn is None else distance(training[:, index], drawn[:, index]),
        None if other is None else distance(training[:, index], other[:, index]),
    )


def kolmogorov(first: Array, second: Array) -> float | None:
    """Return the largest difference of two empirical distribution functions.

    Args:
        first: Numbers. NaN means missing.
        second: Numbers. NaN means missing.

    Returns:
        The Kolmogorov-Smirnov distance, or `None` if one of the arrays has no values.
    """
    a, b = (np.sort(column[~np.isnan(column)]) for column in (first, second))
    if not len(a) or not len(b):
        return None
    values = np.concatenate([a, b])
    shares = [np.searchsorted(column, values, side="right") / len(column) for column in (a, b)]
    return float(np.abs(shares[0] - shares[1]).max())


def total_variation(first: Array, second: Array) -> float | None:
    """Return half the sum of the absolute differences of the shares of categories.

    Args:
        first: Indices of categories. NaN means missing.
        second: Indices of categories. NaN means missing.

    Returns:
        The total variation distance, or `None` if one of the arrays has no values.
    """
    a, b = (column[~np.isnan(column)].astype(int) for column in (first, second))
    if not len(a) or not len(b):
        return None
    size = int(max(a.max(), b.max())) + 1
    shares = [np.bincount(column, minlength=size) / len(column) for column in (a, b)]
    return float(np.abs(shares[0] - shares[1]).sum() / 2)


def _column_histogram(
    schema: TableSchema, index: int, training: Array, drawn: Array | None
) -> dict[str, Json]:
    column, values = schema.used[index], training[:, index]
    if isinstance(column, Categorical):
        labels, edges = _levels(column)
    elif isinstance(column, Numeric) and column.levels is not None:
        labels = [f"{level:.10g}" for level in column.levels]
        edges = np.array([-np.inf, *_middles(column.levels), np.inf])
    else:
        labels, edges = [], _bins(column, values[~np.isnan(values)])
    bins: dict[str, Json] = {"levels": labels} if labels else {"edges": [*map(float, edges)]}
    return {
        "column": column.name,
        **bins,
        "is_date": isinstance(column, DateTime),
        "data": histogram(values, edges),
        "samples": None if drawn is None else histogram(drawn[:, index], edges),
    }


def _levels(column: Categorical) -> tuple[list[str], Sequence[float] | Array]:
    """Return the labels and edges of categories. The rarest are counted together."""
    labels, count = list(column.levels), len(column.levels)
    edges = [level - 0.5 for level in range(count + 1)]
    if count <= MAX_LEVELS:
        return labels, edges
    alone = MAX_LEVELS - 1
    return [*labels[:alone], f"{count - alone} others"], [*edges[: alone + 1], edges[-1]]


def _bins(column: Numeric | DateTime, values: Array) -> Array:
    """Return edges of bins, one of them on either side of the range of the training rows."""
    low, high = robust_range(values)
    width = (high - low) / (BINS - 2)
    if isinstance(column, Numeric) and column.integer:
        width, low = max(1.0, math.ceil(width)), math.floor(low) - 0.5
    count = math.ceil((high - low) / width - 1e-9)
    return np.unique(low + width * np.arange(-1.0, count + 2))


def _correlations(
    schema: TableSchema, training: Array, drawn: Array | None
) -> dict[str, Json] | None:
    """Return the correlations of the columns with the strongest correlations."""
    counted = [
        index
        for index, column in enumerate(schema.used)
        if not isinstance(column, Categorical) or len(column.levels) == 2
    ]
    data = correlation(training[:, counted])
    strongest = np.nan_to_num(np.abs(data - np.eye(len(data)))).max(0, initial=0.0)
    kept = np.sort(np.argsort(-strongest, kind="stable")[:MAX_CORRELATIONS])
    if len(kept) < 2:
        return None
    columns = [counted[index] for index in kept]
    return {
        "columns": [schema.used[column].name for column in columns],
        "data": _rows(data[np.ix_(kept, kept)]),
        "samples": None if drawn is None else _rows(correlation(drawn[:, columns])),
        "left_out": len(counted) - len(kept),
    }


def _rows(matrix: Array) -> list[Json]:
    return [[None if math.isnan(value) else value for value in row] for row in matrix.tolist()]
