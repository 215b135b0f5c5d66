"""Sentences about a model, for its page and for the terminal."""

import re
import shlex
from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np

from ..comparison import Comparison
from ..schema import copies_sentence
from ..summary import (
    UNUSUAL_P,
    ColumnSummary,
    Correlations,
    PValueCounts,
    ScoredFile,
    Summary,
)
from .labels import typeset

HARDLY, PARTLY = 0.6, 0.8
"""Largest AUC of a classifier that can hardly, or partly, tell samples from rows."""
TOLERANCE = 0.01
"""A share of p-values that is off by at most this much is in order in any case."""
NAMED_COLUMNS = 5
"""Largest number of columns that are named as frequent reasons."""


def counted(number: int, noun: str) -> str:
    """Return a number with a noun.

    Example:
        >>> counted(1, "row"), counted(1261, "row")
        ('1 row', '1,261 rows')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def joined(names: Sequence[str]) -> str:
    """Return names as a list in a sentence.

    Example:
        >>> joined(["a"]), joined(["a", "b", "c"])
        ('a', 'a, b and c')
    """
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def table_sentence(summary: Summary) -> str:
    """Return the size of the table, the share of missing cells, and which rows were left out."""
    file = summary.file
    parts = [f"{counted(file.rows, 'row')}, {counted(len(summary.columns), 'column')}"]
    shares = [column.missing for column in summary.columns if column.used]
    if missing := 100 * sum(shares) / max(len(shares), 1):
        parts.append(f"{missing:.2g} % of the cells are missing")
    if file.sampled_rows is not None:
        parts.append(f"The model uses a random sample of {counted(file.sampled_rows, 'row')}")
    if file.dropped_rows:
        were = "was" if file.dropped_rows == 1 else "were"
        parts.append(f"{counted(file.dropped_rows, 'row')} without any value {were} left out")
    copies = copies_sentence(file.copies, file.equal_rows)
    return ". ".join(filter(None, [*parts, copies])) + "."


def columns_by_type(columns: Sequence[ColumnSummary]) -> dict[str, list[str]]:
    """Return the names of all columns by type. Columns that are not used have their reason.

    Example:
        >>> columns = [ColumnSummary("a", "numeric", "", 0.0, True)]
        >>> columns_by_type([*columns, ColumnSummary("id", "identifier", "unique", 0.0, False)])
        {'numeric': ['a'], 'not used': ['id (unique)']}
    """
    names: dict[str, list[str]] = {kind: [] for kind in ("numeric", "categorical", "date")}
    names |= {"constant": [], "not used": []}
    for column in columns:
        if column.used or column.type == "constant":
            names[column.type].append(column.name)
        else:
            names["not used"].append(f"{column.name} ({column.details})")
    return {kind: listed for kind, listed in names.items() if listed}


def codes_sentence(columns: Sequence[ColumnSummary]) -> str:
    """Return which numeric columns may hold codes, and what to do. Empty if there are none.

    Example:
        >>> codes_sentence([ColumnSummary("sex", "numeric", "", 0.0, True, possible_codes=2)])
        'sex has 2 different values and is taken as numeric. If these are codes: --categorical sex'
    """
    likely = [column for column in columns if column.possible_codes]
    if not likely:
        return ""
    option = shlex.quote(",".join(column.name for column in likely))
    if len(likely) == 1:
        (column,) = likely
        taken = f"{column.name} has {counted(column.possible_codes, 'different value')} and is"
    else:
        first, *others = likely
        named = [f"{first.name} ({first.possible_codes:,} different values)"]
        named += [f"{column.name} ({column.possible_codes:,})" for column in others]
        taken = f"{joined(named)} are"
    return f"{taken} taken as numeric. If these are codes: --categorical {option}"


def unusual_sentence(summary: Summary) -> str:
    """Return how many training rows have small p-values, and the columns in their reasons."""
    total = sum(summary.p_values.counts)
    if total * UNUSUAL_P < 1:
        return (
            f"{counted(total, 'training row')} are too few for p-values below {UNUSUAL_P:g}. "
            "The order of the scores has no such limit."
        )
    sentence = (
        f"{summary.unusual_rows:,} of {counted(total, 'training row')} "
        f"{'has' if summary.unusual_rows == 1 else 'have'} a p-value below {UNUSUAL_P:g}; in "
        f"any table about {100 * UNUSUAL_P:g} % do."
    )
    if summary.unusual_columns:
        named = [f"{name} ({rows:,})" for name, rows in summary.unusual_columns[:NAMED_COLUMNS]]
        sentence += (
            f" Columns in their reasons, with the number of rows: {joined(named)}. To see the "
            "rows, score the training table."
        )
    return sentence


def trust(summary: Summary) -> dict[str, str]:
    """Return whether p-values, density and samples can be trusted, as far as it was measured."""
    shown = {
        "p-values": p_values_sentence(summary.p_values),
        "density": "" if summary.comparison is None else density_sentence(summary.comparison),
        "samples": "" if summary.sample_auc is None else samples_sentence(summary.sample_auc),
    }
    return {name: text for name, text in shown.items() if text}


def p_values_sentence(p_values: PValueCounts) -> str:
    """Return how many p-values of held-out rows lie in the first bin, and what this means."""
    first, total, level = p_values.counts[0], sum(p_values.counts), 1 / len(p_values.counts)
    if not total:
        return ""
    share = first / total
    if p_values.low <= first <= p_values.high or abs(share - level) <= TOLERANCE:
        verdict = "So the p-values of new rows like these can be trusted."
    elif share > level:
        verdict = "So p-values are too small, and more normal rows are flagged than should be."
    else:
        verdict = "So p-values are too large, and fewer rows are flagged than could be."
    return (
        f"{100 * share:.1f} % of the training rows that were held out have a p-value of at most "
        f"{level:g}; {100 * level:g} % would be perfect. {verdict}"
    )


def density_sentence(comparison: Comparison) -> str:
    """Return how the density compares with references, and what it means for the scores."""
    verdicts: dict[str, list[str]] = {}
    for reference in comparison.references:
        verdict = "better than" if comparison.loss.value < reference.loss.value else "similar to"
        verdict = "worse than" if reference.is_better else verdict
        verdicts.setdefault(verdict, []).append(f"a {reference.name}")
    words = joined([f"{verdict} {joined(names)}" for verdict, names in verdicts.items()])
    sentence = f"On held-out rows it is {words}."
    if "worse than" in verdicts:
        sentence += (
            " The scores still work, because most of their order comes from distances between "
            "rows. Do not rely on log_density."
        )
    return sentence


def samples_sentence(sample_auc: float) -> str:
    """Return how well a classifier tells samples from rows.

    Example:
        >>> samples_sentence(0.7)
        'A classifier can partly tell samples from rows (AUC 0.70; 0.5 means not at all).'
        >>> samples_sentence(0.32)
        'A classifier cannot tell samples from rows.'
    """
    if sample_auc <= 0.5:
        return "A classifier cannot tell samples from rows."
    degree = "hardly" if sample_auc <= HARDLY else "partly" if sample_auc <= PARTLY else "easily"
    auc = f"AUC {sample_auc:.2f}; 0.5 means not at all"
    return f"A classifier can {degree} tell samples from rows ({auc})."


def technical_details(summary: Summary) -> dict[str, str]:
    """Return the training, the file and the versions, as text by name."""
    training = summary.training
    shown = {
        "objective": training.objective,
        "training": f"{counted(training.iterations, 'iteration')} in "
        f"{format_duration(training.seconds)}, {training.parameters:,} parameters, "
        f"seed {training.seed}",
        "started (UTC)": format_time(training.time),
        "versions": f"fdsm {training.fdsm_version}, torch {training.torch_version}",
        "sha256": summary.file.sha256,
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


def format_p_value(value: float) -> str:
    """Return a p-value with two digits.

    Example:
        >>> format_p_value(0.00066622), format_p_value(0.25)
        ('0.00067', '0.25')
    """
    return np.format_float_positional(value, 2, fractional=False, trim="-")


def scored_sentence(scored: ScoredFile) -> str:
    """Return the number of rows of a scored file, and how many are flagged or not scored."""
    flagged = f"{scored.flagged:,}" if scored.flagged else "none"
    sentence = f"{counted(scored.rows, 'row')}, {flagged} flagged."
    if shown := len(scored.flagged_rows):
        sentence += f" Shown are the {shown} highest." if shown < scored.flagged else ""
    if scored.not_scored:
        sentence += f" {counted(scored.not_scored, 'row')} cannot be read and "
        sentence += "has no score." if scored.not_scored == 1 else "have no score."
    return sentence


def named_columns(reasons: str, columns: Sequence[str]) -> set[str]:
    """Return the columns that reasons begin with, alone or several together.

    Example:
        >>> reasons = "x is 3 (expected about 2); unit: 'kg' is new; y and z are 0"
        >>> sorted(named_columns(reasons, ["unit", "x", "x is", "y", "z", "w"]))
        ['unit', 'x', 'y', 'z']
    """
    if not columns:
        return set()
    names = "|".join(map(re.escape, sorted(columns, key=len, reverse=True)))
    one = rf"(?:column )?(?:{names})"
    found: set[str] = set()
    for match in re.finditer(rf"(?:^|; )({one}(?:(?:, | and ){one})*)(?= is |: | are )", reasons):
        found.update(re.findall(rf"(?:^|, | and )(?:column )?({names})(?=, | and |$)", match[1]))
    return found


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
