"""Sentences of the page of a model."""

from dataclasses import replace

import pytest

from fdsm.tables.report.sentences import (
    columns_sentence,
    correlations_sentence,
    facts,
    format_time,
    histograms_caption,
    number,
    p_values_sentence,
    samples_sentence,
    scored_sentence,
)
from fdsm.tables.summary import Correlations, FileRecord, PValueCounts

from .summary_cases import SCORED, SUMMARY, summary


def test_facts_are_those_of_the_file_and_the_training() -> None:
    shown = facts(SUMMARY)
    assert shown["data"] == (
        "measurements.csv: 1,320 rows, 3 columns. 3 rows without any value were left out. "
        "20 rows are copies of other rows and were left out."
    )
    assert shown["training"] == "2,000 iterations in 7.25 s, 12,345 parameters, seed 3"
    assert shown["started (UTC)"] == "16 November 2026, 01:02"
    assert shown["versions"] == "fdsm 0.3.0, torch 2.13.0"
    sampled = facts(summary(file=FileRecord("a frame", 50, equal_rows=7, sampled_rows=50)))
    assert sampled["data"].startswith(
        "a frame: 50 rows, 3 columns. A random sample of 50 rows was read. 7 rows equal another"
    )
    assert "sha256" not in sampled


def test_other_texts_than_times_are_kept() -> None:
    assert format_time("yesterday") == "yesterday"


def test_columns_are_counted_by_type() -> None:
    assert columns_sentence(SUMMARY.columns) == (
        "The model uses 2 of 3 columns: 1 numeric, 1 categorical. Not used: 1 identifier."
    )


def test_flagged_rows_are_counted() -> None:
    assert scored_sentence(SCORED) == (
        "9 rows, 2 flagged at a false discovery rate of 10 %, 1 not scored because they cannot be "
        "read."
    )
    assert scored_sentence(replace(SCORED, fdr=None, rows=1, not_scored=0)) == "1 row, 2 flagged."


def test_p_values_of_the_first_bin_and_bins_outside_the_range_are_counted() -> None:
    assert p_values_sentence(PValueCounts((10, *[5] * 18, 0), 5.0, 1, 9)) == (
        "10 of 100 held-out rows (10 %) have a p-value of at most 0.05; 5 % are expected. "
        "2 of 20 bins are outside the range of 95 %."
    )


def test_the_largest_difference_of_correlations_is_named() -> None:
    correlations = SUMMARY.correlations
    assert correlations is not None
    assert correlations_sentence(correlations) == (
        "Largest difference: alcohol and region have a correlation of −0.25 in the training rows "
        "and 0.50 in the samples."
    )
    unknown = ((None, None), (None, None))
    assert correlations_sentence(Correlations(("a", "b"), unknown, unknown, 0)) == ""


def test_the_auc_is_explained_if_it_was_measured() -> None:
    sentence = samples_sentence(0.41)
    assert "an AUC of 0.41. 0.5 or less means that it cannot separate them" in sentence
    assert samples_sentence(None) == ""


def test_the_caption_of_columns_explains_only_what_is_shown() -> None:
    assert histograms_caption(SUMMARY).endswith("1 for disjoint ones.")
    assert histograms_caption(summary(samples=0)) == "Share of rows in each bin or level."
    assert histograms_caption(summary(histograms_left_out=1234)).endswith(
        "the 2 columns whose samples differ most; 1,234 are left out."
    )


@pytest.mark.parametrize(
    ("value", "text"), [(1234.5, "1,234"), (0.00002, "2 × 10⁻⁵"), (float("nan"), "–")]
)
def test_scores_have_four_digits(value: float, text: str) -> None:
    assert number(value) == text
