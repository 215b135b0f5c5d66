"""Scoring files: rows are read like the training data, and bad rows are reported one by one."""

import csv
import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from pyarrow import parquet

from fdsm.tables import DataError, TableModel, scoring
from fdsm.tables.outliers import benjamini_hochberg
from fdsm.tables.scoring import ScoredTable, default_scores_path, score_file

from .table_cases import (
    mixed_row,
    mixed_rows,
    normal_model,
    write_mixed_table,
    write_rows,
    write_table,
)

COLUMNS = ("score", "p_value", "log_density", "flagged", "reasons", "problem")
"""The columns that are added to a table."""


@pytest.fixture(scope="module")
def normal(tmp_path_factory: pytest.TempPathFactory) -> TableModel:
    """The log-density -‖x‖²/2 of a table with the columns a and b, calibrated on 100 rows."""
    return normal_model(write_table(tmp_path_factory.mktemp("normal") / "train.csv"))


def read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_scores_are_added_to_the_columns_of_the_table(normal: TableModel, tmp_path: Path) -> None:
    new, out = tmp_path / "new.csv", tmp_path / "sub" / "scores.csv"
    new.write_text("a,b\n0,0.50\n1,1\n30,40\n")
    scored = score_file(normal, new, out)
    rows = read(out)
    assert tuple(rows[0]) == ("a", "b", *COLUMNS)
    assert [(row["a"], row["b"]) for row in rows] == [("0", "0.50"), ("1", "1"), ("30", "40")]
    assert [float(row["log_density"]) for row in rows] == pytest.approx([-0.125, -1, -1250])
    expected = normal.score_codes(torch.tensor([[0.0, 0.5], [1.0, 1.0], [30.0, 40.0]]))
    assert [float(row["p_value"]) for row in rows] == pytest.approx(expected.p_value.tolist())
    assert [float(row["score"]) for row in rows] == pytest.approx(expected.score.tolist())
    assert float(rows[2]["p_value"]) == pytest.approx(1 / 101)
    assert scored.score.tolist() == pytest.approx(expected.score.tolist())
    assert scored.flagged.tolist() == [False, False, True]
    assert [row["flagged"] for row in rows] == ["false", "false", "true"]


def test_only_scores_have_the_number_of_the_row(
    normal: TableModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scoring, "BLOCK", 2)
    new, out = tmp_path / "new.csv", tmp_path / "scores.csv"
    new.write_text("a,b\n0,0\n1,1\n2,2\n3,3\n0,4\n")
    score_file(normal, new, out, only_scores=True)
    rows = read(out)
    assert tuple(rows[0]) == ("row", *COLUMNS)
    assert [row["row"] for row in rows] == ["1", "2", "3", "4", "5"]
    assert [float(row["log_density"]) for row in rows] == pytest.approx([0, -1, -4, -9, -8])


def test_columns_are_found_by_name_in_any_order(normal: TableModel, tmp_path: Path) -> None:
    new, out = tmp_path / "new.csv", tmp_path / "scores.csv"
    new.write_text("note,b,id,a\nx,0,7,2\ny,4,8,0\n")
    score_file(normal, new, out)
    rows = read(out)
    assert [float(row["log_density"]) for row in rows] == pytest.approx([-2, -8])
    assert [row["note"] for row in rows] == ["x", "y"]


def test_columns_of_the_same_name_are_kept(normal: TableModel, tmp_path: Path) -> None:
    new, out = tmp_path / "new.csv", tmp_path / "scores.csv"
    new.write_text("a,score,b\n0,mine,2\n")
    for _ in range(2):  # the file is recognized as scores the second time
        score_file(normal, new, out)
    (row,) = read(out)
    assert row["score"] == "mine"
    assert float(row["fdsm_score"]) == pytest.approx(
        normal.score_codes(torch.tensor([[0.0, 2.0]])).score.item()
    )


def test_rows_that_cannot_be_read_are_not_scored(normal: TableModel, tmp_path: Path) -> None:
    """A cell that is not a number is a new value, and other cells are scored without it."""
    new, out = tmp_path / "new.csv", tmp_path / "scores.csv"
    new.write_text("a,b\n1,1\n,2\n0,twelve\n2,0\n1,inf\n3\n0,4\n,\n")
    scored = score_file(normal, new, out)
    rows = read(out)
    assert scored.problems == {5: "has 1 cells instead of 2", 7: "all cells are missing"}
    assert np.isnan(scored.score).nonzero()[0].tolist() == [5, 7]
    for i, row in enumerate(rows):
        assert row["problem"] == scored.problems.get(i, "")
        if i in scored.problems:
            assert {row[name] for name in COLUMNS[:5]} == {""}
    complete = {i: float(rows[i]["log_density"]) for i in (0, 3, 6)}
    assert complete == pytest.approx({0: -1, 3: -2, 6: -8})
    assert rows[2]["reasons"].startswith("b: 'twelve' is not a number")
    assert rows[4]["reasons"].startswith("b: 'inf' is too large a number")


def test_rows_that_are_not_scored_do_not_change_the_flags(
    normal: TableModel, tmp_path: Path
) -> None:
    """Three far rows have p = 1/101. They pass a rate of 0.01 only if they are all the rows."""
    far = "\n".join(["a,b", *["30,40"] * 3])
    for name, text in {"good.csv": far, "gaps.csv": far + "\n,\n1" * 3}.items():
        (tmp_path / name).write_text(text + "\n")
    flagged = [
        int(score_file(normal, tmp_path / name, tmp_path / f"out-{name}", fdr=0.01).flagged.sum())
        for name in ("good.csv", "gaps.csv")
    ]
    assert flagged == [3, 3]


def test_arrays_are_scored_with_their_columns(normal: TableModel, tmp_path: Path) -> None:
    new, out = tmp_path / "new.npy", tmp_path / "scores.csv"
    np.save(new, np.array([[1.0, 1.0], [np.nan, np.nan], [0.0, 2.0]]))
    scored = score_file(normal, new, out)
    assert scored.problems == {1: "all cells are missing"}
    rows = read(out)
    assert rows[1]["log_density"] == ""
    assert [float(rows[i]["log_density"]) for i in (0, 2)] == pytest.approx([-1, -2])
    assert tuple(rows[0]) == ("0", "1", *COLUMNS)


def test_missing_columns_are_named(normal: TableModel, tmp_path: Path) -> None:
    new = tmp_path / "new.csv"
    new.write_text("a,c\n1,2\n3,4\n")
    with pytest.raises(DataError, match=r"'b'"):
        score_file(normal, new, tmp_path / "scores.csv")
    assert not (tmp_path / "scores.csv").exists()


def test_rows_of_another_width_are_refused(normal: TableModel, tmp_path: Path) -> None:
    new = tmp_path / "wide.npy"
    np.save(new, np.zeros((4, 3)))
    with pytest.raises(DataError, match=r"columns differ from those of the training data"):
        score_file(normal, new, tmp_path / "scores.csv")


def test_only_files_with_scores_are_overwritten(normal: TableModel, tmp_path: Path) -> None:
    new, out = tmp_path / "new.csv", tmp_path / "scores.csv"
    new.write_text("a,b\n1,1\n")
    for content in ("my notes\n", "", "row,log_density\n1,2\n"):
        out.write_text(content)
        with pytest.raises(FileExistsError, match=f"{out} exists and does not hold scores"):
            score_file(normal, new, out)
        assert out.read_text() == content
    with pytest.raises(FileExistsError):
        score_file(normal, new, new)
    assert new.read_text() == "a,b\n1,1\n"
    for content in (
        "row,log_density,typicality,p_value,problem\n1,2,0,1,\n",  # of fdsm 0.2.0
        ",".join(COLUMNS) + "\n",
    ):
        out.write_text(content)
        score_file(normal, new, out)
        assert [float(row["log_density"]) for row in read(out)] == pytest.approx([-1])


def test_foreign_parquet_files_are_not_overwritten(normal: TableModel, tmp_path: Path) -> None:
    new, out = write_table(tmp_path / "new.csv"), tmp_path / "scores.parquet"
    parquet.write_table(pa.table({"p_value": [1.0], "log_density": [1.0], "problem": [""]}), out)
    before = out.read_bytes()
    with pytest.raises(FileExistsError, match="does not hold scores"):
        score_file(normal, new, out)
    assert out.read_bytes() == before
    out.unlink()
    for _ in range(2):
        score_file(normal, new, out)
    assert len(parquet.read_table(out)) == 100


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_failure_leaves_the_old_scores(
    suffix: str, normal: TableModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second block cannot be written."""
    new, folder = write_table(tmp_path / "new.csv"), tmp_path / "out"
    out = folder / f"scores{suffix}"
    score_file(normal, new, out)
    before = out.read_bytes()
    monkeypatch.setattr(scoring, "BLOCK", 40)
    columns = ScoredTable.columns

    def fail(self: ScoredTable, start: int, stop: int) -> pa.Table:
        if start:
            raise OSError(28, "No space left on device")
        return columns(self, start, stop)

    monkeypatch.setattr(ScoredTable, "columns", fail)
    with pytest.raises(OSError, match="No space left on device") as error:
        score_file(normal, new, out)
    assert error.value.filename == str(out)
    assert out.read_bytes() == before
    assert list(folder.iterdir()) == [out]


@pytest.mark.parametrize("name", ["scores.txt", "folder"])
def test_other_formats_are_refused(name: str, normal: TableModel, tmp_path: Path) -> None:
    new = write_table(tmp_path / "new.csv")
    (tmp_path / "folder").mkdir()
    with pytest.raises(ValueError, match=r"can be written as \.csv or \.parquet, not"):
        score_file(normal, new, tmp_path / name)


@pytest.mark.parametrize(
    ("data", "scores"),
    [
        ("a/new.csv", "a/new.scores.csv"),
        ("a/new.parquet", "a/new.scores.parquet"),
        ("a/new.npy", "a/new.npy.scores.csv"),
        ("photos", "photos.scores.csv"),
        ("a/new.tar.csv", "a/new.tar.scores.csv"),
    ],
)
def test_default_path_is_beside_the_data(data: str, scores: str) -> None:
    assert default_scores_path(Path(data)) == Path(scores)


def test_blocks_of_a_file_give_the_same_scores(
    mixed: TableModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With gaps, a ragged row and unknown values in different blocks."""
    rows = mixed_rows(23, seed=1)
    rows[3][4] = rows[12][6] = ""
    rows[8] = ["k0008", "2024-01-01"]
    rows[15][2] = "purple"
    rows[22][6] = "9.5"
    new = write_rows(tmp_path / "new.csv", rows)
    files = []
    for block in (1000, 5):
        monkeypatch.setattr(scoring, "BLOCK", block)
        files.append(tmp_path / f"{block}.csv")
        score_file(mixed, new, files[-1])
    whole, streamed = map(read, files)
    numbers = ("score", "p_value", "log_density")
    for row, other in zip(whole, streamed, strict=True):
        assert [row[k] for k in row if k not in numbers] == [
            other[k] for k in other if k not in numbers
        ]
        values = ([float(row[k] or "nan") for k in numbers] for row in (row, other))
        assert next(values) == pytest.approx(next(values), rel=1e-6, nan_ok=True)
    assert whole[22]["reasons"].startswith("c is 9.5")
    assert whole[8]["problem"] == "has 2 cells instead of 7"


def test_only_the_most_unusual_rows_of_a_large_file_get_reasons(
    mixed: TableModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All rows are outliers of different size; two of them are explained so far as they come."""
    sizes = [6, 9, 7, 8, 5, 20, 4, 30]
    rows = [mixed_row(i, 0.8, 0.0) for i in range(len(sizes))]
    for row, size in zip(rows, sizes, strict=True):
        row[6] = str(size)
    monkeypatch.setattr(scoring, "BLOCK", 4)
    monkeypatch.setattr(scoring, "EXPLAINED_ROWS", 2)
    score_file(mixed, write_rows(tmp_path / "new.csv", rows), tmp_path / "scores.csv")
    found = read(tmp_path / "scores.csv")
    order = np.argsort([float(row["score"]) for row in found])
    assert order.tolist() == np.argsort(sizes).tolist()
    assert [bool(row["reasons"]) for row in found] == [s in {9, 8, 20, 30} for s in sizes]


def test_parquet_keeps_types_and_has_the_scores_of_the_text(
    mixed: TableModel, tmp_path: Path
) -> None:
    text = write_mixed_table(tmp_path / "new.csv", rows=30, seed=3)
    table = pa.csv.read_csv(text)
    parquet.write_table(table, tmp_path / "new.parquet")
    score_file(mixed, text, tmp_path / "a.csv")
    score_file(mixed, tmp_path / "new.parquet", tmp_path / "b.parquet")
    found = parquet.read_table(tmp_path / "b.parquet")
    assert found.select(table.column_names).cast(table.schema).equals(table)
    assert found.schema.field("day").type == pa.date32()
    assert found.schema.field("flagged").type == pa.bool_()
    expected = read(tmp_path / "a.csv")
    for name in ("score", "p_value", "log_density"):
        values = [float(row[name]) for row in expected]
        assert found[name].to_pylist() == pytest.approx(values, rel=1e-6)
    score_file(mixed, tmp_path / "new.parquet", tmp_path / "c.csv")
    assert [row["score"] for row in read(tmp_path / "c.csv")] == pytest.approx([
        row["score"] for row in expected
    ])


def test_missing_cells_are_scored_and_empty_rows_are_not(
    mixed: TableModel, tmp_path: Path
) -> None:
    rows = [mixed_row(i, 0.8, 0.0) for i in range(3)]
    rows[1][5] = ""  # as in some training rows
    rows[2] = ["k0002", "", "", "kg", "", "", ""]
    new = write_rows(tmp_path / "new.csv", rows)
    scored = score_file(mixed, new, tmp_path / "scores.csv")
    complete, gaps, empty = read(tmp_path / "scores.csv")
    assert scored.problems == {2: "all cells are missing"}
    assert gaps["b"] == ""
    assert float(gaps["p_value"]) > 0.1
    assert float(complete["p_value"]) > 0.1
    assert empty["problem"] == "all cells are missing"
    assert empty["score"] == empty["flagged"] == ""


@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        (2, "purple", "kind: 'purple' does not occur in the training data"),
        (3, "g", "unit: 'g' differs from 'kg', the only value in training"),
        (4, "twelve", "a: 'twelve' is not a number"),
        (1, "soon", "day: 'soon' is not a date"),
    ],
)
def test_values_never_seen_in_training_make_a_row_unusual(
    column: int, value: str, reason: str, mixed: TableModel, tmp_path: Path
) -> None:
    """No training row has such a cell, so the p-value is the smallest one."""
    rows = [mixed_row(i, 0.8, 0.1) for i in range(2)]
    rows[1][1] = rows[0][1]
    rows[0][5], rows[1][column] = "", value
    score_file(mixed, write_rows(tmp_path / "new.csv", rows), tmp_path / "scores.csv")
    usual, new = read(tmp_path / "scores.csv")
    assert new["reasons"].startswith(reason)
    assert new["problem"] == ""
    assert math.log10(201) < float(new["score"]) < 6
    assert float(new["p_value"]) == pytest.approx(1 / 201, rel=1e-5)
    assert float(usual["p_value"]) > 0.1
    assert usual["reasons"] == ""


def test_rows_are_flagged_by_p_value_or_rank(mixed: TableModel) -> None:
    rows = mixed_rows(60, seed=5)
    for row in rows[::20]:
        row[6] = f"{float(row[4]) + 4:.4f}"
    header = ("id", "day", "kind", "unit", "a", "b", "c")
    frame = {name: [row[i] for row in rows] for i, name in enumerate(header)}
    scored = mixed.score(frame, alpha=0.2)
    assert scored.flagged.tolist() == (scored.p_value <= 0.2).tolist()
    assert 3 < scored.flagged.sum() < 30
    assert set(np.flatnonzero(scored.flagged)) == set(scored.reasons)
    for top in (1, 40, 100):
        scored = mixed.score(frame, top=top)
        assert scored.flagged.sum() == min(top, 60)
        assert scored.score[scored.flagged].min() >= scored.score[~scored.flagged].max(initial=-1)
        assert set(np.flatnonzero(scored.flagged)) <= set(scored.reasons)


def test_flags_are_those_of_benjamini_hochberg(mixed: TableModel, tmp_path: Path) -> None:
    """Eight of 40 rows contradict the relation between a and c."""
    rows = mixed_rows(40, seed=5)
    for row in rows[::5]:
        row[6] = f"{float(row[4]) + 4:.4f}"
    new = write_rows(tmp_path / "new.csv", rows)
    for rate in (0.05, 0.3):
        scored = score_file(mixed, new, tmp_path / "scores.csv", fdr=rate)
        found = read(tmp_path / "scores.csv")
        p = torch.tensor([float(row["p_value"]) for row in found])
        flagged = [row["flagged"] == "true" for row in found]
        assert flagged == benjamini_hochberg(p, rate).tolist()
        assert scored.flagged.tolist() == flagged
        assert all(flagged[::5])
        assert all("c is" in row["reasons"] for row in found[::5])
    with pytest.raises(ValueError, match="between 0 and 1, but is 2"):
        score_file(mixed, new, tmp_path / "scores.csv", fdr=2.0)


def scores_of_all_and_some_training_rows(
    trained: TableModel, table: Path, folder: Path
) -> tuple[list[float], list[float]]:
    """Score the training file, and the file without its last ten rows."""
    lines = table.read_text(encoding="utf-8").splitlines()
    scores = []
    for count in (len(lines), len(lines) - 10):
        path = folder / f"{count}.csv"
        path.write_text("\n".join(lines[:count]) + "\n", encoding="utf-8")
        score_file(trained, path, folder / "out.csv")
        scores.append([float(row["score"]) for row in read(folder / "out.csv")])
    return scores[0][:-10], scores[1]


def test_training_rows_are_not_their_own_neighbors_in_any_file(
    mixed: TableModel, mixed_table: Path, tmp_path: Path
) -> None:
    """The training rows are different, so a copy of a row is that row."""
    whole, part = scores_of_all_and_some_training_rows(mixed, mixed_table, tmp_path)
    assert part == pytest.approx(whole, rel=1e-6)
    without_neighbors = mixed.score(mixed_table, reasons=0, leave_one_out=True)
    assert mixed.score(mixed_table, reasons=0).score.tolist() == without_neighbors.score.tolist()


def test_the_training_file_is_recognized_if_its_rows_repeat(
    tmp_path: Path, quick_training: None
) -> None:
    """In another file, copies of rows that repeat are expected, and normal."""
    x = torch.randint(0, 7, (150, 2), generator=torch.Generator().manual_seed(0)).tolist()
    path = tmp_path / "train.csv"
    path.write_text("\n".join(["a,b", *(f"{a},{b}" for a, b in x)]) + "\n", encoding="utf-8")
    trained = TableModel.fit(path, iterations=10)
    whole, part = scores_of_all_and_some_training_rows(trained, path, tmp_path)
    assert np.mean(whole) > np.mean(part) + 0.05


def test_every_flagged_row_is_searched_for_reasons(mixed: TableModel, tmp_path: Path) -> None:
    """With a high rate, rows with p-values above 0.05 are flagged too."""
    rows = mixed_rows(40, seed=5)
    for i, row in enumerate(rows):
        row[6] = f"{float(row[4]) + (0.5 if i % 2 else 3):.4f}"
    score_file(mixed, write_rows(tmp_path / "new.csv", rows), tmp_path / "out.csv", fdr=0.9)
    flagged = [row for row in read(tmp_path / "out.csv") if row["flagged"] == "true"]
    late = [row for row in flagged if float(row["p_value"]) > 0.05]
    assert late
    assert sum(bool(row["reasons"]) for row in late) > len(late) / 2
