"""The summary of a model has the counts, distances and correlations of its rows."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from pyarrow import csv, parquet
from torch import Generator, Tensor

from fdsm.serialize import RecordError, from_json, to_json
from fdsm.tables.comparison import Comparison
from fdsm.tables.outliers import Reason
from fdsm.tables.schema import (
    Categorical,
    Constant,
    DateTime,
    Identifier,
    Ignored,
    Numeric,
    TableSchema,
)
from fdsm.tables.summary import (
    SCORE_COLUMNS,
    ColumnHistogram,
    Counts,
    FileRecord,
    Histogram,
    ScoredFile,
    ScoredRow,
    Summary,
    as_written,
    count_p_values,
    histogram,
    read_scores,
    read_summary,
    robust_range,
    score_edges,
    summarize,
)
from fdsm.untrusted import InputError

from .report.summary_cases import EDGES, SCORED, SUMMARY

NAN = math.nan
SCHEMA = TableSchema((
    Identifier("id", "int64", "running number"),
    Numeric("x"),
    Numeric("count", "int64", integer=True),
    Numeric("grade", "int64", integer=True, levels=(1.0, 2.0, 4.0)),
    Constant("unit", "string", "kg"),
    Categorical("kind", "string", ("a", "b", "c")),
    DateTime("day", "date32[day]"),
    Ignored("note", "string", missing=50),
))


def codes(n: int, generator: Generator) -> Tensor:
    x = torch.randn(n, generator=generator)
    count = torch.randint(0, 90, (n,), generator=generator)
    grade = torch.tensor([1.0, 2.0, 4.0])[torch.randint(0, 3, (n,), generator=generator)]
    kind = torch.randint(0, 3, (n,), generator=generator)
    return torch.stack([x, count, grade, kind, 1e9 + 1e7 * x], 1).double()


def summary(
    train: Tensor,
    samples: Tensor | None = None,
    schema: TableSchema = SCHEMA,
    comparison: Comparison | None = None,
) -> Summary:
    """Return a summary of rows, and of samples if there are any."""
    scores = torch.linspace(0, 1, len(train))
    return summarize(
        schema,
        train,
        train[:0] if samples is None else samples,
        scores,
        scores,
        scores,
        training=SUMMARY.training,
        comparison=comparison,
        sample_auc=0.6,
        record=FileRecord("a.csv", 200, sampled_rows=None),
    )


def of_column(shown: Summary, name: str) -> ColumnHistogram:
    (column,) = (column for column in shown.histograms if column.column == name)
    return column


def test_all_rows_are_counted(generator: Generator) -> None:
    train, samples = (codes(n, generator) for n in (200, 80))
    train[:20, 0] = NAN
    shown = summary(train, samples)
    assert (shown.train_rows, shown.samples, shown.sample_auc) == (200, 80, 0.6)
    assert [(column.name, column.type, column.used) for column in shown.columns] == [
        ("id", "identifier", False), ("x", "numeric", True), ("count", "numeric", True),
        ("grade", "numeric", True), ("unit", "constant", False), ("kind", "categorical", True),
        ("day", "date", True), ("note", "ignored", False),
    ]  # fmt: skip
    assert [column.missing for column in shown.columns] == [0, 0.1, 0, 0, 0, 0, 0, 0.25]
    assert shown.columns[4].details == "always kg"
    for column in shown.histograms:
        assert column.data.total + column.data.missing == 200
        assert column.samples.total == 80
    assert [column.is_date for column in shown.histograms] == [False] * 4 + [True]
    assert shown.train_scores.counts.total == shown.held_out_scores.counts.total == 200


def test_problems_of_samples_are_sentences_that_say_what_to_do(generator: Generator) -> None:
    train = codes(300, generator)
    samples = train.flip(0).clone()
    samples[:, 0] += 5
    (problem,) = summary(train, samples, comparison=SUMMARY.comparison).problems
    assert problem.startswith("x: the mean of the samples is off by ")
    assert problem.endswith("Do not use samples where the mean of x matters.")
    assert summary(train, train.flip(0)).problems == ()


def test_unusual_rows_and_the_columns_of_their_reasons_are_counted(generator: Generator) -> None:
    train = codes(300, generator)
    scores = torch.zeros(300)
    p_values = torch.tensor([0.001, 0.0099, 0.01, *[0.5] * 297])
    reasons = [
        [Reason("x", "1", "2", 0.5), Reason("kind", "a", "b", 0.2)],
        [Reason("kind", "c", "b", 0.5), Reason("kind", "d", "b", 0.5)],
    ]
    relations = ("distance is determined by origin and dest",)
    shown = summarize(
        SCHEMA,
        train,
        train[:0],
        scores,
        scores,
        p_values,
        training=SUMMARY.training,
        comparison=None,
        sample_auc=None,
        record=FileRecord("a.csv", 300),
        reasons=reasons,
        relations=relations,
    )
    assert shown.unusual_rows == 2
    assert shown.unusual_columns == (("kind", 2), ("x", 1))
    assert shown.relations == relations


@pytest.mark.parametrize(
    ("name", "integer", "values", "expected"),
    [
        ("grade", True, range(5), 5),
        ("grade", True, range(6), 0),
        ("grade", False, range(5), 0),
        ("zip", True, range(50), 50),
        ("homeZip", True, range(50), 50),
        ("ZIP_of_home", True, range(50), 50),
        ("idle", True, range(50), 0),
        ("zip", False, range(50), 0),
        ("zip", True, range(51), 0),
    ],
)
def test_integers_with_few_values_or_a_telling_name_may_be_codes(
    name: str, integer: bool, values: range, expected: int
) -> None:
    """By their name only if they repeat: 100 rows have values here, and 5 are missing."""
    train = torch.tensor([*([*values] * 20)[:100], *[NAN] * 5]).double()[:, None]
    schema = TableSchema((Numeric(name, integer=integer),))
    (column,) = summary(train, schema=schema).columns
    assert column.possible_codes == expected


def test_details_of_numbers_have_their_range() -> None:
    train = torch.tensor([[-1.25, 10_000_007.0], [2.5, 3.0], [NAN, 4.0]]).double()
    columns = (Numeric("x"), Numeric("n", integer=True))
    shown = summary(train, schema=TableSchema(columns)).columns
    assert [column.details for column in shown] == ["-1.25 to 2.5", "3 to 10000007, integer"]


def test_counts_of_levels_and_categories_are_exact() -> None:
    train = torch.tensor([[0.0, 5, 1, 0, 0], [1, 6, 2, 0, 1], [2, 7, 2, 1, 2], [3, 8, 4, NAN, 3]])
    samples = torch.tensor([[0.0, 5, 1.4, 2, 0], [0, 5, 1.6, 2, 0], [0, 5, 99, 1, 0]])
    shown = summary(train.double(), samples.double())
    grade, kind = of_column(shown, "grade"), of_column(shown, "kind")
    assert grade.levels == ("1", "2", "4")
    assert grade.data.inside == (1, 2, 1)
    assert grade.samples.inside == (1, 1, 1), "samples are rounded to the levels"
    assert kind.levels == ("a", "b", "c")
    assert kind.data == Counts((2, 1, 0), missing=1)
    assert kind.samples.inside == (0, 1, 2)
    assert kind.distance == pytest.approx(2 / 3)


def test_bins_of_integers_have_equal_numbers_of_integers(generator: Generator) -> None:
    shown = summary(codes(500, generator))
    edges = np.array(of_column(shown, "count").edges)
    np.testing.assert_array_equal(edges % 1, 0.5)
    assert set(np.diff(edges)) == {4.0}, "90 values in about 28 bins"
    assert of_column(shown, "count").samples.total == 0
    assert of_column(shown, "count").distance is None


def test_rare_categories_are_counted_together() -> None:
    schema = TableSchema((Categorical("c", "string", tuple(map(str, range(20)))),))
    train = torch.arange(20).double()[:, None].repeat(2, 1)
    shown = summary(train, schema=schema)
    column = of_column(shown, "c")
    assert column.levels == (*map(str, range(11)), "9 others")
    assert column.data.inside == (2,) * 11 + (18,)


def test_an_outlier_does_not_hide_the_other_rows(generator: Generator) -> None:
    train = codes(1000, generator)
    train[0, 0] = 1e12
    x = of_column(summary(train), "x")
    assert x.data.above == 1
    assert sum(count > 0 for count in x.data.inside) > 20
    assert len(x.data.inside) == 30


def test_samples_just_outside_the_training_rows_are_in_a_bin() -> None:
    train = torch.linspace(0, 1, 101).double()[:, None]
    samples = torch.tensor([[-0.01], [1.01], [7.0]]).double()
    x = of_column(summary(train, samples, schema=TableSchema((Numeric("x"),))), "x")
    assert (x.samples.below, x.samples.above) == (0, 1)
    assert x.data.inside[0] == 0


def test_samples_that_are_not_finite_are_missing() -> None:
    train = torch.tensor([[0.0, 5, 1, 0, 0], [1, 6, 2, 0, 1]]).double()
    samples = torch.tensor([[math.inf] * 5, [NAN] * 5, [0, 5, 1, 0, 0]]).double()
    shown = summary(train, samples)
    assert [column.samples.missing for column in shown.histograms] == [2] * 5
    assert {column.distance for column in shown.histograms} == {0.5, 0.0}


def test_the_columns_that_differ_most_are_shown(generator: Generator) -> None:
    train, samples = (torch.randn(50, 70, generator=generator).double() for _ in range(2))
    samples[:, 65:] += 9
    shown = summary(train, samples, schema=TableSchema(tuple(Numeric(f"x{i}") for i in range(70))))
    names = [column.column for column in shown.histograms]
    assert len(names) == 60
    assert shown.histograms_left_out == 10
    assert names[-5:] == ["x65", "x66", "x67", "x68", "x69"], "in the order of the table"


def test_a_column_without_values_has_no_histogram() -> None:
    train = torch.tensor([[1.0, NAN], [2.0, NAN]]).double()
    shown = summary(train, train, schema=TableSchema((Numeric("x"), Numeric("y"))))
    assert [column.column for column in shown.histograms] == ["x"]
    assert shown.columns[1].missing == 1


def test_correlations_are_of_numbers_and_of_two_categories() -> None:
    train = torch.tensor([[0.0, 1, 0, 0], [1, 0, 1, 1], [2, 0, 2, 2], [3, 0, 0, 3]]).double()
    train[:, 3] *= 24 * 3600  # days
    schema = TableSchema((
        Numeric("x"),
        Categorical("two", "string", ("a", "b")),
        Categorical("three", "string", ("a", "b", "c")),
        DateTime("day", "date32[day]"),
    ))
    shown = summary(train, train.flip(0), schema=schema).correlations
    assert shown is not None
    assert shown.columns == ("x", "two", "day")
    np.testing.assert_allclose(shown.data, np.corrcoef(train[:, [0, 1, 3]].T))
    np.testing.assert_allclose(shown.samples, shown.data)
    assert summary(train[:, 2:3], schema=TableSchema(schema.columns[2:3])).correlations is None


def test_the_strongest_correlations_are_kept(generator: Generator) -> None:
    train = torch.randn(100, 40, generator=generator).double()
    train[:, 39] = -train[:, 2]
    schema = TableSchema(tuple(Numeric(f"x{i}") for i in range(40)))
    shown = summary(train, schema=schema).correlations
    assert shown is not None
    assert (len(shown.columns), shown.left_out) == (30, 10)
    assert {value for row in shown.samples for value in row} == {None}
    assert {"x2", "x39"} <= set(shown.columns)
    i, j = (shown.columns.index(name) for name in ("x2", "x39"))
    assert shown.data[i][j] == pytest.approx(-1)


def test_uniform_p_values_have_equal_counts() -> None:
    """Conformal p-values are multiples of 1 / n. Each bin includes its upper end."""
    n = 140
    shown = count_p_values(np.arange(1, n + 1) / n)
    assert shown.counts == (7,) * 20
    assert shown.expected == 7
    odd = count_p_values(np.array([0.05, 0.0500001, 1.0, 0.0, NAN]))
    assert odd.counts == (2, 1, *[0] * 17, 1)


@pytest.mark.parametrize("n", [0, 1, 30, 400])
def test_the_range_of_counts_holds_at_least_95_percent(n: int) -> None:
    """The cumulative probabilities of the binomial distribution, summed term by term."""
    shown = count_p_values(np.full(n, 0.5))
    terms = [math.comb(n, k) * 0.05**k * 0.95 ** (n - k) for k in range(n + 1)]
    cumulative = np.cumsum(terms)
    assert shown.low == np.argmax(cumulative >= 0.025)
    assert shown.high == np.argmax(cumulative >= 0.975)


def test_scores_of_outliers_have_bins_above_those_of_known_rows() -> None:
    scores = np.linspace(2, 6, 500)
    edges = score_edges(np.append(scores, [np.inf, NAN]))
    np.testing.assert_allclose([edges[0], edges[40], edges[-1]], [2, 6, 12])
    counts = histogram(np.array([1.0, 5.0, 11.9, 50.0, np.inf, NAN]), edges).counts
    assert (counts.below, sum(counts.inside), counts.above, counts.missing) == (1, 2, 2, 1)


@pytest.mark.parametrize("values", [[], [3.0], [1e17, 1e17], [0.0] * 500 + [9.0]])
def test_ranges_are_never_empty(values: list[float]) -> None:
    low, high = robust_range(np.array(values))
    assert low < high
    assert all(low <= value <= high for value in values)


def test_shares_are_of_the_rows_with_a_value() -> None:
    counts = Counts((1, 2, 3), below=2, above=2, missing=7)
    assert counts.total == 10
    assert counts.shares == (0.1, 0.2, 0.3)
    assert counts.shares_at_or_above == (0.8, 0.7, 0.5, 0.2)
    assert Counts((0, 0)).shares == (0.0, 0.0)


def test_samples_are_compared_as_they_are_written() -> None:
    schema = TableSchema((Numeric("x", "int64", integer=True), Categorical("c", "string", ("a",))))
    written = as_written(schema, torch.tensor([[1.4, 0.0], [math.inf, NAN]]))
    np.testing.assert_array_equal(written, [[1, 0], [NAN, NAN]])


def test_a_summary_is_read_as_it_was_written(tmp_path: Path, generator: Generator) -> None:
    train = codes(60, generator)
    train[:, 1] = 5.0  # no correlation
    shown = summary(train, codes(30, generator), comparison=SUMMARY.comparison)
    for value in (shown, SUMMARY, SCORED):
        assert from_json(json.loads(json.dumps(to_json(value), allow_nan=False))) == value
    path = tmp_path / "summary.json"
    path.write_text(json.dumps(to_json(shown)))
    assert read_summary(path) == shown
    assert shown.correlations is not None
    assert shown.correlations.data[1][0] is None


def test_losses_that_are_not_finite_survive() -> None:
    """NaN does not equal itself, but its text does."""
    training = replace(SUMMARY.training, validation_losses=((1, NAN), (2, math.inf)))
    text = json.dumps(to_json(training))
    assert json.dumps(to_json(from_json(json.loads(text)))) == text


def changed(record: Any, path: str, value: object) -> Any:  # ruff: ignore[any-type]
    """Return a copy of a record with another value at a dotted path."""
    copied = json.loads(json.dumps(record))
    *parents, last = (int(key) if key.isdigit() else key for key in path.split("."))
    inner = copied
    for key in parents:
        inner = inner[key]
    inner[last] = value
    return copied


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("histograms.0.data.inside", [1], "1 counts for 2 bins"),
        ("histograms.1.samples.inside", [1, 2, 3], "3 counts for 2 levels"),
        ("histograms.0.edges", [0.0, 0.0, 1.0], "do not increase"),
        ("histograms.0.edges", [0.0, NAN, 1.0], "do not increase"),
        ("histograms.0.data.below", -1, "negative"),
        ("train_scores.counts.inside", [1, 2, "many", 0], "must be"),
        ("train_scores.edges", [0, 1, 2, 3, 1e200], "not finite"),
        ("correlations.samples", [[1.0]], "3 columns has another shape"),
        ("correlations.data.0.0", 7.0, "not between -1 and 1"),
        ("p_values.expected", None, "must be float"),
        ("p_values.counts", [1, -1], "negative"),
        ("columns.0", {"class": "os.system"}, "not part of this package"),
        ("columns.0", 3, "must be"),
        ("training.colour", "red", "unknown field 'colour'"),
        ("class", "fdsm.tables.summary.Other", "there is no fdsm.tables.summary.Other"),
        ("class", "fdsm.tables.summary.FileRecord", "unknown field 'file'"),
    ],
)
def test_a_damaged_summary_is_refused_in_one_sentence(
    path: str, value: object, message: str, tmp_path: Path
) -> None:
    file = tmp_path / "summary.json"
    file.write_text(json.dumps(changed(to_json(SUMMARY), path, value)))
    with pytest.raises(InputError, match=message) as caught:
        read_summary(file)
    assert str(caught.value).startswith(f"{file} is damaged: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", ["{", "[1]", '"text"', ""])
def test_other_files_are_not_summaries(content: str, tmp_path: Path) -> None:
    file = tmp_path / "summary.json"
    file.write_text(content)
    with pytest.raises(InputError, match="is damaged"):
        read_summary(file)


def test_a_record_of_another_class_is_refused() -> None:
    with pytest.raises(RecordError, match="negative"):
        from_json({"class": "fdsm.tables.summary.Counts", "inside": [-1]})


SCORES = np.array([0.5, 8.0, NAN, 2.0, 8.0])
P_VALUES = np.array([0.9, 0.01, NAN, 0.2, 0.02])
FLAGGED = np.array([False, True, True, False, False])
REASONS = ["", "x is 9 (expected about 2); y: 'z' is new", "", "x is 3", "a, b"]


def score_table(prefix: str = "") -> pa.Table:
    """Return a table with the columns of scores after its own."""
    missing = np.isnan(SCORES)
    columns = {
        "score": pa.array(SCORES, mask=missing),
        "p_value": pa.array(P_VALUES, mask=missing),
        "log_density": pa.array(-SCORES, mask=missing),
        "flagged": pa.array(FLAGGED, mask=missing),
        "reasons": pa.array(REASONS),
        "problem": pa.array(["", "", "all cells are missing", "", ""]),
    }
    names = [column.name for column in SUMMARY.columns if column.used]
    numbers = ["1", "2", "3", "4", "5"]
    own = {**dict.fromkeys(names, ["1"] * 5), "score": [9] * 5, "flagged": ["yes"] * 5}
    own[names[0]] = numbers
    table = pa.table(own if prefix else {"row": numbers})
    for name, values in columns.items():
        taken = name in table.column_names
        table = table.append_column(f"{prefix}{name}" if taken else name, values)
    return table


@pytest.mark.parametrize("prefix", ["", "fdsm_"])
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("block", [2, 50_000])
def test_a_file_of_scores_is_read(
    prefix: str, suffix: str, block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The third row is flagged but was not scored. Files of row numbers have no cells."""
    monkeypatch.setattr("fdsm.tables.summary.BLOCK_ROWS", block)
    path, table = tmp_path / f"new.scores.{suffix}", score_table(prefix)
    (csv.write_csv if suffix == "csv" else parquet.write_table)(table, path)

    def cells(number: int) -> tuple[str, ...]:
        return (str(number), "1", "9", "yes") if prefix else ()

    assert read_scores(path, SUMMARY) == ScoredFile(
        name=path.name,
        rows=5,
        flagged=1,
        not_scored=1,
        histogram=Histogram(EDGES, Counts((1, 1, 0, 2), missing=1)),
        threshold=8.0,
        columns=("alcohol", "region", "score", "flagged") if prefix else (),
        flagged_rows=(ScoredRow(2, 8.0, 0.01, REASONS[1], cells(2)),),
        other_rows=(
            ScoredRow(5, 8.0, 0.02, "a, b", cells(5)),
            ScoredRow(4, 2.0, 0.2, "x is 3", cells(4)),
            ScoredRow(1, 0.5, 0.9, "", cells(1)),
        ),
    )


@pytest.mark.parametrize("block", [7, 50_000])
def test_the_highest_rows_are_kept(
    block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fdsm.tables.summary.BLOCK_ROWS", block)
    monkeypatch.setattr("fdsm.tables.summary.FLAGGED_ROWS", 3)
    score = np.random.default_rng(0).permutation(100) / 10
    flagged = np.arange(100) % 2 == 0
    names = [column.name for column in SUMMARY.columns if column.used]
    text = pa.array([""] * 100)
    path = tmp_path / "new.parquet"
    columns = {name: pa.array([f"{'x' * 99}{i}" for i in range(100)]) for name in names}
    scores = dict(zip(SCORE_COLUMNS, (score, score, score, flagged, text, text), strict=True))
    parquet.write_table(pa.table(columns | scores), path)
    shown = read_scores(path, SUMMARY)
    order = np.argsort(-score)
    assert [row.row - 1 for row in shown.flagged_rows] == [i for i in order if flagged[i]][:3]
    assert [row.row - 1 for row in shown.other_rows] == [i for i in order if not flagged[i]][:20]
    assert shown.flagged == 50
    assert shown.threshold == score[flagged].min()
    for row in shown.flagged_rows:
        assert len(row.cells[0]) == 80
        assert row.cells[0].endswith(str(row.row - 1))


def test_cells_that_have_no_text_in_arrow_are_shown(tmp_path: Path) -> None:
    table = score_table("fdsm_").append_column("tags", pa.array([[1, 2], None, [], [3], [4]]))
    names = table.column_names
    path = tmp_path / "new.parquet"
    parquet.write_table(table.select([names[-1], *names[:-1]]), path)
    (row,) = read_scores(path, SUMMARY).flagged_rows
    assert row.cells[0] == ""
    assert read_scores(path, SUMMARY).other_rows[0].cells[0] == "[4]"


def test_scores_of_another_model_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.csv"
    csv.write_csv(
        score_table("fdsm_").rename_columns(["weight", *score_table("fdsm_").column_names[1:]]),
        path,
    )
    with pytest.raises(InputError, match=r"other\.csv holds scores of another model: it has no"):
        read_scores(path, SUMMARY)


def test_a_table_without_scores_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "new.csv"
    path.write_text("x,y\n1,2\n3,4\n")
    with pytest.raises(InputError, match=r"new\.csv does not hold scores\. Give a file that fdsm"):
        read_scores(path, SUMMARY)
    path.write_text(",".join(SCORE_COLUMNS) + "\nhigh,0.5,1,true,a,b\n")
    with pytest.raises(InputError, match=r"new\.csv does not hold scores: .*'high'"):
        read_scores(path, SUMMARY)
