"""A made-up summary of a model and of a scored file."""

from dataclasses import replace
from typing import Any

from fdsm.measurement import Measurement
from fdsm.tables.comparison import Comparison, Reference
from fdsm.tables.summary import (
    ColumnHistogram,
    ColumnSummary,
    Correlations,
    Counts,
    FileRecord,
    Histogram,
    PValueCounts,
    ScoredFile,
    ScoredRow,
    Summary,
    Training,
)

EDGES = (0.0, 1.0, 3.0, 5.0, 9.0)

SUMMARY = Summary(
    file=FileRecord("measurements.csv", 1320, dropped_rows=3, copies=20, sha256="ab12"),
    training=Training(
        iterations=2000,
        seconds=7.25,
        validation_losses=((500, 0.75), (1000, 0.5), (2000, 0.4)),
        seed=3,
        objective="denoising score matching",
        parameters=12_345,
        torch_version="2.13.0",
        fdsm_version="0.3.0",
        time="2026-11-16T01:02:03+00:00",
    ),
    columns=(
        ColumnSummary("alcohol", "numeric", "0 to 3", 0.1, used=True),
        ColumnSummary("region", "categorical", "2 categories: north, south", 0.0, used=True),
        ColumnSummary("id", "identifier", "unique per row", 0.25, used=False),
    ),
    train_rows=10,
    samples=20,
    histograms=(
        ColumnHistogram(
            "alcohol", (0.0, 1.0, 3.0), (), False, Counts((2, 6), 0, 1, 1), Counts((5, 15)), 0.125
        ),
        ColumnHistogram(
            "region", (), ("north", "south"), False, Counts((7, 3)), Counts((14, 6)), 0.0
        ),
    ),
    histograms_left_out=0,
    correlations=Correlations(
        ("alcohol", "region", "flat"),
        ((1.0, -0.25, None), (-0.25, 1.0, None), (None, None, None)),
        ((1.0, 0.5, None), (0.5, 1.0, None), (None, None, None)),
        0,
    ),
    train_scores=Histogram(EDGES, Counts((5, 4, 1, 0))),
    held_out_scores=Histogram(EDGES, Counts((1, 2, 1, 0))),
    p_values=PValueCounts((2, 0, 1, 1), 1.0, 0, 3),
    sample_auc=0.625,
    comparison=Comparison(
        Measurement(-12.3, 0.4, {"rows": 50}),
        (
            Reference("Gaussian", Measurement(-10.1, 0.3), is_better=False),
            Reference("Gaussian mixture", Measurement(-14.9, 0.5), is_better=True),
        ),
    ),
    problems=("alcohol: the mean of the samples is off.",),
    unusual_rows=1,
    unusual_columns=(("alcohol", 3), ("region", 1)),
)

SCORED = ScoredFile(
    name="new.csv",
    rows=9,
    flagged=2,
    not_scored=1,
    histogram=Histogram(EDGES, Counts((3, 3, 0, 1), above=1, missing=1)),
    threshold=4.0,
    columns=("id", "alcohol", "region"),
    flagged_rows=(
        ScoredRow(
            7,
            1234.5,
            0.00066622,
            "alcohol is 2.1 (expected about 10.4); region: 'x' is new",
            ("a-7", "2.1", "x"),
        ),
        ScoredRow(2, 8.0, 0.02, "region is north (expected south)", ("a-2", "", "north")),
    ),
    other_rows=(ScoredRow(3, 6.0, 0.25, "", ("a-3", "1.0", "south")),),
)


def summary(**changes: Any) -> Summary:  # ruff: ignore[any-type]
    """Return the summary with other values of some fields."""
    return replace(SUMMARY, **changes)
