"""What the page shows of a run on a table: sentences, tables and plots."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...measurement import format_number
from ...serialize import Json
from paper.report.format import DASH, typeset
from paper.report.records import real, text
from .records import (
    Calibration,
    Column,
    Correlations,
    Outlier,
    Reason,
    ScoredRecord,
    TableRecord,
)

if TYPE_CHECKING:
    from paper.report.plots import Plot

    Drawn = tuple[Plot, str]
    """A plot and its SVG element."""

OPEN_COLUMNS = 20
"""Lists of more columns are folded."""


@dataclass(frozen=True)
class ScoredContent:
    """A scored file.

    Attributes:
        record: Its scores.
        summary: Number of rows and of flagged rows, as a sentence.
        plots: Plots of the scores.
        fdr: False discovery rate as text. Empty if it is not known.
        outliers: Rows with the highest scores.
    """

    record: ScoredRecord
    summary: str
    plots: "Sequence[Drawn]"
    fdr: str
    outliers: "tuple[OutlierRow, ...]"


@dataclass(frozen=True)
class OutlierRow:
    """A row of the table of outliers, as text."""

    row: str
    score: str
    p_value: str
    flagged: bool
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class TableContent:
    """The part of the page on one run on a table.

    Attributes:
        label: Name of the run, if there are several.
        record: Content of `table.json`.
        columns: Sentence on the columns.
        scores: Plots of the scores of training and held-out rows. Empty if there are scored files.
        scored: The scored files.
        calibration: Sentence and plots on the p-values.
        samples: Sentence on samples.
        histograms: How to read the plots of the columns, and the plots.
        correlations: Sentence and plots on correlations.
    """

    label: str
    record: TableRecord
    columns: str
    scores: "Sequence[Drawn]"
    scored: tuple[ScoredContent, ...]
    calibration: "tuple[str, Sequence[Drawn]]"
    samples: str
    histograms: "tuple[str, Sequence[Drawn]]"
    correlations: "tuple[str, Sequence[Drawn]]"

    @property
    def are_columns_folded(self) -> bool:
        """Whether the list of columns is folded at first."""
        return len(self.record.columns) > OPEN_COLUMNS


def table_content(
    table: TableRecord, files: Sequence[ScoredRecord], label: str, salt: str
) -> TableContent:
    """Return the part of the page on a run on a table.

    Args:
        table: Content of `table.json`.
        files: The scored files.
        label: Name of the run, if there are several.
        salt: A text that is unique on the page.

    Returns:
        The content.
    """
    from paper.report.plots import svg_element
    from .plots import plot_calibration, plot_column, plot_correlations, plot_scores

    def draw(name: str, plots: "Sequence[Plot]") -> "list[Drawn]":
        salted = enumerate(plots)
        return [(plot, svg_element(plot.figure, f"{salt} {name} {i}")) for i, plot in salted]

    scored = tuple(
        ScoredContent(
            file,
            scored_sentence(file),
            draw(f"scored {index}", plot_scores(table, file)),
            _rate(file.fdr),
            tuple(map(_outlier_row, file.top)),
        )
        for index, file in enumerate(files)
    )
    correlations = table.correlations
    return TableContent(
        label,
        table,
        columns_sentence(table.columns),
        [] if scored else draw("scores", plot_scores(table)),
        scored,
        (
            calibration_sentence(table.calibration),
            draw("calibration", [plot_calibration(table.calibration)]),
        ),
        samples_sentence(table),
        (
            histograms_caption(table),
            draw("columns", [plot_column(histogram) for histogram in table.histograms]),
        ),
        ("", [])
        if correlations is None
        else (
            correlations_sentence(correlations),
            draw("correlations", plot_correlations(correlations)),
        ),
    )


def columns_sentence(columns: Sequence[Column]) -> str:
    """Return how many columns of each type are used, and how many are not.

    Args:
        columns: The columns.

    Returns:
        The sentence.

    Example:
        >>> column = Column("a", "numeric", "", 0.0, True)
        >>> columns_sentence([column, column, Column("id", "identifier", "", 0.0, False)])
        'The model uses 2 of 3 columns: 2 numeric. Not used: 1 identifier.'
    """
    used = Counter(column.type for column in columns if column.used)
    others = Counter(column.type for column in columns if not column.used)

    def listed(counter: Counter[str]) -> str:
        return ", ".join(f"{count:,} {name}" for name, count in counter.items())

    sentence = f"The model uses {used.total():,} of {len(columns):,} columns: {listed(used)}."
    return f"{sentence} Not used: {listed(others)}." if others else sentence


def scored_sentence(scored: ScoredRecord) -> str:
    """Return the number of rows of a scored file, and how many are flagged."""
    rows = f"{scored.rows:,} row{'' if scored.rows == 1 else 's'}"
    flagged = f"{rows}, {scored.flagged:,} flagged"
    rate = _rate(scored.fdr)
    return f"{flagged} at a false discovery rate of {rate}." if rate else f"{flagged}."


def _rate(fdr: float) -> str:
    return "" if math.isnan(fdr) else f"{100 * fdr:g} %"


def calibration_sentence(calibration: Calibration) -> str:
    """Return how many p-values lie in the first bin, and how many bins are outside their range.

    Args:
        calibration: Counts of p-values.

    Returns:
        The sentences.

    Example:
        >>> print(calibration_sentence(Calibration((4.0, 12.0, 9.0, 15.0), 10.0, 5.0, 15.0)))
        4 of 40 held-out rows (10 %) have a p-value of at most 0.25; 25 % are expected.
        1 of 4 bins is outside the range of 95 %.
    """
    counts, bins = calibration.counts, len(calibration.counts)
    total, width = sum(counts), 1 / bins
    outside = sum(not calibration.low <= count <= calibration.high for count in counts)
    share = f" ({100 * counts[0] / total:.2g} %)" if total else ""
    return (
        f"{counts[0]:,.0f} of {total:,.0f} held-out rows{share} have a p-value of at most "
        f"{width:g}; {100 * width:g} % are expected.\n"
        f"{outside} of {bins} bins {'is' if outside == 1 else 'are'} outside the range of 95 %."
    )


def samples_sentence(table: TableRecord) -> str:
    """Return how well a classifier separates samples from data, if that was measured."""
    if math.isnan(table.sample_auc):
        return ""
    return (
        "A classifier that separates samples from training rows has an AUC of "
        f"{table.sample_auc:.2f}. 0.5 or less means that it cannot separate them, and 1 that it "
        "always can."
    )


def histograms_caption(table: TableRecord) -> str:
    """Return how to read the plots of the columns."""
    parts = ["Share of rows in each bin or level."]
    if table.rows.get("samples"):
        parts.append(
            "The line should follow the filled area. The distance is 0 for equal distributions "
            "and 1 for disjoint ones."
        )
        if not all(math.isnan(histogram.held_out_distance) for histogram in table.histograms):
            parts.append("That of held-out rows shows how much chance alone contributes.")
    if table.histograms_left_out:
        parts.append(
            f"Shown are the {len(table.histograms)} columns whose samples differ most; "
            f"{table.histograms_left_out:,} are left out."
        )
    return " ".join(parts)


def correlations_sentence(correlations: Correlations) -> str:
    """Return the pair of columns whose correlation in samples differs most from that in the data.

    Args:
        correlations: The matrices.

    Returns:
        The sentence. Empty if there are no samples.
    """
    if correlations.samples is None:
        return ""
    names, samples = correlations.columns, correlations.samples
    pairs = [
        (abs(value - samples[i][j]), i, j)
        for i, row in enumerate(correlations.data)
        for j, value in enumerate(row[:i])
        if not math.isnan(value - samples[i][j])
    ]
    if not pairs:
        return ""
    _, i, j = max(pairs)
    in_data, in_samples = (
        typeset(f"{matrix[i][j]:.2f}") for matrix in (correlations.data, samples)
    )
    return (
        f"Largest difference: {names[j]} and {names[i]} have a correlation of {in_data} in the "
        f"training rows and {in_samples} in the samples."
    )


def _outlier_row(outlier: Outlier) -> OutlierRow:
    return OutlierRow(
        outlier.row,
        _number(outlier.score),
        _number(outlier.p_value),
        outlier.flagged,
        tuple(map(reason_sentence, outlier.reasons)),
    )


def reason_sentence(reason: Reason) -> str:
    """Return a reason as a sentence.

    Args:
        reason: The reason.

    Returns:
        The column, its value, the expected value, and the share of the score.

    Example:
        >>> reason_sentence(Reason("alcohol", 2.1, 10.4, 0.62))
        'alcohol is 2.1; expected about 10.4 (62 %)'
        >>> reason_sentence(Reason("zip", "94105", 10001.0, math.nan))
        'zip is 94105; expected about 10001'
        >>> reason_sentence(Reason("price", 7.03, 6.99, math.nan, is_new=True))
        'price is 7.03, a new value; expected about 6.99'
        >>> reason_sentence(Reason("region", "north", "south", math.nan))
        'region is north; expected south'
        >>> reason_sentence(Reason("unit", "'kPa' does not occur in training", None, 1.0))
        "unit: 'kPa' does not occur in training"
    """
    value = "missing" if reason.value is None else _value(reason.value)
    if reason.expected is None and reason.value is not None:
        return f"{reason.column}: {value}"
    new = ", a new value" if reason.is_new else ""
    sentence = f"{reason.column} is {value}{new}"
    if reason.expected is not None:
        about = "" if isinstance(reason.expected, str) else "about "
        sentence += f"; expected {about}{_value(reason.expected)}"
    return sentence if math.isnan(reason.share) else f"{sentence} ({100 * reason.share:.0f} %)"


def _value(value: Json) -> str:
    """Return a value as it is in the file of scores: numbers with all digits, no separators."""
    number = real(value)
    return np.format_float_positional(number, trim="-") if math.isfinite(number) else text(value)


def _number(value: float) -> str:
    return DASH if math.isnan(value) else typeset(format_number(value))
