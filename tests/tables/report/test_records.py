"""Damaged files are refused before anything is drawn."""

import math

import pytest

from fdsm.tables.report.records import Counts, scored_from_json, table_from_json

from .table_cases import SCORED, TABLE, changed


def test_shares_are_of_the_rows_with_a_value() -> None:
    counts = Counts((1.0, 2.0, 3.0), below=2.0, above=2.0, missing=7.0)
    assert counts.total == 10
    assert counts.shares == (0.1, 0.2, 0.3)
    assert counts.shares_at_or_above == (0.8, 0.7, 0.5, 0.2)
    assert Counts((0.0, 0.0)).shares == (0.0, 0.0)


def test_a_table_is_read_as_it_was_written() -> None:
    table = table_from_json(TABLE)
    assert table.rows == {"train": 10, "held_out": 4, "samples": 20}
    assert [(one.name, one.used) for one in table.columns] == [
        ("alcohol", True), ("region", True), ("id", False),
    ]  # fmt: skip
    assert math.isnan(table.columns[2].missing)
    known = table_from_json(TABLE, {"id": 0.5, "alcohol": 0.7})
    assert [one.missing for one in known.columns] == [0.1, 0.0, 0.5], "table.json comes first"
    alcohol, region = table.histograms
    assert alcohol.edges == (0.0, 1.0, 3.0)
    assert alcohol.data == Counts((2.0, 6.0), 0.0, 1.0, 1.0)
    assert (region.levels, region.edges) == (("north", "south"), ())
    assert math.isnan(region.held_out_distance)
    assert table.correlations is not None
    assert table.correlations.data[1][:2] == (-0.25, 1.0)
    assert math.isnan(table.correlations.data[2][2])
    assert table.train_scores.edges == table.held_out_scores.edges == (0.0, 1.0, 3.0, 5.0, 9.0)
    assert table.calibration.counts == (2.0, 0.0, 1.0, 1.0)


def test_a_scored_file_is_read_as_it_was_written() -> None:
    scored = scored_from_json(SCORED)
    assert (scored.file, scored.rows, scored.flagged, scored.fdr) == ("new.csv", 8, 2, 0.1)
    assert scored.histogram.counts == Counts((3.0, 3.0, 0.0, 1.0), above=1.0)
    assert [reason.column for reason in scored.top[0].reasons] == ["alcohol", "region"]
    assert math.isnan(scored_from_json(changed(SCORED, "threshold", None)).threshold)


@pytest.mark.parametrize(
    ("threshold", "entry", "flagged"),
    [
        (7.0, None, [True, False]),
        (6.0, None, [True, True]),
        (None, None, [False, False]),
        (7.0, False, [False, False]),
    ],
)
def test_rows_are_flagged_as_recorded_or_by_the_threshold(
    threshold: float | None, entry: bool | None, flagged: list[bool]
) -> None:
    record = changed(SCORED, "threshold", threshold)
    if entry is not None:
        record = changed(record, "top.0.flagged", entry)
    assert [one.flagged for one in scored_from_json(record).top] == flagged


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("histograms.0.data.counts", [1], "1 counts for 2 bins"),
        ("histograms.1.samples.counts", [1, 2, 3], "3 counts for 2 bins"),
        ("histograms.0.edges", [0.0, 0.0, 1.0], "do not increase"),
        ("histograms.0.data.below", -1, "negative"),
        ("scores.train.counts", [1, 2, "many", 0], "many is not a finite number"),
        ("scores.edges", [0, 1, 2, 3, 1e200], "not a finite number"),
        ("correlations.samples", [[1.0]], "3 columns has another shape"),
        ("calibration.expected", None, "none is not a finite number"),
    ],
)
def test_a_damaged_table_is_refused(path: str, value: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        table_from_json(changed(TABLE, path, value))
