"""Sentences of the page of a model."""

import math
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

from ...measurement import format_number
from ..schema import copies_sentence
from ..summary import ColumnSummary, Correlations, PValueCounts, ScoredFile, Summary
from .labels import typeset

DASH = "–"
"""Text of a number that is not known."""


def facts(summary: Summary) -> dict[str, str]:
    """Return the data, the training and the versions, as text by name."""
    file, training = summary.file, summary.training
    data = [f"{file.name}: {file.rows:,} rows, {len(summary.columns):,} columns."]
    if file.sampled_rows:
        data.append(f"A random sample of {file.sampled_rows:,} rows was read.")
    if file.dropped_rows:
        data.append(f"{file.dropped_rows:,} rows without any value were left out.")
    if copies := copies_sentence(file.copies, file.equal_rows):
        data.append(f"{copies}.")
    shown = {
        "data": " ".join(data),
        "sha256": file.sha256,
        "objective": training.objective,
        "training": f"{training.iterations:,} iterations in {format_duration(training.seconds)}, "
        f"{training.parameters:,} parameters, seed {training.seed}",
        "started (UTC)": format_time(training.time),
        "versions": f"fdsm {training.fdsm_version}, torch {training.torch_version}",
    }
    return {name: value for name, value in shown.items() if value}


def format_duration(seconds: float) -> str:
    """Return a duration in seconds, minutes or hours.

    Example:
        >>> format_duration(36.94), format_duration(754.0), format_duration(100_000.0)
        ('36.9 s', '12.6 min', '27.8 h')
    """
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:,.1f} h"


def format_time(time: str) -> str:
    """Return a time in UTC as text. Text that is not a time is returned unchanged.

    Example:
        >>> format_time("2026-11-16T01:02:03+00:00")
        '16 November 2026, 01:02'
    """
    try:
        parsed = datetime.fromisoformat(time)
    except ValueError:
        return time
    parsed = parsed.astimezone(UTC) if parsed.tzinfo else parsed
    return f"{parsed.day} {parsed:%B %Y, %H:%M}"


def number(value: float) -> str:
    """Return a score or p-value as text. NaN is a dash."""
    return DASH if math.isnan(value) else typeset(format_number(value))


def columns_sentence(columns: Sequence[ColumnSummary]) -> str:
    """Return how many columns of each type are used, and how many are not.

    Example:
        >>> column = ColumnSummary("a", "numeric", "", 0.0, True)
        >>> columns_sentence([column, column, ColumnSummary("id", "identifier", "", 0.0, False)])
        'The model uses 2 of 3 columns: 2 numeric. Not used: 1 identifier.'
    """
    used = Counter(column.type for column in columns if column.used)
    others = Counter(column.type for column in columns if not column.used)

    def listed(counter: Counter[str]) -> str:
        return ", ".join(f"{count:,} {name}" for name, count in counter.items())

    sentence = f"The model uses {used.total():,} of {len(columns):,} columns: {listed(used)}."
    return f"{sentence} Not used: {listed(others)}." if others else sentence


def scored_sentence(scored: ScoredFile) -> str:
    """Return the number of rows of a scored file, and how many are flagged or not scored."""
    sentence = f"{scored.rows:,} row{'' if scored.rows == 1 else 's'}, {scored.flagged:,} flagged"
    if scored.fdr is not None:
        sentence += f" at a false discovery rate of {100 * scored.fdr:g} %"
    if scored.not_scored:
        sentence += f", {scored.not_scored:,} not scored because they cannot be read"
    return f"{sentence}."


def p_values_sentence(p_values: PValueCounts) -> str:
    """Return how many p-values lie in the first bin, and how many bins are unusual."""
    counts, bins = p_values.counts, len(p_values.counts)
    total, width = sum(counts), 1 / bins
    outside = sum(not p_values.low <= count <= p_values.high for count in counts)
    share = f" ({100 * counts[0] / total:.2g} %)" if total else ""
    return (
        f"{counts[0]:,} of {total:,} held-out rows{share} have a p-value of at most {width:g}; "
        f"{100 * width:g} % are expected. {outside} of {bins} bins "
        f"{'is' if outside == 1 else 'are'} outside the range of 95 %."
    )


def samples_sentence(sample_auc: float | None) -> str:
    """Return how well a classifier separates samples from data, if that was measured."""
    if sample_auc is None:
        return ""
    return (
        "A classifier that separates samples from training rows has an AUC of "
        f"{sample_auc:.2f}. 0.5 or less means that it cannot separate them, and 1 that it always "
        "can."
    )


def histograms_caption(summary: Summary) -> str:
    """Return how to read the plots of the columns."""
    parts = ["Share of rows in each bin or level."]
    if summary.samples:
        parts.append(
            "The line should follow the filled area. The distance is 0 for equal distributions "
            "and 1 for disjoint ones."
        )
    if summary.histograms_left_out:
        parts.append(
            f"Shown are the {len(summary.histograms)} columns whose samples differ most; "
            f"{summary.histograms_left_out:,} are left out."
        )
    return " ".join(parts)


def correlations_sentence(correlations: Correlations) -> str:
    """Return the pair of columns whose correlation in samples differs most from that in the data.

    Args:
        correlations: The matrices.

    Returns:
        The sentence. Empty if no correlation of samples is known.
    """
    names = correlations.columns
    matrices = zip(correlations.data, correlations.samples, strict=True)
    pairs = [
        (abs(in_data - in_samples), i, j, in_data, in_samples)
        for i, rows in enumerate(matrices)
        for j, (in_data, in_samples) in enumerate(zip(*rows, strict=True))
        if j < i and in_data is not None and in_samples is not None
    ]
    if not pairs:
        return ""
    _, i, j, in_data, in_samples = max(pairs)
    return (
        f"Largest difference: {names[j]} and {names[i]} have a correlation of "
        f"{typeset(f'{in_data:.2f}')} in the training rows and {typeset(f'{in_samples:.2f}')} in "
        "the samples."
    )
