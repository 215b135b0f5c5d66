"""Files of scores keep the cells of the user, and never destroy another file."""

import csv
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pyarrow as pa
import pytest
import torch
from pyarrow import parquet

from fdsm.tables import TableModel, scoring
from fdsm.tables.scoring import score_file

from .table_cases import normal_model, write_table

FORMULAS = ("=", "+", "-", "@", "\t", "\r", "＝")
"""How a formula of a spreadsheet begins."""


@pytest.fixture(scope="module")
def normal(tmp_path_factory: pytest.TempPathFactory) -> TableModel:
    """The log-density -‖x‖²/2 of a table with the columns a and b, calibrated on 100 rows."""
    return normal_model(write_table(tmp_path_factory.mktemp("normal") / "train.csv"))


def read(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


@pytest.mark.parametrize("block", [1, 2, 1000])
def test_all_cells_of_the_file_are_written(
    block: int, normal: TableModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of another length, missing markers, quotes and line breaks at the end of a block."""
    monkeypatch.setattr(scoring, "BLOCK", block)
    rows = [
        ["1", "2", "x"],
        ["3"],
        ["0.50", "NA", " y, z"],
        ["5", "6", "w", "extra", 'say "more"'],
        ["7", "8", "two\nlines\n\nand more"],
        ["-", "", "?"],
        ["0", "1", "nul"],
    ]
    new, out = tmp_path / "new.csv", tmp_path / "scores.csv"
    with new.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([["a", "b", "note"], *rows])
    score_file(normal, new, out)
    header, *found = read(out)
    assert header[:3] == ["a", "b", "note"]
    expected = [row + [""] * (3 - len(row)) for row in rows]
    expected[3] = ["5", "6", 'w,extra,say "more"']
    assert [row[:3] for row in found] == expected
    problems = {i: row[-1] for i, row in enumerate(found) if row[-1]}
    assert problems.pop(1) == "has 1 cells instead of 3"
    assert problems.pop(3) == "has 5 cells instead of 3"
    assert problems == {5: "all cells are missing"}
    score_file(normal, new, tmp_path / "scores.parquet")
    table = parquet.read_table(tmp_path / "scores.parquet")
    assert table.column("a").to_pylist() == [1, 3, 0.5, 5, 7, None, 0]
    assert table.column("b").to_pylist() == [2, None, None, 6, 8, None, 1]
    assert table.column("note").to_pylist() == [row[2] or None for row in expected]


@pytest.mark.parametrize("block", [1, 2, 1000])
def test_a_column_has_one_type_in_all_blocks(
    block: int, normal: TableModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1,500 is a number with a separator, which only text can keep as it is."""
    monkeypatch.setattr(scoring, "BLOCK", block)
    new, out = tmp_path / "new.csv", tmp_path / "scores.parquet"
    new.write_text('a,b\n1,2\n3,4\n"1,500",5\n6,7\n')
    score_file(normal, new, out)
    table = parquet.read_table(out)
    assert table.column("a").to_pylist() == ["1", "3", "1,500", "6"]
    assert table.column("b").to_pylist() == [2.0, 4.0, 5.0, 7.0]
    assert table.column("log_density")[2].as_py() == pytest.approx(-(1500**2 + 5**2) / 2)


@pytest.mark.parametrize("block", [2, 1000])
def test_columns_of_parquet_files_keep_their_types(
    block: int, normal: TableModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scoring, "BLOCK", block)
    table = pa.table({
        "a": pa.array([1, 2, 3], pa.int8()),
        "b": pa.array(["1", "2.5", "3"], pa.large_string()),
        "kind": pa.array(["u", "v", "u"]).dictionary_encode(),
        "list": [[1], [2, 3], None],
    })
    parquet.write_table(table, tmp_path / "new.parquet")
    score_file(normal, tmp_path / "new.parquet", tmp_path / "scores.parquet")
    found = parquet.read_table(tmp_path / "scores.parquet").select(table.column_names)
    assert found.schema.types == parquet.read_table(tmp_path / "new.parquet").schema.types
    assert found.to_pydict() == table.to_pydict()


def test_the_file_to_score_is_never_replaced(normal: TableModel, tmp_path: Path) -> None:
    """Even if it holds scores, and by whatever name."""
    new, out = tmp_path / "new.csv", tmp_path / "scores.csv"
    new.write_text("a,b\n1,1\n")
    score_file(normal, new, out)
    before = out.read_bytes()
    (tmp_path / "sub").mkdir()
    (tmp_path / "symbolic.csv").symlink_to(out)
    (tmp_path / "hard.csv").hardlink_to(out)
    for name in ("scores.csv", "symbolic.csv", "hard.csv", "sub/../scores.csv"):
        with pytest.raises(FileExistsError, match="is the file to score"):
            score_file(normal, out, tmp_path / name)
        assert out.read_bytes() == before


def test_folders_that_cannot_be_written_are_found_before_scoring(
    normal: TableModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scoring, "score_frames", None)  # no row is scored
    new, folder = write_table(tmp_path / "new.csv"), tmp_path / "folder.csv"
    folder.mkdir()
    with pytest.raises(FileExistsError, match="exists and does not hold scores"):
        score_file(normal, new, folder)
    with pytest.raises(NotADirectoryError, match=r"cannot be written: .*new\.csv is not a folder"):
        score_file(normal, new, new / "deep" / "scores.csv")
    folder.chmod(0o500)
    if not os.access(folder, os.W_OK):  # root can write
        with pytest.raises(PermissionError, match=r"the folder .*folder\.csv is read-only"):
            score_file(normal, new, folder / "scores.csv")
    assert list(folder.iterdir()) == []


@pytest.mark.nightly
def test_a_killed_process_leaves_the_old_scores(normal: TableModel, tmp_path: Path) -> None:
    """The process is killed after the first block of a draft was written."""
    new, out = write_table(tmp_path / "new.csv"), tmp_path / "scores.csv"
    score_file(normal, new, out)
    before = out.read_bytes()
    script = f"""
        import os, signal
        from pathlib import Path
        import pyarrow as pa
        from fdsm.atomic_io import replace_file
        from fdsm.tables.frame.writing import write_frames

        def blocks():
            yield pa.table({{"a": list(range(10**5))}})
            os.kill(os.getpid(), signal.SIGKILL)

        with replace_file(Path({str(out)!r})) as draft:
            write_frames(draft, ".csv", blocks())
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=False)
    assert done.returncode == -9
    assert out.read_bytes() == before
    score_file(normal, new, out)
    assert out.read_bytes() == before


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> TableModel:
    """A model of a table whose names and categories are formulas."""
    torch.set_default_dtype(torch.float32)
    folder = tmp_path_factory.mktemp("hostile")
    x = torch.randn(100, 2, generator=torch.Generator().manual_seed(0)).tolist()
    rows = [[f"{a:.3f}", f"{b:.3f}", "=up()" if a > 0 else "@down"] for a, b in x]
    write_rows(folder / "train.csv", [HOSTILE_NAMES, *rows])
    return TableModel.fit(folder / "train.csv", iterations=30)


HOSTILE_NAMES = ['=HYPERLINK("http://x","y")', "-b", "@kind"]


def write_rows(path: Path, rows: list[list[str]]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)
    return path


def test_reasons_are_never_formulas_and_cells_of_the_user_stay_as_they_are(
    hostile: TableModel, tmp_path: Path
) -> None:
    rows = [["90", "0.1", "=up()"], ["0.5", "-80", "=up()"], ["0.5", "0.1", "+new"]]
    score_file(
        hostile, write_rows(tmp_path / "new.csv", [HOSTILE_NAMES, *rows]), tmp_path / "s.csv"
    )
    header, *found = read(tmp_path / "s.csv")
    assert header[:3] == HOSTILE_NAMES
    assert [row[:3] for row in found] == rows
    reasons = [row[header.index("reasons")] for row in found]
    assert reasons[0].startswith('column =HYPERLINK("http://x","y") is 90')
    assert reasons[1].startswith("column -b is -80")
    assert reasons[2].startswith("column @kind: '+new' does not occur in the training data")
    for reason in "; ".join(reasons).split("; "):
        assert not reason.startswith(FORMULAS)


def test_names_of_columns_with_unreadable_cells_are_never_formulas(tmp_path: Path) -> None:
    path = write_table(tmp_path / "train.csv")
    path.write_text(path.read_text().replace("a,b", "=a,\t+b", 1))
    new = write_rows(tmp_path / "new.csv", [["=a", "\t+b"], ["1", "2"], ["x", "2"], ["1", "-x"]])
    score_file(normal_model(path), new, tmp_path / "s.csv")
    header, *rows = read(tmp_path / "s.csv")
    reasons = [row[header.index("reasons")] for row in rows]
    assert reasons[1].startswith("column =a: 'x' is not a number")
    assert reasons[2].startswith("column ")
    assert "+b: '-x' is not a number" in reasons[2]


def test_samples_have_the_names_and_categories_of_the_training_data(hostile: TableModel) -> None:
    samples = hostile.sample(30)
    assert samples.column_names == HOSTILE_NAMES
    assert set(samples.column(2).to_pylist()) == {"=up()", "@down"}
