"""What is known about a trained model of a table, and about the files that it scored.

All of it are frozen dataclasses of plain values, which `fdsm.serialize` writes and reads. The page
of a model is made from them.
"""

import itertools
import math
import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..extras import name_missing_extra
from ..serialize import RecordError, from_json
from ..untrusted import InputError, quote, read_json, shorten
from .comparison import (
    Comparison,
    correlation,
    kolmogorov_distance,
    sample_problems,
    total_variation,
)
from .schema import (
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

if TYPE_CHECKING:
    from torch import Tensor

    from .outliers import Reason

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
"""Number of bins in the range of the scores of the training rows, and how many widths of that
range the bins continue above it, for the scores of unusual rows."""
P_VALUE_BINS = 20
"""Number of bins of p-values."""
UNUSUAL_P = 0.01
"""Training rows with a smaller p-value are counted as unusual."""
FLAGGED_ROWS, OTHER_ROWS = 50, 20
"""Largest numbers of flagged and of other rows of a scored file that are shown."""
CELL_LENGTH = 80
"""Longest text of a cell that is shown."""
CODE_VALUES = 5
"""Integers with at most this number of different values may be codes."""
CODE_NAMES = {"class", "code", "gender", "id", "sex", "status", "type", "zip"}
"""Integers in a column with such a word in its name may be codes."""
BLOCK_ROWS = 50_000
"""Number of rows of a file of scores that are read at once."""
LARGEST = 1e90
"""Bins end here, so that their widths and squares are finite."""
SCORE_COLUMNS = ("score", "p_value", "log_density", "flagged", "reasons", "problem")
"""The last columns of a file of scores. A column that the table has itself starts with `fdsm_`."""

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


@dataclass(frozen=True)
class FileRecord:
    """The table that a model was trained on.

    Attributes:
        name: Name of the file, or of the object in memory.
        rows: Number of rows that were read.
        dropped_rows: Number of rows without any value, which were left out.
        copies: Number of copies of other rows, which were left out.
        equal_rows: Number of rows that equal another row and were kept.
        sampled_rows: Number of rows of the random sample, if the file was too large to use all.
        sha256: Checksum of the file. Empty for an object in memory.
    """

    name: str
    rows: int
    dropped_rows: int = 0
    copies: int = 0
    equal_rows: int = 0
    sampled_rows: int | None = None
    sha256: str = ""


@dataclass(frozen=True)
class Training:
    """How a model was trained.

    Attributes:
        iterations: Number of iterations.
        seconds: Duration.
        validation_losses: Iterations, and the mean loss of held-out rows after each.
        seed: Random seed.
        objective: The objective as text.
        parameters: Number of parameters of the model.
        torch_version: Version of torch.
        fdsm_version: Version of fdsm.
        time: Date and time at the start, in the format of ISO 8601.
    """

    iterations: int
    seconds: float
    validation_losses: tuple[tuple[int, float], ...]
    seed: int
    objective: str
    parameters: int
    torch_version: str
    fdsm_version: str
    time: str


@dataclass(frozen=True)
class Counts:
    """Numbers of rows in the bins of a histogram, or in the levels of a category.

    Attributes:
        inside: Number of rows in each bin or level.
        below: Number of rows below the first bin.
        above: Number of rows above the last bin.
        missing: Number of rows without a value.
    """

    inside: tuple[int, ...]
    below: int = 0
    above: int = 0
    missing: int = 0

    def __post_init__(self) -> None:
        if min((*self.inside, self.below, self.above, self.missing)) < 0:
            raise ValueError("a histogram has a negative count")

    @property
    def total(self) -> int:
        """Number of rows with a value."""
        return sum(self.inside) + self.below + self.above

    @property
    def shares(self) -> tuple[float, ...]:
        """Share of the rows with a value in each bin or level."""
        return tuple(count / (self.total or 1) for count in self.inside)

    @property
    def shares_at_or_above(self) -> tuple[float, ...]:
        """Share of the rows with a value at or above each edge of the bins."""
        reversed_counts = itertools.accumulate((self.above, *reversed(self.inside)))
        return tuple(count / (self.total or 1) for count in reversed_counts)[::-1]


@dataclass(frozen=True)
class Histogram:
    """A histogram of scores.

    Attributes:
        edges: Edges of the bins, increasing.
        counts: Numbers of rows in the bins.
    """

    edges: tuple[float, ...]
    counts: Counts

    def __post_init__(self) -> None:
        _require_edges(self.edges, self.counts)


@dataclass(frozen=True)
class ColumnSummary:
    """A column of the table.

    Attributes:
        name: Its name.
        type: Its type in one word.
        details: How it is used, or why it is not.
        missing: Share of the rows without a value.
        used: Whether the model uses it.
        possible_codes: Number of different integers in it, if these may be codes. Otherwise 0.
    """

    name: str
    type: str
    details: str
    missing: float
    used: bool
    possible_codes: int = 0


@dataclass(frozen=True)
class ColumnHistogram:
    """Values of a column in the training rows and in samples, in the same bins.

    Attributes:
        column: Name of the column.
        edges: Edges of the bins of a number or a date. Empty for levels.
        levels: Names of the levels. Empty for bins.
        is_date: Whether the edges are seconds since 1970.
        data: Training rows.
        samples: Samples.
        distance: Distance between the distributions of samples and training rows, between 0 and 1.
            `None` if one of them has no values.
    """

    column: str
    edges: tuple[float, ...]
    levels: tuple[str, ...]
    is_date: bool
    data: Counts
    samples: Counts
    distance: float | None

    def __post_init__(self) -> None:
        for counts in (self.data, self.samples):
            if not self.levels:
                _require_edges(self.edges, counts)
            elif len(counts.inside) != len(self.levels):
                raise ValueError(f"{len(counts.inside)} counts for {len(self.levels)} levels")


@dataclass(frozen=True)
class Correlations:
    """Correlation matrices of some columns.

    Attributes:
        columns: Names of the columns.
        data: Matrix of the training rows. `None` where a column has one value.
        samples: Matrix of the samples.
        left_out: Number of columns that are not in the matrices because there are too many.
    """

    columns: tuple[str, ...]
    data: tuple[tuple[float | None, ...], ...]
    samples: tuple[tuple[float | None, ...], ...]
    left_out: int

    def __post_init__(self) -> None:
        size = len(self.columns)
        for matrix in (self.data, self.samples):
            if len(matrix) != size or any(len(row) != size for row in matrix):
                raise ValueError(f"a correlation matrix of {size} columns has another shape")
            if not all(value is None or abs(value) <= 1 for row in matrix for value in row):
                raise ValueError("a correlation is not between -1 and 1")


@dataclass(frozen=True)
class PValueCounts:
    """Numbers of p-values of held-out rows in bins of equal width.

    Attributes:
        counts: Number of rows in each bin. A bin includes its upper end.
        expected: Expected number in each bin.
        low: Lower end of the range that holds 95 % of the counts of uniform p-values.
        high: Upper end of that range.
    """

    counts: tuple[int, ...]
    expected: float
    low: int
    high: int

    def __post_init__(self) -> None:
        if not all(0 <= value < LARGEST for value in (*self.counts, self.expected, self.high)):
            raise ValueError("a count of p-values is negative or not finite")


@dataclass(frozen=True)
class Summary:
    """What is known about a trained model of a table.

    Attributes:
        file: The table.
        training: How the model was trained.
        columns: All columns of the table, used or not.
        train_rows: Number of training rows that were summarized.
        samples: Number of samples that were summarized.
        histograms: Values of columns in training rows and samples.
        histograms_left_out: Number of columns without a histogram because there are too many.
        correlations: Correlations of columns, or `None` if fewer than two have any.
        train_scores: Outlier scores of training rows.
        held_out_scores: Outlier scores of rows by members that were not trained on them.
        p_values: The p-values of the same rows.
        sample_auc: AUC of a classifier that separates samples from training rows, if it is known.
        comparison: The model and reference densities on held-out rows, if they were compared.
        problems: Sentences on clear faults of the samples, and what to do about them.
        unusual_rows: Number of held-out rows with a p-value below 0.01.
        unusual_columns: Columns in the reasons of the most unusual of these rows, and the number
            of rows of each, the most frequent first.
        relations: Sentences on relations that hold in all rows.
    """

    file: FileRecord
    training: Training
    columns: tuple[ColumnSummary, ...]
    train_rows: int
    samples: int
    histograms: tuple[ColumnHistogram, ...]
    histograms_left_out: int
    correlations: Correlations | None
    train_scores: Histogram
    held_out_scores: Histogram
    p_values: PValueCounts
    sample_auc: float | None
    comparison: Comparison | None
    problems: tuple[str, ...]
    unusual_rows: int = 0
    unusual_columns: tuple[tuple[str, int], ...] = ()
    relations: tuple[str, ...] = ()


@dataclass(frozen=True)
class ScoredRow:
    """A row with a high score.

    Attributes:
        row: Number of the row in its file, from 1.
        score: Its score.
        p_value: Its p-value.
        reasons: Why it is unusual, as in a file of scores.
        cells: Its cells as text.
    """

    row: int
    score: float
    p_value: float
    reasons: str
    cells: tuple[str, ...]


@dataclass(frozen=True)
class ScoredFile:
    """The scores of a table.

    Attributes:
        name: Name of the file.
        rows: Number of rows.
        flagged: Number of flagged rows.
        not_scored: Number of rows that could not be scored.
        histogram: The scores, in the bins of the summary.
        threshold: Lowest flagged score. `None` if no row is flagged.
        columns: Names of the columns of the table. Empty if the file has none of them.
        flagged_rows: The flagged rows with the highest scores.
        other_rows: Those of the other rows.
    """

    name: str
    rows: int
    flagged: int
    not_scored: int
    histogram: Histogram
    threshold: float | None
    columns: tuple[str, ...]
    flagged_rows: tuple[ScoredRow, ...]
    other_rows: tuple[ScoredRow, ...]


def summarize(
    schema: TableSchema,
    train: "Tensor",
    samples: "Tensor",
    train_scores: "Tensor",
    held_out_scores: "Tensor",
    p_values: "Tensor",
    *,
    training: Training,
    comparison: Comparison | None,
    sample_auc: float | None,
    record: FileRecord,
    reasons: "Sequence[Sequence[Reason]]" = (),
    relations: Sequence[str] = (),
) -> Summary:
    """Summarize a trained model.

    Args:
        schema: The types of the columns.
        train: Codes of the training rows, shape `(N, C)`. NaN where a cell is missing.
        samples: Codes of samples, shape `(S, C)`. There may be none.
        train_scores: Outlier scores of training rows.
        held_out_scores: Outlier scores of rows by members that were not trained on them.
        p_values: The p-values of the same rows.
        training: How the model was trained.
        comparison: The model and reference densities on held-out rows, if they were compared.
        sample_auc: AUC of a classifier that separates samples from training rows, if it is known.
        record: The table.
        reasons: Reasons of the most unusual training rows.
        relations: Sentences on relations that hold in all rows.

    Returns:
        The summary.
    """
    rows, drawn = _array(train), as_written(schema, samples)
    distances = [_distance(*column) for column in zip(schema.used, rows.T, drawn.T, strict=True)]
    order = sorted(range(len(distances)), key=lambda index: -(distances[index] or 0.0))
    shown = sorted(order[:MAX_HISTOGRAMS])
    edges = score_edges(np.concatenate([_array(train_scores), _array(held_out_scores)]))
    named = Counter(name for row in reasons for name in {reason.column: None for reason in row})
    return Summary(
        file=record,
        training=training,
        columns=_columns(schema, rows, record),
        train_rows=len(rows),
        samples=len(drawn),
        histograms=tuple(
            _column_histogram(schema.used[i], rows[:, i], drawn[:, i], distances[i])
            for i in shown
            if not np.isnan(rows[:, i]).all()
        ),
        histograms_left_out=len(distances) - len(shown),
        correlations=_correlations(schema, rows, drawn),
        train_scores=histogram(_array(train_scores), edges),
        held_out_scores=histogram(_array(held_out_scores), edges),
        p_values=count_p_values(_array(p_values)),
        sample_auc=sample_auc,
        comparison=comparison,
        problems=tuple(sample_problems(schema, _array(samples), rows)),
        unusual_rows=int((p_values < UNUSUAL_P).sum()),
        unusual_columns=tuple(named.most_common()),
        relations=tuple(relations),
    )


def read_summary(path: Path) -> Summary:
    """Read the summary of a model.

    Args:
        path: A `summary.json`.

    Returns:
        The summary.

    Raises:
        InputError: If the file cannot be read or is damaged.
    """
    content = read_json(path, RecordError)
    try:
        summary = from_json(content)
    except InputError as problem:
        raise InputError(f"{path} is damaged: {problem}") from problem
    if not isinstance(summary, Summary):
        raise InputError(f"{path} is damaged: it is not the summary of a model")
    return summary


def read_scores(path: Path, summary: Summary) -> ScoredFile:
    """Read a file of scores that `fdsm score` wrote.

    Args:
        path: The file, csv or parquet.
        summary: The summary of the model.

    Returns:
        The summary of the scores, with the contents of the most unusual rows.

    Raises:
        InputError: If the file cannot be read or does not hold scores.
    """
    from .frame import iter_table

    names = [*SCORE_COLUMNS, *(f"fdsm_{name}" for name in SCORE_COLUMNS), "row"]
    names += [column.name for column in summary.columns]
    own: list[str] = []
    scores: list[float] = []
    flagged_rows: list[ScoredRow] = []
    other_rows: list[ScoredRow] = []
    num_flagged, threshold = 0, math.inf
    for frame in iter_table(path, BLOCK_ROWS, names):
        given, last = np.split(np.array(frame.table.column_names), [-len(SCORE_COLUMNS)])
        if tuple(name.removeprefix("fdsm_") for name in last) != SCORE_COLUMNS:
            raise InputError(
                f"{path} does not hold scores. Give a file that fdsm score wrote: its last "
                f"columns are {', '.join(SCORE_COLUMNS)}"
            )
        _require_same_table(path, given.tolist(), summary)
        own = [] if given.tolist() == ["row"] else given.tolist()
        columns = [frame.table.column(name).cast("string").to_pylist() for name in last]
        try:
            score, p_value = (np.array([float(x or "nan") for x in columns[i]]) for i in (0, 1))
        except ValueError as problem:
            raise InputError(f"{path} does not hold scores: {problem}") from problem
        flagged = np.array([text == "true" for text in columns[3]], bool) & ~np.isnan(score)
        cells = frame.original.select(own)
        for kept, is_kind, most in (
            (flagged_rows, flagged, FLAGGED_ROWS),
            (other_rows, ~flagged & ~np.isnan(score), OTHER_ROWS),
        ):
            chosen = np.flatnonzero(is_kind)
            chosen = chosen[np.argsort(-score[chosen], kind="stable")[:most]]
            for i, row in zip(chosen.tolist(), _as_text(cells, chosen), strict=True):
                number, reasons = len(scores) + i + 1, columns[4][i] or ""
                kept.append(ScoredRow(number, float(score[i]), float(p_value[i]), reasons, row))
            kept.sort(key=lambda row: -row.score)
            del kept[most:]
        num_flagged += int(flagged.sum())
        threshold = min([threshold, *score[flagged].tolist()])
        scores += score.tolist()
    counts = histogram(np.array(scores), summary.held_out_scores.edges)
    return ScoredFile(
        name=path.name,
        rows=len(scores),
        flagged=num_flagged,
        not_scored=counts.counts.missing,
        histogram=counts,
        threshold=threshold if num_flagged else None,
        columns=tuple(own),
        flagged_rows=tuple(flagged_rows),
        other_rows=tuple(other_rows),
    )


def _as_text(table: pa.Table, rows: NDArray[np.int64]) -> list[tuple[str, ...]]:
    """Return the cells of some rows of a table as text."""
    if not table.num_columns:
        return [()] * len(rows)
    columns = []
    for column in table.take(rows).columns:
        with suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):  # lists, for example
            column = column.cast("string")
        cells = ["" if value is None else str(value) for value in column.to_pylist()]
        columns.append([shorten(cell, CELL_LENGTH) for cell in cells])
    return list(zip(*columns, strict=True))


def _require_same_table(path: Path, given: list[str], summary: Summary) -> None:
    """Check that a file of scores has the columns of the model.

    Files of row numbers have no columns of the table. If only one of two tables has a header,
    their columns are the same by position.

    Args:
        path: The file.
        given: Its columns, without those of the scores.
        summary: The summary of the model.

    Raises:
        InputError: If it lacks columns.
    """
    used = [column.name for column in summary.columns if column.used]
    missing = [name for name in used if name not in given]
    by_position = not {*map(str, range(len(used)))}.isdisjoint({*used, *given})
    if missing and given and given != ["row"] and not by_position:
        raise InputError(
            f"{path} holds scores of another model: it has no column {quote(missing[0])}. Give "
            f"scores of {quote(summary.file.name)}"
        )


def as_written(schema: TableSchema, samples: "Tensor") -> Array:
    """Return the codes of samples after they are written and read again: rounded, for example.

    Codes that are not finite are missing.
    """
    drawn = _array(samples)
    return schema.encode(schema.decode(np.where(np.isfinite(drawn), drawn, np.nan)))[0]


def histogram(values: Array, edges: Sequence[float] | Array) -> Histogram:
    """Count scores in bins.

    Args:
        values: The scores. NaN means missing.
        edges: Increasing edges of the bins.

    Returns:
        The histogram.

    Example:
        >>> histogram(np.array([0.0, 0.5, 1.0, 7.0, np.nan]), [0.0, 0.5, 1.0]).counts
        Counts(inside=(1, 2), below=0, above=1, missing=1)
    """
    return Histogram(tuple(map(float, edges)), count_in_bins(values, edges))


def count_in_bins(values: Array, edges: Sequence[float] | Array) -> Counts:
    """Count values in bins. The last bin includes both its edges. NaN means missing."""
    present = values[~np.isnan(values)]
    return Counts(
        tuple(np.histogram(present, np.asarray(edges))[0].tolist()),
        int((present < edges[0]).sum()),
        int((present > edges[-1]).sum()),
        len(values) - len(present),
    )


def score_edges(scores: Array) -> Array:
    """Return edges of bins for the scores of training rows, with room above for outliers."""
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


def count_p_values(p_values: Array) -> PValueCounts:
    """Count p-values in bins of equal width, with the counts expected of uniform ones.

    Args:
        p_values: Numbers in (0, 1]. NaN means missing.

    Returns:
        The counts, the expected count, and the 2.5 % and 97.5 % quantiles of the binomial
        distribution of a count.
    """
    with name_missing_extra("a summary of a table"):
        from scipy.stats import binom
    present = p_values[~np.isnan(p_values)]
    # p-values are multiples of 1 / n, which rounding may put beyond the end of their bin
    bins = np.ceil(present * P_VALUE_BINS - 1e-9).clip(1, P_VALUE_BINS).astype(int) - 1
    low, high = binom.ppf([0.025, 0.975], len(present), 1 / P_VALUE_BINS)
    return PValueCounts(
        tuple(np.bincount(bins, minlength=P_VALUE_BINS).tolist()),
        len(present) / P_VALUE_BINS,
        int(low),
        int(high),
    )


def _require_edges(edges: Sequence[float], counts: Counts) -> None:
    if len(edges) < 2 or not all(low < high for low, high in itertools.pairwise(edges)):
        raise ValueError("the edges of a histogram do not increase")
    if not -10 * LARGEST < edges[0] < edges[-1] < 10 * LARGEST:
        raise ValueError("the edges of a histogram are not finite")
    if len(counts.inside) != len(edges) - 1:
        raise ValueError(f"a histogram has {len(counts.inside)} counts for {len(edges) - 1} bins")


def _array(tensor: "Tensor") -> Array:
    return tensor.detach().cpu().double().numpy()


def _columns(schema: TableSchema, rows: Array, record: FileRecord) -> tuple[ColumnSummary, ...]:
    used = {column.name: index for index, column in enumerate(schema.used)}
    read = max(record.sampled_rows or record.rows, 1)
    columns = []
    for column, (name, _, details, missing) in zip(schema.columns, schema.summary(), strict=True):
        share, codes, kind = missing / read, 0, TYPES[type(column)]
        if name in used:
            values = rows[:, used[name]]
            present = values[~np.isnan(values)]
            share = float(np.isnan(values).mean())
            codes = _possible_codes(column, present)
            if isinstance(column, Numeric) and len(present):
                details = ", ".join(
                    filter(None, [_range(present, is_integer=column.integer), details])
                )
        columns.append(ColumnSummary(name, kind, details, share, name in used, codes))
    return tuple(columns)


def _range(values: Array, *, is_integer: bool) -> str:
    low, high = values.min(), values.max()
    return f"{low:.10g} to {high:.10g}" if is_integer else f"{low:.6g} to {high:.6g}"


def _possible_codes(column: Column, present: Array) -> int:
    """Return the number of different integers of a column if they may be codes, otherwise 0."""
    if not isinstance(column, Numeric) or not column.integer:
        return 0
    different = len(np.unique(present))
    words = re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", column.name).lower())
    has_name = not CODE_NAMES.isdisjoint(words) and 2 * different <= len(present)
    return different if different <= CODE_VALUES or has_name else 0


def _distance(column: Column, rows: Array, drawn: Array) -> float | None:
    if isinstance(column, Categorical):
        return total_variation(rows, drawn)
    return kolmogorov_distance(rows, drawn)


def _column_histogram(
    column: Column, rows: Array, drawn: Array, distance: float | None
) -> ColumnHistogram:
    labels: Sequence[str] = ()
    edges: Sequence[float] | Array
    if isinstance(column, Categorical):
        labels, edges = _levels(column)
    elif isinstance(column, Numeric) and column.levels is not None:
        levels = np.asarray(column.levels)
        labels = [f"{level:.10g}" for level in levels]
        edges = np.array([-np.inf, *(levels[1:] / 2 + levels[:-1] / 2), np.inf])
    else:
        is_integer = isinstance(column, Numeric) and column.integer
        edges = _bins(rows[~np.isnan(rows)], is_integer=is_integer)
    return ColumnHistogram(
        column.name,
        () if labels else tuple(map(float, edges)),
        tuple(labels),
        isinstance(column, DateTime),
        count_in_bins(rows, edges),
        count_in_bins(drawn, edges),
        distance,
    )


def _levels(column: Categorical) -> tuple[Sequence[str], Sequence[float]]:
    """Return the labels and edges of categories. The rarest are counted together."""
    labels, count = column.levels, len(column.levels)
    edges = [level - 0.5 for level in range(count + 1)]
    if count <= MAX_LEVELS:
        return labels, edges
    alone = MAX_LEVELS - 1
    return [*labels[:alone], f"{count - alone} others"], [*edges[: alone + 1], edges[-1]]


def _bins(values: Array, *, is_integer: bool) -> Array:
    """Return edges of bins, one of them on either side of the range of the training rows."""
    low, high = robust_range(values)
    width = (high - low) / (BINS - 2)
    if is_integer:
        width, low = max(1.0, math.ceil(width)), math.floor(low) - 0.5
    count = math.ceil((high - low) / width - 1e-9)
    return np.unique(low + width * np.arange(-1.0, count + 2))


def _correlations(schema: TableSchema, rows: Array, drawn: Array) -> Correlations | None:
    """Return the correlations of the columns with the strongest correlations."""
    counted = [index for index, levels in enumerate(schema.num_levels) if levels in {0, 2}]
    data = correlation(rows[:, counted])
    strongest = np.nan_to_num(np.abs(data - np.eye(len(data)))).max(0, initial=0.0)
    kept = np.sort(np.argsort(-strongest, kind="stable")[:MAX_CORRELATIONS])
    if len(kept) < 2:
        return None
    columns = [counted[index] for index in kept]
    return Correlations(
        tuple(schema.used[column].name for column in columns),
        _matrix(data[np.ix_(kept, kept)]),
        _matrix(correlation(drawn[:, columns])),
        len(counted) - len(kept),
    )


def _matrix(matrix: Array) -> tuple[tuple[float | None, ...], ...]:
    return tuple(
        tuple(None if math.isnan(value) else value for value in row) for row in matrix.tolist()
    )
