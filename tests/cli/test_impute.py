"""`fdsm impute`: cells that are present stay byte for byte, and gaps are filled."""

import csv
from pathlib import Path

import numpy as np
import pytest
import torch
from pyarrow import parquet

from fdsm.cli import main
from fdsm.tables import TableModel, scoring

from .cli_cases import run_fails, run_json, run_text

HEADER = ["id", "time", "price", "kind", "sold", "a", "b"]


def rows_of(count: int, seed: int) -> list[list[str]]:
    """Return rows with a time, a price, categories that it determines, and a + b = 10."""
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(count):
        price, a = rng.gamma(3, 2), rng.uniform(0, 10)
        month, day, hour = rng.integers(1, 13), rng.integers(1, 28), rng.integers(24)
        rows.append([
            f"{seed}-{i}",
            f"2013-{month:02d}-{day:02d}T{hour:02d}:00:00Z",
            f"${price:.2f}",
            "cheap, simple" if price < 5 else "dear",
            "True" if price > 7 else "False",
            f"{a:.1f}",
            f"{10 - round(a, 1):.1f}",
        ])
    return rows


def write(path: Path, rows: list[list[str]]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([HEADER, *rows])
    return path


def read(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))[1:]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_default_dtype(torch.float32)
    folder = tmp_path_factory.mktemp("impute")
    table = write(folder / "train.csv", rows_of(400, 0))
    TableModel.fit(table, iterations=10).save(folder / "model")
    return folder / "model"


@pytest.fixture
def gaps() -> tuple[Path, list[list[str]], list[list[str]]]:
    """A file with a gap in each of its rows but the last ones, its rows, and the true rows."""
    truth = rows_of(60, 1)
    rows = [list(row) for row in truth]
    for i, row in enumerate(rows[:54]):
        row[1 + i % 6] = ("", "NA", "n/a")[i % 3]
    rows[54][3] = "unheard of"
    rows[55][5] = "a lot"
    rows[56][0] = ""
    return write(Path("new.csv"), rows), rows, truth


def test_gaps_are_filled_and_other_cells_stay(
    model: Path,
    gaps: tuple[Path, list[list[str]], list[list[str]]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    path, rows, truth = gaps
    before = path.read_bytes()
    printed, log = run_text(["impute", str(model), str(path)], capsys)
    assert path.read_bytes() == before
    lines = printed.splitlines()
    assert lines[0] == "time: 9 gaps filled; 0 % of its variance can be predicted"
    assert lines[2] == "kind: 9 gaps filled; more than 99 % of its categories are predicted right"
    assert lines[4] == "a: 9 gaps filled; more than 99 % of its variance can be predicted"
    assert lines[-1] == "Not filled, because the model does not use them: id"
    assert log.splitlines() == ["Filling the gaps of new.csv", "Wrote new.imputed.csv"]
    written = Path("new.imputed.csv").read_text().splitlines()
    right = 0
    for i, (row, filled) in enumerate(zip(rows, read(Path("new.imputed.csv")), strict=True)):
        if i >= 54:
            assert filled == row
            assert written[i + 1] == before.decode().splitlines()[i + 1]
            continue
        j = 1 + i % 6
        assert [cell for k, cell in enumerate(filled) if k != j] == [
            cell for k, cell in enumerate(row) if k != j
        ]
        if j >= 5:
            assert filled == truth[i]  # a + b = 10, with one decimal
        right += j in {3, 4} and filled == truth[i]
        if j == 1:
            assert filled[1][10] == "T"
            assert filled[1].endswith(":00:00Z")
        if j == 2:
            assert filled[2].startswith("$")
            assert len(filled[2].split(".")[1]) == 2
    assert right >= 15  # of 18 categories that the price determines


def test_draws_are_written_to_files_that_differ(
    model: Path,
    gaps: tuple[Path, list[list[str]], list[list[str]]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = str(gaps[0])
    result = run_json(["impute", str(model), path, "--draws", "3"], capsys)
    names = [f"new.imputed.{i}.csv" for i in (1, 2, 3)]
    assert result["files"] == names
    assert result["filled"] == {n: 9 for n in ("time", "price", "kind", "sold", "a", "b")}
    assert result["not_filled"] == ["id"]
    assert result["wrong_rows"] == 0
    assert result["certainty"]["a"] > 0.99
    contents = [Path(name).read_bytes() for name in names]
    assert len(set(contents)) == 3
    main(["impute", str(model), path, "--draws", "2"])  # replaces files of this name
    assert [Path(name).read_bytes() for name in names[:2]] == contents[:2]
    main(["impute", str(model), path, "--draws", "1", "--seed", "1", "--out", "x.csv"])
    assert Path("x.1.csv").read_bytes() not in contents


def test_blocks_give_the_same_file(
    model: Path,
    gaps: tuple[Path, list[list[str]], list[list[str]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    main(["impute", str(model), str(gaps[0]), "--out", "whole.csv"])
    monkeypatch.setattr(scoring, "BLOCK", 7)
    main(["impute", str(model), str(gaps[0]), "--out", "parts.csv"])
    assert Path("parts.csv").read_bytes() == Path("whole.csv").read_bytes()


def test_parquet_has_the_types_of_the_training_table(
    model: Path, gaps: tuple[Path, list[list[str]], list[list[str]]]
) -> None:
    path, rows, _ = gaps
    main(["impute", str(model), str(path), "--out", "text.parquet"])
    types = dict(zip(HEADER, map(str, parquet.read_schema("text.parquet").types), strict=True))
    assert types["time"] == "timestamp[ms, tz=UTC]"  # parquet has no seconds
    assert (types["a"], types["b"]) == ("string", "double")  # a cell of `a` is not a number
    rows[55][5] = "5.0"
    rows[55][6] = ""
    write(path, rows)
    main(["impute", str(model), str(path), "--out", "new.parquet"])
    table = parquet.read_table("new.parquet")
    assert table["a"].null_count == table["b"].null_count == 0
    np.testing.assert_allclose(table["a"].to_numpy() + table["b"].to_numpy(), 10)
    main(["impute", str(model), "new.parquet"])
    assert parquet.read_table("new.imputed.parquet").equals(table)


def test_rows_with_a_wrong_number_of_cells_stay(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(Path("ragged.csv"), [*rows_of(20, 2), ["short", "", "$3.00"]])
    printed, _ = run_text(["impute", str(model), str(path)], capsys)
    assert printed.splitlines()[0] == "There are no gaps in the columns that the model uses."
    assert printed.endswith("1 row has a wrong number of cells, and no gaps filled.\n")
    assert read(Path("ragged.imputed.csv"))[-1] == ["short", "", "$3.00", "", "", "", ""]


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--draws", "0"], 2, "--draws must be at least 1, but is 0"),
        (["--out", "x.txt"], 1, "tables can be written as .csv or .parquet, not '.txt'"),
        (["--out", "new.csv"], 1, "new.csv is the file with the gaps. Choose another file"),
        (["--out", "notes.csv"], 1, "notes.csv exists. Choose another file, or delete it first"),
        (["--out", "copy.imputed.csv"], 1, "has the training table of the model. Choose another"),
        (["--device", "cuda:99"], 2, "torch cannot use the device 'cuda:99' here"),
    ],
)
def test_files_are_protected_and_wrong_options_explained(
    options: list[str],
    code: int,
    message: str,
    model: Path,
    gaps: tuple[Path, list[list[str]], list[list[str]]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("notes.csv").write_text("mine")
    Path("copy.imputed.csv").write_bytes(model.with_name("train.csv").read_bytes())
    before = {path.name: path.read_bytes() for path in Path().iterdir()}
    given, error = run_fails(["impute", str(model), str(gaps[0]), *options], capsys)
    assert given == code
    assert message in error
    assert {path.name: path.read_bytes() for path in Path().iterdir()} == before


def test_tables_that_do_not_fit_leave_no_file(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("other.csv").write_text("x,y\n1,2\n")
    assert "columns 'time', 'price'" in run_fails(["impute", str(model), "other.csv"], capsys)[1]
    Path("empty.csv").write_text(",".join(HEADER) + "\n")
    assert (
        "empty.csv: there are no rows" in run_fails(["impute", str(model), "empty.csv"], capsys)[1]
    )
    assert {path.name for path in Path().iterdir()} == {"other.csv", "empty.csv"}
