"""Scoring files: rows are read like the training data, and bad rows are reported one by one."""

import csv
import json
import math
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from PIL import Image
from pyarrow import parquet
from torch import nn

from paper.data import Chain, DataError, Digits, Identity, ImageFolder, Table
from fdsm.objectives import SSMVR
from fdsm.tables.outliers import benjamini_hochberg
from paper.recipes import VAE, Autoencoder
from paper.runs import RunError, SavedModel, evaluate, score
from fdsm.tables.scoring import default_scores_path, score_file

from paper.tests.recipes.recipe_cases import silent, tiny
from paper.tests.runs.run_cases import (
    MIXED_HEADER,
    StandardNormal,
    known_model,
    mixed_row,
    train_table,
    write_mixed_table,
    write_table,
)

COLUMNS = ("score", "p_value", "log_density", "flagged", "reasons", "problem")
"""The columns that are added to a table."""


@pytest.fixture
def saved(tmp_path: Path) -> SavedModel:
    """The log-density -‖x‖²/2 of a table with the columns a and b, calibrated on ten rows."""
    source = Table(write_table(tmp_path / "train.csv"), transform=Identity())
    return known_model(tmp_path / "run", StandardNormal(), replace(tiny, data=source))


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> SavedModel:
    """The default model of a table with an identifier, dates, categories and gaps."""
    torch.set_default_dtype(torch.float32)
    folder = tmp_path_factory.mktemp("mixed")
    found = train_table(folder / "run", write_mixed_table(folder / "train.csv"))
    evaluate(found, found.run.recipe.data.load(), silent)
    return found


def read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write_rows(path: Path, rows: Iterable[list[str]]) -> Path:
    path.write_text("\n".join([MIXED_HEADER, *map(",".join, rows)]) + "\n", encoding="utf-8")
    return path


def test_scores_are_added_to_the_columns_of_the_table(saved: SavedModel, tmp_path: Path) -> None:
    new, out = tmp_path / "new.csv", tmp_path / "sub" / "scores.csv"
    new.write_text("a,b\n0,0.50\n1,1\n30,40\n")
    summary = score_file(saved, new, out)
    rows = read(out)
    assert tuple(rows[0]) == ("a", "b", *COLUMNS)
    assert [(row["a"], row["b"]) for row in rows] == [("0", "0.50"), ("1", "1"), ("30", "40")]
    assert [float(row["log_density"]) for row in rows] == pytest.approx([-0.125, -1, -1250])
    expected = saved.score(torch.tensor([[0.0, 0.5], [1.0, 1.0], [30.0, 40.0]]))
    assert [float(row["p_value"]) for row in rows] == pytest.approx(expected.p_value.tolist())
    assert [float(row["score"]) for row in rows] == pytest.approx(expected.score.tolist())
    assert float(rows[2]["p_value"]) == pytest.approx(1 / 11)
    assert summary == {
        "rows": 3,
        "flagged": 0,
        "false_discovery_rate": 0.1,
        "not_scored": 0,
        "smallest_possible_p_value": 0.091,
    }


def test_only_scores_have_the_number_of_the_row(
    saved: SavedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(score, "BLOCK", 2)
    new, out = tmp_path / "new.csv", tmp_path / "scores.csv"
    new.write_text("a,b\n0,0\n1,1\n2,2\n3,3\n0,4\n")
    score_file(saved, new, out, only_scores=True)
    rows = read(out)
    assert tuple(rows[0]) == ("row", *COLUMNS)
    assert [row["row"] for row in rows] == ["1", "2", "3", "4", "5"]
    assert [float(row["log_density"]) for row in rows] == pytest.approx([0, -1, -4, -9, -8])


def test_columns_are_found_by_name_in_any_order(saved: SavedModel, tmp_path: Path) -> None:
    new, out = tmp_path / "new.csv", tmp_path / "scores.csv"
    new.write_text("note,b,id,a\nx,0,7,2\ny,4,8,0\n")
    score_file(saved, new, out)
    rows = read(out)
    assert [float(row["log_density"]) for row in rows] == pytest.approx([-2, -8])
    assert [row["note"] for row in rows] == ["x", "y"]


def test_columns_of_the_same_name_are_kept(saved: SavedModel, tmp_path: Path) -> None:
    new, out = tmp_path / "new.csv", tmp_path / "scores.csv"
    new.write_text("a,score,b\n0,mine,2\n")
    for _ in range(2):  # the file is recognized as scores the second time
        score_file(saved, new, out)
    (row,) = read(out)
    assert row["score"] == "mine"
    assert float(row["fdsm_score"]) == pytest.approx(
        saved.score(torch.tensor([[0.0, 2.0]])).score.item()
    )


def test_model_without_filling_does_not_score_rows_with_missing_cells(
    saved: SavedModel, tmp_path: Path
) -> None:
    new, out = tmp_path / "new.csv", tmp_path / "scores.csv"
    new.write_text("a,b\n1,1\n,2\n0,twelve\n2,0\n1,inf\n3\n0,4\n,\n")
    summary = score_file(saved, new, out)
    assert (summary["rows"], summary["not_scored"]) == (8, 5)
    rows = read(out)
    scored = {i: float(row["log_density"]) for i, row in enumerate(rows) if row["log_density"]}
    assert scored == pytest.approx({0: -1, 3: -2, 6: -8})
    texts = {
        1: "a cell is missing",
        2: "b: 'twelve' is not a number",
        4: "b: 'inf' is too large a number",
        5: "has 1 cells instead of 2",
        7: "all cells are missing",
    }
    for number, text in texts.items():
        assert text in rows[number]["problem"]
        assert {rows[number][name] for name in COLUMNS[:5]} == {""}
    assert all(rows[i]["problem"] == "" for i in scored)


def test_rows_that_are_not_scored_do_not_change_the_flags(
    saved: SavedModel, tmp_path: Path
) -> None:
    """Three far rows have p = 1/11. They pass a rate of 0.1 only if they are all the rows."""
    far = "\n".join(["a,b", *["30,40"] * 3])
    for name, text in {"good.csv": far, "gaps.csv": far + "\n1,\n" * 3}.items():
        (tmp_path / name).write_text(text + "\n")
    flagged = [
        score_file(saved, tmp_path / name, tmp_path / f"out-{name}", fdr=0.1)["flagged"]
        for name in ("good.csv", "gaps.csv")
    ]
    assert flagged == [3, 3]


def test_arrays_are_scored_with_their_columns(saved: SavedModel, tmp_path: Path) -> None:
    new, out = tmp_path / "new.npy", tmp_path / "scores.csv"
    np.save(new, np.array([[1.0, 1.0], [np.nan, 0.0], [0.0, 2.0]]))
    summary = score_file(saved, new, out)
    assert summary["not_scored"] == 1
    rows = read(out)
    assert rows[1]["log_density"] == ""
    assert [float(rows[i]["log_density"]) for i in (0, 2)] == pytest.approx([-1, -2])
    assert tuple(rows[0]) == ("0", "1", *COLUMNS)


def test_file_without_a_good_row_is_refused(saved: SavedModel, tmp_path: Path) -> None:
    new, out = tmp_path / "new.csv", tmp_path / "scores.csv"
    new.write_text("a,b\nx,1\n1,y\n")
    with pytest.raises(
        DataError, match=r"no row can be scored. First problem: a: 'x' is not a number"
    ):
        score_file(saved, new, out)
    assert not out.exists()


def test_missing_columns_are_named(saved: SavedModel, tmp_path: Path) -> None:
    new = tmp_path / "new.csv"
    new.write_text("a,c\n1,2\n3,4\n")
    with pytest.raises(DataError, match=r"'b'"):
        score_file(saved, new, tmp_path / "scores.csv")
    assert not (tmp_path / "scores.csv").exists()


def test_rows_of_another_width_are_refused(saved: SavedModel, tmp_path: Path) -> None:
    new = tmp_path / "wide.npy"
    np.save(new, np.zeros((4, 3)))
    with pytest.raises(DataError, match=r"columns differ from those of the training data"):
        score_file(saved, new, tmp_path / "scores.csv")


def test_only_files_with_scores_are_overwritten(saved: SavedModel, tmp_path: Path) -> None:
    new, out = tmp_path / "new.csv", tmp_path / "scores.csv"
    new.write_text("a,b\n1,1\n")
    for content in ("my notes\n", "", "row,log_density\n1,2\n"):
        out.write_text(content)
        with pytest.raises(FileExistsError, match=f"{out} exists and does not hold scores"):
            score_file(saved, new, out)
        assert out.read_text() == content
    with pytest.raises(FileExistsError):
        score_file(saved, new, new)
    assert new.read_text() == "a,b\n1,1\n"
    for content in (
        "row,log_density,typicality,p_value,problem\n1,2,0,1,\n",  # of fdsm 0.2.0
        ",".join(COLUMNS) + "\n",
    ):
        out.write_text(content)
        score_file(saved, new, out)
        assert [float(row["log_density"]) for row in read(out)] == pytest.approx([-1])


def test_foreign_parquet_files_are_not_overwritten(saved: SavedModel, tmp_path: Path) -> None:
    new, out = write_table(tmp_path / "new.csv"), tmp_path / "scores.parquet"
    parquet.write_table(pa.table({"p_value": [1.0], "log_density": [1.0], "problem": [""]}), out)
    before = out.read_bytes()
    with pytest.raises(FileExistsError, match="does not hold scores"):
        score_file(saved, new, out)
    assert out.read_bytes() == before
    out.unlink()
    for _ in range(2):
        score_file(saved, new, out)
    assert len(parquet.read_table(out)) == 100


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_failure_leaves_the_old_scores(
    suffix: str, saved: SavedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second block cannot be written."""
    new, folder = write_table(tmp_path / "new.csv"), tmp_path / "out"
    out = folder / f"scores{suffix}"
    score_file(saved, new, out)
    before = out.read_bytes()
    monkeypatch.setattr(score, "BLOCK", 40)
    columns = score._columns

    def fail(scored: score.ScoredRows, start: int, count: int) -> "dict[str, pa.Array]":
        if start:
            raise OSError(28, "No space left on device")
        return columns(scored, start, count)

    monkeypatch.setattr(score, "_columns", fail)
    with pytest.raises(OSError, match="No space left on device") as error:
        score_file(saved, new, out)
    assert error.value.filename == str(out)
    assert out.read_bytes() == before
    assert list(folder.iterdir()) == [out]


@pytest.mark.parametrize("name", ["scores.txt", "folder"])
def test_other_formats_are_refused(name: str, saved: SavedModel, tmp_path: Path) -> None:
    new = write_table(tmp_path / "new.csv")
    (tmp_path / "folder").mkdir()
    with pytest.raises(ValueError, match=r"can be written as \.csv or \.parquet, not"):
        score_file(saved, new, tmp_path / name)


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


def test_images_are_named_and_resized_to_the_training_images(tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    photos.mkdir()
    for i in range(12):
        Image.new("L", (20, 20), 20 * i).save(photos / f"{i:02d}.png")
    source = ImageFolder(photos, size=4, transform=Identity())
    saved = known_model(tmp_path / "run", StandardNormal(), replace(tiny, data=source))
    score_file(saved, photos, tmp_path / "scores.csv")
    rows = read(tmp_path / "scores.csv")
    assert [row["row"] for row in rows] == [f"{i:02d}.png" for i in range(12)]
    (photos / "00.png").rename(photos / "=1+1.png")
    score_file(saved, photos, tmp_path / "formula.csv")
    formula = read(tmp_path / "formula.csv")[-1]
    assert (formula["row"], float(formula["log_density"])) == ("./=1+1.png", 0.0)
    expected = [-16 * (20 * i) ** 2 / 2 for i in range(12)]
    assert [float(row["log_density"]) for row in rows] == pytest.approx(expected)
    new = tmp_path / "new.csv"
    new.write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match=r"is a table, but .* was trained on images"):
        score_file(saved, new, tmp_path / "other.csv")


def test_images_of_another_scale_are_refused(tmp_path: Path) -> None:
    recipe = replace(tiny, data=Digits(transform=Identity()))
    saved = known_model(tmp_path / "run", StandardNormal(), recipe)
    np.save(tmp_path / "new.npy", np.full((3, 8, 8), 255, dtype=np.uint8))
    with pytest.raises(DataError, match=r"values up to 255, but .* integers up to 16"):
        score_file(saved, tmp_path / "new.npy", tmp_path / "scores.csv")


def test_table_of_a_model_is_not_compared_with_images(saved: SavedModel, tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    Image.new("L", (4, 4)).save(tmp_path / "photos" / "a.png")
    with pytest.raises(DataError, match=r"holds images, but .* was trained on a table"):
        score_file(saved, tmp_path / "photos", tmp_path / "scores.csv")


def test_recipe_without_a_log_density_says_so(tmp_path: Path) -> None:
    recipe = Autoencoder("auto", SSMVR(), VAE, Digits(transform=Chain(())), latent=2, width=4)
    saved = known_model(tmp_path / "run", nn.Identity(), recipe)
    np.save(tmp_path / "new.npy", np.zeros((3, 8, 8), dtype=np.uint8))
    with pytest.raises(RunError, match=r"no log-density, so it cannot score rows"):
        score_file(saved, tmp_path / "new.npy", tmp_path / "scores.csv")
    assert not (tmp_path / "scores.csv").exists()


def test_blocks_of_a_file_give_the_same_scores(
    mixed: SavedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With gaps, a ragged row and unknown values in different blocks."""
    x = torch.randn(23, 2, generator=torch.Generator().manual_seed(1)).tolist()
    rows = [mixed_row(i, a, b) for i, (a, b) in enumerate(x)]
    rows[3][4] = rows[12][6] = ""
    rows[8] = ["k0008", "2024-01-01"]
    rows[15][2] = "purple"
    rows[22][6] = "9.5"
    new = write_rows(tmp_path / "new.csv", rows)
    files = []
    for block in (1000, 5):
        monkeypatch.setattr(score, "BLOCK", block)
        files.append(tmp_path / f"{block}.csv")
        score_file(mixed, new, files[-1])
    whole, streamed = map(read, files)
    numbers = ("score", "p_value", "log_density")
    for one, other in zip(whole, streamed, strict=True):
        assert [one[k] for k in one if k not in numbers] == [
            other[k] for k in other if k not in numbers
        ]
        values = ([float(row[k] or "nan") for k in numbers] for row in (one, other))
        assert next(values) == pytest.approx(next(values), rel=1e-4, abs=1e-4, nan_ok=True)
    assert whole[22]["reasons"].startswith("c is 9.5")
    assert whole[8]["problem"] == "has 2 cells instead of 7"


def test_only_the_most_unusual_rows_of_a_large_file_get_reasons(
    mixed: SavedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All rows are outliers of different size; two of them are explained so far as they come."""
    sizes = [6, 9, 7, 8, 5, 20, 4, 30]
    rows = [mixed_row(i, 0.8, 0.0) for i in range(len(sizes))]
    for row, size in zip(rows, sizes, strict=True):
        row[6] = str(size)
    monkeypatch.setattr(score, "BLOCK", 4)
    monkeypatch.setattr(score, "EXPLAINED_ROWS", 2)
    score_file(mixed, write_rows(tmp_path / "new.csv", rows), tmp_path / "scores.csv")
    found = read(tmp_path / "scores.csv")
    order = np.argsort([float(row["score"]) for row in found])
    assert order.tolist() == np.argsort(sizes).tolist()
    assert [bool(row["reasons"]) for row in found] == [s in {9, 8, 20, 30} for s in sizes]


def test_parquet_keeps_types_and_has_the_scores_of_the_text(
    mixed: SavedModel, tmp_path: Path
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
        assert found[name].to_pylist() == pytest.approx(values, rel=1e-4, abs=1e-4)
    score_file(mixed, tmp_path / "new.parquet", tmp_path / "c.csv")
    assert [row["score"] for row in read(tmp_path / "c.csv")] == pytest.approx([
        row["score"] for row in expected
    ])


def test_missing_cells_are_scored_and_empty_rows_are_not(
    mixed: SavedModel, tmp_path: Path
) -> None:
    rows = [mixed_row(i, 0.8, 0.0) for i in range(3)]
    rows[1][4] = rows[1][2] = ""
    rows[2] = ["k0002", "", "", "kg", "", "", ""]
    new = write_rows(tmp_path / "new.csv", rows)
    summary = score_file(mixed, new, tmp_path / "scores.csv")
    complete, gaps, empty = read(tmp_path / "scores.csv")
    assert summary["not_scored"] == 1
    assert (gaps["a"], gaps["kind"]) == ("", "")
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
    column: int, value: str, reason: str, mixed: SavedModel, tmp_path: Path
) -> None:
    """The score is that of the row with an empty cell plus log10(n + 1), and p = 1/(n + 1)."""
    rows = [mixed_row(i, 0.8, 0.1) for i in range(2)]
    rows[1][1] = rows[0][1]
    rows[0][column], rows[1][column] = "" if column != 3 else "kg", value
    score_file(mixed, write_rows(tmp_path / "new.csv", rows), tmp_path / "scores.csv")
    usual, new = read(tmp_path / "scores.csv")
    assert new["reasons"].startswith(reason)
    assert new["problem"] == ""
    difference = float(new["score"]) - float(usual["score"])
    assert difference == pytest.approx(math.log10(201), abs=1e-4)
    assert float(new["p_value"]) == pytest.approx(1 / 201, rel=1e-5)
    assert float(usual["p_value"]) > 0.1
    assert usual["reasons"] == ""


def test_flags_are_those_of_benjamini_hochberg(mixed: SavedModel, tmp_path: Path) -> None:
    """Eight of 40 rows contradict the relation between a and c."""
    x = torch.randn(40, 2, generator=torch.Generator().manual_seed(5)).tolist()
    rows = [mixed_row(i, a, b) for i, (a, b) in enumerate(x)]
    for row in rows[::5]:
        row[6] = f"{float(row[4]) + 4:.4f}"
    new = write_rows(tmp_path / "new.csv", rows)
    for rate in (0.05, 0.3):
        summary = score_file(mixed, new, tmp_path / "scores.csv", fdr=rate)
        found = read(tmp_path / "scores.csv")
        p = torch.tensor([float(row["p_value"]) for row in found])
        flagged = [row["flagged"] == "true" for row in found]
        assert flagged == benjamini_hochberg(p, rate).tolist()
        assert summary["flagged"] == sum(flagged)
        assert all(flagged[::5])
        assert all("c is" in row["reasons"] for row in found[::5])
    with pytest.raises(ValueError, match="between 0 and 1, but is 2"):
        score_file(mixed, new, tmp_path / "scores.csv", fdr=2.0)


def test_record_for_the_report_has_the_most_unusual_rows(
    mixed: SavedModel, tmp_path: Path
) -> None:
    x = torch.randn(60, 2, generator=torch.Generator().manual_seed(5)).tolist()
    rows = [mixed_row(i, a, b) for i, (a, b) in enumerate(x)]
    for row in rows[::15]:
        row[6] = "6.0"
    rows[37][6] = "8.0"
    rows[11] = ["k0011"]
    new = write_rows(tmp_path / "new.csv", rows)
    score_file(mixed, new, tmp_path / "scores.csv")
    record = json.loads((mixed.run.folder / "scored" / "new.csv.json").read_text())
    assert (record["file"], record["rows"], record["fdr"]) == ("new.csv", 60, 0.1)
    assert len(record["top"]) == 20
    assert record["top"][0]["row"] == 38
    assert record["top"][0]["reasons"][0]["column"] == "c"
    found = read(tmp_path / "scores.csv")
    scores = [float(row["score"] or "-inf") for row in found]
    assert [one["score"] for one in record["top"]] == pytest.approx(
        sorted(scores, reverse=True)[:20], rel=1e-6
    )
    flagged = [s for s, row in zip(scores, found, strict=True) if row["flagged"] == "true"]
    assert record["flagged"] == len(flagged)
    assert record["threshold"] == pytest.approx(min(flagged), rel=1e-6)
    for one in record["top"]:
        assert one["flagged"] == (found[one["row"] - 1]["flagged"] == "true")
    reason = record["top"][0]["reasons"][0]
    assert (reason["value"], type(reason["expected"])) == ("8", float)
    counted = record["score_histogram"]
    assert sum(counted["counts"]) + counted["below"] + counted["above"] == 59


def scores_of_all_and_some_training_rows(
    saved: SavedModel, folder: Path
) -> tuple[list[float], list[float]]:
    """Score the training file, and the file without its last ten rows."""
    source = saved.run.recipe.data
    assert isinstance(source, Table)
    lines = Path(source.path).read_text(encoding="utf-8").splitlines()
    scores = []
    for count in (len(lines), len(lines) - 10):
        path = folder / f"{count}.csv"
        path.write_text("\n".join(lines[:count]) + "\n", encoding="utf-8")
        score_file(saved, path, folder / "out.csv")
        scores.append([float(row["score"]) for row in read(folder / "out.csv")])
    return scores[0][:-10], scores[1]


def test_training_rows_are_not_their_own_neighbors_in_any_file(
    mixed: SavedModel, tmp_path: Path
) -> None:
    """The training rows are different, so a copy of a row is that row.

    Rounding depends on the number of rows, and may change the rank among 200 rows by one.
    """
    whole, part = scores_of_all_and_some_training_rows(mixed, tmp_path)
    assert part == pytest.approx(whole, abs=0.02)


def test_the_training_file_is_recognized_if_its_rows_repeat(tmp_path: Path) -> None:
    """In another file, copies of rows that repeat are expected, and normal."""
    x = torch.randint(0, 7, (150, 2), generator=torch.Generator().manual_seed(0)).tolist()
    path = tmp_path / "train.csv"
    path.write_text("\n".join(["a,b", *(f"{a},{b}" for a, b in x)]) + "\n", encoding="utf-8")
    saved = train_table(tmp_path / "run", path)
    whole, part = scores_of_all_and_some_training_rows(saved, tmp_path)
    assert np.mean(whole) > np.mean(part) + 0.1


def test_every_flagged_row_is_searched_for_reasons(mixed: SavedModel, tmp_path: Path) -> None:
    """With a high rate, rows with p-values above 0.05 are flagged too."""
    x = torch.randn(40, 2, generator=torch.Generator().manual_seed(5)).tolist()
    rows = [mixed_row(i, a, b) for i, (a, b) in enumerate(x)]
    for i, row in enumerate(rows):
        row[6] = f"{float(row[4]) + (0.5 if i % 2 else 3):.4f}"
    score_file(mixed, write_rows(tmp_path / "new.csv", rows), tmp_path / "out.csv", fdr=0.9)
    flagged = [row for row in read(tmp_path / "out.csv") if row["flagged"] == "true"]
    late = [row for row in flagged if float(row["p_value"]) > 0.05]
    assert late
    assert sum(bool(row["reasons"]) for row in late) > len(late) / 2
