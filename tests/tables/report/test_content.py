"""Sentences on runs on tables."""

import math

import pytest

from fdsm.tables.report.content import (
    calibration_sentence,
    columns_sentence,
    correlations_sentence,
    histograms_caption,
    reason_sentence,
    samples_sentence,
    scored_sentence,
    table_content,
)
from fdsm.tables.report.records import (
    Calibration,
    Correlations,
    Reason,
    scored_from_json,
    table_from_json,
)

from .table_cases import SCORED, TABLE, changed


def test_columns_are_counted_by_type() -> None:
    assert columns_sentence(table_from_json(TABLE).columns) == (
        "The model uses 2 of 3 columns: 1 numeric, 1 categorical. Not used: 1 identifier."
    )


@pytest.mark.parametrize(
    ("value", "expected", "share", "sentence"),
    [
        (2.1, 10.4, 0.62, "x is 2.1; expected about 10.4 (62 %)"),
        (-2.5, 1234.5678, math.nan, "x is -2.5; expected about 1234.5678"),
        (123456, 120000, 0.5, "x is 123456; expected about 120000 (50 %)"),
        ("94105", 10001.0, math.nan, "x is 94105; expected about 10001"),
        ("0.00002", 0.00001, math.nan, "x is 0.00002; expected about 0.00001"),
        ("007", "008", math.nan, "x is 007; expected 008"),
        ("a-b", "c", 0.004, "x is a-b; expected c (0 %)"),
        (None, 3.0, math.nan, "x is missing; expected about 3"),
        ("kg", None, math.nan, "x: kg"),
        (True, "no", math.nan, "x is yes; expected no"),
    ],
)
def test_reasons_are_sentences(
    value: object, expected: object, share: float, sentence: str
) -> None:
    assert reason_sentence(Reason("x", value, expected, share)) == sentence  # type: ignore[arg-type]


def test_flagged_rows_are_counted() -> None:
    known = scored_from_json(SCORED)
    assert scored_sentence(known) == "8 rows, 2 flagged at a false discovery rate of 10 %."
    unknown = scored_from_json(changed(changed(SCORED, "fdr", None), "rows", 1))
    assert scored_sentence(unknown) == "1 row, 2 flagged."


def test_calibration_counts_the_first_bin_and_the_bins_outside_the_range() -> None:
    sentence = calibration_sentence(Calibration((10.0, *[5.0] * 18, 0.0), 5.0, 1.0, 9.0))
    assert sentence.startswith(
        "10 of 100 held-out rows (10 %) have a p-value of at most 0.05; 5 % are expected."
    )
    assert sentence.endswith("2 of 20 bins are outside the range of 95 %.")


def test_the_largest_difference_of_correlations_is_named() -> None:
    correlations = table_from_json(TABLE).correlations
    assert correlations is not None
    assert correlations_sentence(correlations) == (
        "Largest difference: alcohol and region have a correlation of −0.25 in the training rows "
        "and 0.50 in the samples."
    )
    without = Correlations(correlations.columns, correlations.data, None, 0)
    assert correlations_sentence(without) == ""
    unknown = ((math.nan, math.nan), (math.nan, math.nan))
    assert correlations_sentence(Correlations(("a", "b"), unknown, unknown, 0)) == ""


def test_the_auc_is_only_mentioned_if_it_was_measured() -> None:
    assert "an AUC of 0.62" in samples_sentence(table_from_json(TABLE))
    assert samples_sentence(table_from_json(changed(TABLE, "sample_auc", None))) == ""


def test_an_auc_below_one_half_is_explained() -> None:
    sentence = samples_sentence(table_from_json(changed(TABLE, "sample_auc", 0.41)))
    assert "an AUC of 0.41. 0.5 or less means that it cannot separate them" in sentence


def test_the_caption_of_columns_explains_only_what_is_shown() -> None:
    assert "chance" in histograms_caption(table_from_json(TABLE))
    alone = changed(TABLE, "histograms.0.held_out_distance", None)
    assert histograms_caption(table_from_json(alone)).endswith("1 for disjoint ones.")
    unsampled = changed(alone, "rows.samples", 0)
    assert histograms_caption(table_from_json(unsampled)) == "Share of rows in each bin or level."
    many = histograms_caption(table_from_json(changed(TABLE, "histograms_left_out", 1234)))
    assert many.endswith("the 2 columns whose samples differ most; 1,234 are left out.")


def test_scores_of_known_rows_are_drawn_once() -> None:
    table = table_from_json(TABLE)
    alone = table_content(table, (), "", "s")
    assert (len(alone.scores), alone.scored) == (2, ())
    beside = table_content(table, [scored_from_json(SCORED)], "", "s")
    assert beside.scores == []
    (scored,) = beside.scored
    assert len(scored.plots) == 2
    first = scored.outliers[0]
    assert (first.row, first.score, first.p_value) == ("7", "1,234", "0.2")
    assert scored.fdr == "10 %"
    assert first.reasons == (
        "alcohol is 2.1; expected about 10.4 (62 %)", "region is east; expected north (20 %)",
    )  # fmt: skip


def test_without_correlations_there_are_no_plots_of_them() -> None:
    content = table_content(table_from_json(changed(TABLE, "correlations", None)), (), "", "s")
    assert content.correlations == ("", [])
