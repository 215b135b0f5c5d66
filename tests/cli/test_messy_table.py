"""A table with an identifier, dates, categories, a constant, gaps and free text, in all commands.

No command gets an option that a new user would not know.
"""

import re
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from fdsm.tables import TableModel

from .cli_cases import (
    QUICK,
    read_csv,
    run_fails,
    run_json,
    run_text,
    write_measurements,
    write_messy,
)

COLUMNS = ["id", "date", "city", "unit", "length", "weight", "sold", "note"]
SCORES = ["score", "p_value", "log_density", "flagged", "reasons", "problem"]


@pytest.fixture
def new(tmp_path: Path) -> Path:
    """A table with an unusual weight, an unknown city, another unit and an impossible number."""
    planted = {"weight": "60", "city": "Tokyo", "unit": "inch", "length": "long"}
    return write_messy(tmp_path / "new.csv", 50, seed=1, **planted)


@pytest.mark.usefixtures("quick")
def test_types_are_shown_in_the_output_and_in_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_messy(tmp_path / "messy.csv", length="unknown")
    out, _ = run_text(["train", str(path), *QUICK], capsys)
    unreadable = "cells of length that cannot be read and count as missing: 1"
    assert out.splitlines()[1:8] == [
        "Table: 200 rows, 8 columns. 2.1 % of the cells are missing.",
        "  2 numeric: length, weight",
        "  2 categorical: city, sold",
        "  1 date: date",
        "  1 constant: unit",
        "  2 not used: id (unique per row), note (unique per row)",
        f"  {unreadable}.",
    ]
    result = run_json(["train", str(path), *QUICK], capsys)
    columns = {column["name"]: column for column in result["columns"]}
    assert list(columns) == COLUMNS
    assert columns["weight"]["type"] == "Numeric"
    assert columns["weight"]["missing"] == 20
    assert columns["unit"]["details"] == "always mm"
    assert result["unreadable_cells"] == [unreadable]


def test_planted_rows_are_found_with_their_reasons(
    messy_model: Path, new: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The weight is far from twice the length. The other values never occurred in training."""
    run_json(["score", str(messy_model), str(new)], capsys)
    rows = read_csv(new.with_name("new.scores.csv"))
    assert list(rows[0]) == [*COLUMNS, *SCORES]
    assert [row["id"] for row in rows] == [f"1-{i:04d}" for i in range(50)]
    scores = np.array([float(row["score"]) for row in rows])
    assert set(scores.argsort()[-6:]) >= {0, 1, 2, 3}
    assert scores[:4].min() > np.log10(201)
    for row in rows[:4]:
        assert float(row["p_value"]) == pytest.approx(1 / 201)
    reasons = [row["reasons"] for row in rows]
    assert reasons[0].startswith("weight is 60 (expected about ")
    expected = re.findall(r"about (.*), (.*) to (.*)\)$", reasons[0])[0]
    assert [*map(float, expected)] == pytest.approx([2 * float(rows[0]["length"])] * 3, abs=1)
    assert reasons[1].startswith("city: 'Tokyo' does not occur in the training data")
    assert reasons[2].startswith("unit: ")
    assert reasons[3].startswith("length: 'long' is not a number")
    assert not any(row["problem"] for row in rows)
    others = [float(row["p_value"]) for row in rows[4:]]
    assert 0.3 < np.mean(others) < 0.7


def test_flagged_rows_are_counted_in_a_sentence(
    messy_model: Path, new: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Benjamini-Hochberg: four p-values of 1/201 are below 0.1 · 4/50 and above 0.01 · 4/50."""
    _, log = run_text(["score", str(messy_model), str(new)], capsys)
    path = new.with_name("new.scores.csv")
    flagged = sum(row["flagged"] == "true" for row in read_csv(path))
    assert flagged >= 4
    sentence = f"Wrote {path}: 50 rows, {flagged} flagged at a false discovery rate of"
    assert f"{sentence} 10 %. Sort by the column score.\n" in log
    _, log = run_text(["score", str(messy_model), str(new), "--fdr", "0.01"], capsys)
    assert f"Wrote {path}: 50 rows, 0 flagged at a false discovery rate of 1 %." in log
    assert "The smallest possible p-value is 0.005" in log
    assert "At least 25 rows of this file must be that unusual" in log
    assert {row["flagged"] for row in read_csv(path)} == {"false"}


@pytest.mark.parametrize("rate", ["0", "1", "-0.1", "1.5"])
def test_false_discovery_rate_is_a_fraction(
    rate: str, messy_model: Path, new: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, error = run_fails(["score", str(messy_model), str(new), "--fdr", rate], capsys)
    assert code == 2
    assert f"--fdr must be between 0 and 1, but is {float(rate)}" in error
    assert not new.with_name("new.scores.csv").exists()


def test_only_scores_are_written_on_request(
    messy_model: Path, new: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_json(["score", str(messy_model), str(new)], capsys)
    run_json(["score", str(messy_model), str(new), "--only-scores", "--out", "s.csv"], capsys)
    rows, whole = read_csv(Path("s.csv")), read_csv(new.with_name("new.scores.csv"))
    assert list(rows[0]) == ["row", *SCORES]
    assert [row["row"] for row in rows] == [str(i) for i in range(1, 51)]
    assert [row["score"] for row in rows] == [row["score"] for row in whole]


def test_parquet_is_written_by_the_suffix(
    messy_model: Path, new: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_json(["score", str(messy_model), str(new), "--out", "s.parquet"], capsys)
    run_json(["score", str(messy_model), str(new)], capsys)
    table, rows = pq.read_table("s.parquet"), read_csv(new.with_name("new.scores.csv"))
    assert table.column_names == [*COLUMNS, *SCORES]
    assert [str(table.schema.field(name).type) for name in SCORES] == [
        "double", "double", "double", "bool", "string", "string",
    ]  # fmt: skip
    assert table["score"].to_pylist() == [float(row["score"]) for row in rows]
    code, error = run_fails(["score", str(messy_model), str(new), "--out", "s.xlsx"], capsys)
    assert code == 1
    assert "scores can be written as .csv or .parquet, not '.xlsx'" in error
    assert not Path("s.xlsx").exists()


def test_samples_look_like_the_table(
    messy_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, log = run_text(["sample", str(messy_model), "-n", "80", "--out", "samples.csv"], capsys)
    assert log.endswith("Wrote samples.csv: 80 samples of 8 columns.\n")
    rows = read_csv(Path("samples.csv"))
    assert len(rows) == 80
    assert list(rows[0]) == COLUMNS
    assert {row["city"] for row in rows} == {"Berlin", "Paris", "Rome"}
    assert {row["unit"] for row in rows} == {"mm"}
    assert {row["sold"] for row in rows} == {"true", "false"}
    assert {row["id"] for row in rows} == {""}
    assert all(row["date"][:2] == "20" and len(row["date"]) == 10 for row in rows)
    pairs = [(float(r["length"]), float(r["weight"])) for r in rows if r["weight"]]
    assert 55 <= len(pairs) < 80  # a tenth of the weights is missing
    assert np.corrcoef(np.array(pairs).T)[0, 1] > 0.5


def test_page_names_the_unusual_column(
    messy_model: Path, new: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_json(["score", str(messy_model), str(new)], capsys)
    run_text(["report", str(messy_model), "new.scores.csv"], capsys)
    page = Path("report.html").read_text(encoding="utf-8")
    for words in ("new.scores.csv", "Tokyo", "weight", "city"):
        assert words in page, words


@pytest.mark.usefixtures("quick")
def test_types_of_columns_can_be_chosen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "codes.csv"
    rng = np.random.default_rng(0)
    lines = [
        f"{rng.choice([10, 20, 30])},{x:.2f},{x * x:.2f},{-x:.2f}" for x in rng.normal(size=60)
    ]
    path.write_text("\n".join(["zip,a,b,c", *lines]))
    options = ["--categorical", "zip", "--ignore", "b,c"]
    result = run_json(["train", str(path), *QUICK, *options, "--out", "chosen"], capsys)
    types = {column["name"]: column["type"] for column in result["columns"]}
    assert types == {"zip": "Categorical", "a": "Numeric", "b": "Ignored", "c": "Ignored"}
    assert TableModel.load("chosen").schema.describe() == (
        "1 numeric (a), 1 categorical (zip), 2 ignored (b: by request, c: by request)"
    )
    run_json(["sample", "chosen", "-n", "30", "--out", "samples.csv"], capsys)
    rows = read_csv(Path("samples.csv"))
    assert list(rows[0]) == ["zip", "a", "b", "c"]
    assert {row["zip"] for row in rows} <= {"10", "20", "30"}
    assert {row["b"] + row["c"] for row in rows} == {""}


@pytest.mark.usefixtures("quick")
def test_numeric_overrules_a_column_with_many_texts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mixed.csv"
    rng = np.random.default_rng(0)
    cells = ["n/k" if i % 3 == 0 else f"{x:.3f}" for i, x in enumerate(rng.normal(size=60))]
    path.write_text("\n".join(["a,b", *(f"{rng.normal():.3f},{cell}" for cell in cells)]))
    result = run_json(["train", str(path), *QUICK], capsys)
    assert result["columns"][1]["type"] == "Ignored"
    assert result["columns"][1]["details"].startswith("numbers and text")
    result = run_json(["train", str(path), *QUICK, "--numeric", "b"], capsys)
    assert result["columns"][1]["type"] == "Numeric"
    assert result["unreadable_cells"] == [
        "cells of b that cannot be read and count as missing: 20"
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--ignore", "lenght"], "there is no column 'lenght'. Did you mean 'length'?"),
        (["--ignore", "a,b"], "ignore: there is no column 'a'; ignore: there is no column 'b'"),
        (["--numeric", "city", "--categorical", "city"], "'city' is given as categorical and as"),
        (["--numeric", "city"], "column 'city' is given as numeric, but none of its cells is a"),
        (
            ["--ignore", "date,city,length,weight,sold,note"],
            "no column can be used: 1 constant (unit), 7 ignored (id: ",
        ),
    ],
)
def test_wrong_names_of_columns_are_listed_in_one_line(
    options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_messy(tmp_path / "messy.csv", 40)
    code, error = run_fails(["train", str(path), *QUICK, *options], capsys)
    assert code == 1
    assert message in error
    assert error.endswith(". Choose columns with --categorical, --numeric or --ignore\n")
    assert error.count("\n") == 2  # the first line is that the file was read
    assert not Path("runs").exists()


def repeated(header: str, line: str) -> bytes:
    return "\n".join([header, *[line] * 40]).encode()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("binary.csv", bytes(range(256)) * 8, "is not a text file but binary"),
        ("broken.parquet", b"PAR1 nothing", "is not a readable parquet file"),
        ("prose.csv", b"A letter.\nIt has, as you see, commas.\n", "a wrong number of cells"),
        ("empty.csv", b"", "is empty"),
        ("header.csv", b"a,b\n", "has a header but no rows"),
        ("one.csv", b"a,b\n1,2\n", "one.csv"),
        ("gaps.csv", repeated("a,b", ","), "no column can be used: 2 empty (a, b)"),
        ("zeros.csv", repeated("a,b", "0,0"), "no column can be used: 2 constant"),
        ("twice.csv", repeated("a,a", "1,2"), "more than one column is called 'a'"),
    ],
)  # fmt: skip
def test_file_that_is_no_table_is_refused_and_leaves_nothing(
    name: str,
    content: bytes,
    message: str,
    messy_model: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    code, error = run_fails(["train", str(path), *QUICK], capsys)
    assert code == 1
    assert message in error
    assert error.splitlines()[-1].startswith("fdsm: ")
    assert error.count("fdsm: ") == 1
    assert [p.name for p in tmp_path.iterdir()] == [name]
    code, error = run_fails(["score", str(messy_model), str(path)], capsys)
    assert code == 1
    assert name in error.splitlines()[-1]
    assert error.splitlines()[-1].startswith("fdsm: ")
    assert [p.name for p in tmp_path.iterdir()] == [name]


@pytest.mark.usefixtures("quick")
def test_column_without_values_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "hole.csv"
    rng = np.random.default_rng(0)
    rows = [f"{a:.3f},,{b:.3f}" for a, b in rng.normal(size=(60, 2))]
    path.write_text("\n".join(["a,hole,b", *rows]))
    out, _ = run_text(["train", str(path), *QUICK], capsys)
    assert "Table: 60 rows, 3 columns.\n  2 numeric: a, b\n" in out
    assert "  1 not used: hole (all cells are missing)\n" in out
    run_json(["sample", "runs/hole", "-n", "5"], capsys)
    assert {row["hole"] for row in read_csv(Path("runs/hole.samples.csv"))} == {""}


def test_other_columns_are_all_named_and_nothing_is_written(
    messy_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = write_measurements(tmp_path / "other.csv")
    code, error = run_fails(["score", str(messy_model), str(other)], capsys)
    assert code == 1
    for name in ("date", "city", "sold"):
        assert name in error, name
    assert "--" not in error
    assert error.count("fdsm: ") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["other.csv"]


def test_columns_of_another_type_are_refused(
    messy_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every cell of a numeric column is text: this is another table."""
    path = write_messy(tmp_path / "swapped.csv", 50)
    header, *lines = path.read_text().splitlines()
    cells = [line.split(",") for line in lines]
    for row in cells:
        row[4], row[2] = row[2], row[4]
    path.write_text("\n".join([header, *(",".join(row) for row in cells)]))
    code, error = run_fails(["score", str(messy_model), str(path)], capsys)
    assert code == 1
    assert "column 'length' is text such as " in error
    assert "but was numeric" in error
    assert not path.with_name("swapped.scores.csv").exists()


def test_wrong_rows_are_not_scored_and_kept(
    messy_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_messy(tmp_path / "ragged.csv", 20, seed=2)
    lines = path.read_text().splitlines()
    lines[3] += ",7,7"
    path.write_text("\n".join(lines))
    _, log = run_text(["score", str(messy_model), str(path)], capsys)
    assert "1 not scored." in log
    rows = read_csv(path.with_name("ragged.scores.csv"))
    assert len(rows) == 20
    assert [i for i, row in enumerate(rows) if row["problem"]] == [2]
    assert rows[2]["score"] == ""
