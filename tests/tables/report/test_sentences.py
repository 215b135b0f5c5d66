"""Sentences about a model."""

from dataclasses import replace

import pytest

from fdsm.tables.report.sentences import (
    codes_sentence,
    columns_by_type,
    correlations_sentence,
    density_sentence,
    format_p_value,
    format_time,
    histograms_caption,
    named_columns,
    p_values_sentence,
    samples_sentence,
    scored_sentence,
    table_sentence,
    technical_details,
    trust,
    unusual_sentence,
)
from fdsm.tables.summary import ColumnSummary, Correlations, FileRecord, PValueCounts

from .summary_cases import SCORED, SUMMARY, summary


def test_the_table_is_described_with_what_was_left_out() -> None:
    assert table_sentence(SUMMARY) == (
        "1,320 rows, 3 columns. 5 % of the cells are missing. 3 rows without any value were left "
        "out. 20 rows are copies of other rows and were left out."
    )
    complete = (replace(SUMMARY.columns[1], name="a"),)
    sampled = FileRecord("a frame", 50, dropped_rows=1, equal_rows=7, sampled_rows=50)
    assert table_sentence(summary(file=sampled, columns=complete)).startswith(
        "50 rows, 1 column. The model uses a random sample of 50 rows. 1 row without any value "
        "was left out. 7 rows equal another row."
    )
    assert table_sentence(summary(file=FileRecord("a", 1), columns=complete)) == "1 row, 1 column."


def test_all_columns_are_listed_by_type() -> None:
    kinds = ("date", "numeric", "constant", "numeric", "ignored", "empty")
    columns = [
        ColumnSummary(f"c{i}", kind, "why", 0.0, used=kind in {"date", "numeric"})
        for i, kind in enumerate(kinds)
    ]
    assert columns_by_type(columns) == {
        "numeric": ["c1", "c3"],
        "date": ["c0"],
        "constant": ["c2"],
        "not used": ["c4 (why)", "c5 (why)"],
    }
    many = [replace(columns[1], name=f"x{i}") for i in range(100)]
    assert columns_by_type(many) == {"numeric": [f"x{i}" for i in range(100)]}


def test_possible_codes_are_named_with_the_option() -> None:
    status, sex, grade = (
        ColumnSummary(name, "numeric", "", 0.0, used=True, possible_codes=values)
        for name, values in (("status", 2), ("sex", 3), ("school grade", 1200))
    )
    assert codes_sentence([*SUMMARY.columns, status]) == (
        "status has 2 different values and is taken as numeric. If these are codes: "
        "--categorical status"
    )
    assert codes_sentence([status, sex, grade]) == (
        "status (2 different values), sex (3) and school grade (1,200) are taken as numeric. If "
        "these are codes: --categorical 'status,sex,school grade'"
    )
    assert codes_sentence(SUMMARY.columns) == ""


def test_unusual_rows_are_counted_with_the_columns_of_their_reasons() -> None:
    p_values = PValueCounts((50, 450, 1, 499), 250.0, 0, 500)
    assert unusual_sentence(summary(p_values=p_values, unusual_rows=12)) == (
        "12 of 1,000 training rows have a p-value below 0.01; in any table about 1 % do. Columns "
        "in their reasons, with the number of rows: alcohol (3) and region (1). To see the rows, "
        "score the training table."
    )
    assert unusual_sentence(summary(p_values=p_values, unusual_columns=())) == (
        "1 of 1,000 training rows has a p-value below 0.01; in any table about 1 % do."
    )
    assert unusual_sentence(SUMMARY).startswith("4 training rows are too few for p-values below")


@pytest.mark.parametrize(
    ("counts", "low", "high", "share", "verdict"),
    [
        ((5, *[5] * 19), 1, 9, "5.0", "can be trusted"),
        ((10, *[5] * 18, 0), 1, 9, "10.0", "p-values are too small"),
        ((0, *[5] * 18, 10), 1, 9, "0.0", "p-values are too large"),
        ((590, *[495] * 19), 495, 505, "5.9", "can be trusted"),
    ],
)
def test_calibration_is_judged_in_words(
    counts: tuple[int, ...], low: int, high: int, share: str, verdict: str
) -> None:
    """A large table has significant deviations that do not matter."""
    sentence = p_values_sentence(PValueCounts(counts, sum(counts) / 20, low, high))
    assert sentence.startswith(
        f"{share} % of the training rows that were held out have a p-value of at most 0.05; 5 % "
        "would be perfect. So "
    )
    assert verdict in sentence


def test_references_are_compared_in_words() -> None:
    comparison = SUMMARY.comparison
    assert comparison is not None
    assert density_sentence(comparison) == (
        "On held-out rows it is better than a Gaussian and worse than a Gaussian mixture. The "
        "scores still work, because most of their order comes from distances between rows. Do not "
        "rely on log_density."
    )
    gaussian, mixture = comparison.references
    similar = replace(comparison, references=(gaussian, replace(mixture, is_better=False)))
    assert density_sentence(similar) == (
        "On held-out rows it is better than a Gaussian and similar to a Gaussian mixture."
    )
    better = replace(comparison, references=(gaussian, replace(gaussian, name="mixture")))
    assert density_sentence(better).endswith("better than a Gaussian and a mixture.")


@pytest.mark.parametrize(
    ("auc", "words"),
    [
        (0.32, "cannot tell samples from rows."),
        (0.5, "cannot tell samples from rows."),
        (0.55, "can hardly tell samples from rows (AUC 0.55; 0.5 means not at all)."),
        (0.7, "can partly tell samples from rows (AUC 0.70; 0.5 means not at all)."),
        (0.95, "can easily tell samples from rows (AUC 0.95; 0.5 means not at all)."),
    ],
)
def test_samples_are_judged_in_words(auc: float, words: str) -> None:
    assert samples_sentence(auc) == f"A classifier {words}"


def test_only_what_was_measured_is_judged() -> None:
    assert list(trust(SUMMARY)) == ["p-values", "density", "samples"]
    nothing = PValueCounts((0, 0), 0.0, 0, 0)
    assert trust(summary(comparison=None, sample_auc=None, p_values=nothing)) == {}


def test_technical_details_are_those_of_the_training() -> None:
    shown = technical_details(SUMMARY)
    assert shown["training"] == "2,000 iterations in 7.25 s, 12,345 parameters, seed 3"
    assert shown["started (UTC)"] == "16 November 2026, 01:02"
    assert shown["versions"] == "fdsm 0.3.0, torch 2.13.0"
    assert shown["sha256"] == "ab12"
    assert "sha256" not in technical_details(summary(file=FileRecord("a frame", 50)))


def test_other_texts_than_times_are_kept() -> None:
    assert format_time("yesterday") == "yesterday"


def test_flagged_rows_are_counted() -> None:
    assert scored_sentence(SCORED) == ("9 rows, 2 flagged. 1 row cannot be read and has no score.")
    single = replace(SCORED, flagged=1, rows=1, not_scored=2, flagged_rows=SCORED.other_rows)
    assert scored_sentence(single) == (
        "1 row, 1 flagged. 2 rows cannot be read and have no score."
    )
    many = replace(SCORED, rows=5000, flagged=1200, not_scored=0)
    assert scored_sentence(many) == "5,000 rows, 1,200 flagged. Shown are the 2 highest."


@pytest.mark.parametrize(
    ("reasons", "expected"),
    [
        ("a is 3 (expected about 2); c: 'b is 3' is new", {"a", "c"}),
        ("a b is 3, a new value (expected about 2)", {"a b"}),
        ("a, b and c are 0 (expected 1)", {"a", "b", "c"}),
        ("column =a is 1 (expected 2)", {"=a"}),
        ("aa is 3; x and y is 2 (expected a is 3)", set()),
        ("", set()),
    ],
)
def test_cells_of_reasons_are_recognized(reasons: str, expected: set[str]) -> None:
    assert named_columns(reasons, ["a", "b", "c", "a b", "=a", "(["]) == expected


def test_without_columns_no_cells_are_recognized() -> None:
    assert named_columns("a is 3; : x", []) == set()


def test_the_largest_difference_of_correlations_is_named() -> None:
    correlations = SUMMARY.correlations
    assert correlations is not None
    assert correlations_sentence(correlations) == (
        "Largest difference: alcohol and region have a correlation of −0.25 in the training rows "
        "and 0.50 in the samples."
    )
    unknown = ((None, None), (None, None))
    assert correlations_sentence(Correlations(("a", "b"), unknown, unknown, 0)) == ""


def test_the_caption_of_columns_explains_only_what_is_shown() -> None:
    assert histograms_caption(SUMMARY).endswith("1 for disjoint ones.")
    assert histograms_caption(summary(samples=0)) == "Share of rows in each bin or level."
    assert histograms_caption(summary(histograms_left_out=1234)).endswith(
        "the 2 columns whose samples differ most; 1,234 are left out."
    )


@pytest.mark.parametrize(
    ("value", "text"), [(1.0, "1"), (0.0123, "0.012"), (0.00001, "0.00001"), (0.0, "0")]
)
def test_p_values_have_two_digits(value: float, text: str) -> None:
    assert format_p_value(value) == text
