import csv
import subprocess
import sys
from pathlib import Path

import pytest

import fdsm

from .cli_cases import QUICK, run_fails, run_json, run_text


def read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_scores_are_written_beside_the_data(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Columns are found by name. The far row is the only one with the smallest p-value."""
    new = tmp_path / "new.csv"
    new.write_text("height,name,length,weight\n-300,a,0,5\n-300,b,50,5\n", encoding="utf-8")
    summary = run_json(["score", str(trained), str(new)], capsys)
    assert summary["files"] == [str(tmp_path / "new.scores.csv")]
    assert (summary["rows"], summary["not_scored"]) == (2, 0)
    assert summary["flagged"] == 1
    assert summary["smallest_possible_p_value"] == pytest.approx(0.005, rel=0.01)
    rows = read(tmp_path / "new.scores.csv")
    assert list(rows[0])[:5] == ["height", "name", "length", "weight", "score"]
    assert [row["flagged"] for row in rows] == ["false", "true"]
    assert float(rows[0]["p_value"]) > 0.1
    assert float(rows[1]["p_value"]) == pytest.approx(1 / 201)
    assert float(rows[1]["score"]) > 3 > float(rows[0]["score"])
    assert rows[1]["reasons"].startswith("length is 50 (expected about ")


@pytest.mark.nightly
def test_scoring_imports_neither_the_compiler_nor_plots(trained: Path, table: Path) -> None:
    code = f"import sys, fdsm.cli; fdsm.cli.main(['score', {str(trained)!r}, {str(table)!r}])"
    command = [sys.executable, "-c", f"{code}; print(*sys.modules)"]
    root = Path(fdsm.__file__).parents[1]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    slow = {"torch._dynamo", "sympy", "sklearn", "matplotlib", "rich.console", "PIL"}
    assert slow & set(done.stdout.split()) == set()


def test_one_unreadable_cell_does_not_reject_the_file(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new = tmp_path / "new.csv"
    new.write_text("length,weight,height\n0,5,-300\n0,unknown,-300\n,,\n1,4,-200\n")
    _, log = run_text(["score", str(trained), str(new), "--out", "mine.csv"], capsys)
    assert "4 rows, " in log
    assert "1 not scored." in log
    rows = read(Path("mine.csv"))
    assert [bool(row["score"]) for row in rows] == [True, True, False, True]
    assert rows[1]["reasons"].startswith("weight: 'unknown' is not a number")
    assert rows[2]["problem"] == "all cells are missing"


def test_errors_do_not_advise_options_of_other_commands(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = tmp_path / "wrong.csv"
    wrong.write_text("length,weight\n1,2\n3,4\n", encoding="utf-8")
    code, error = run_fails(["score", str(trained), str(wrong)], capsys)
    assert code == 1
    assert "'height'" in error
    assert "--set" not in error


def test_other_files_are_not_overwritten(
    trained: Path, table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = table.read_text()
    code, error = run_fails(["score", str(trained), str(table), "--out", str(table)], capsys)
    assert code == 1
    assert "is the file to score" in error
    assert table.read_text() == before
    run_json(["score", str(trained), str(table)], capsys)
    run_json(["score", str(trained), str(table)], capsys)
    assert len(read(table.with_name("measurements.scores.csv"))) == 200


def test_images_are_scored_by_their_name(photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--iterations=2", "--set=data.size=8", "--set=network.width=2"]
    run_json(["train", str(photos), *options, "--set=plan.num_samples=0"], capsys)
    run_json(["score", "runs/photos", str(photos)], capsys)
    assert [row["row"] for row in read(Path("photos.scores.csv"))] == [
        f"{i:02d}.png" for i in range(40)
    ]


def test_model_without_a_log_density_says_so(
    photos: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--model=autoencoder", "--iterations=2", "--set=data.size=8", "--set=width=4"]
    options += ["--set=likelihood_rows=1", "--set=temperatures=3", "--set=plan.num_samples=2"]
    run_json(["train", str(photos), *options], capsys)
    code, error = run_fails(["score", "runs/photos", str(photos)], capsys)
    assert code == 1
    assert "has no log-density, so it cannot score rows" in error
    result = run_json(["sample", "runs/photos", "-n", "3"], capsys)
    assert result["shape"] == [3, 3, 8, 8]


def test_run_is_scored_without_its_training_data(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_json(["train", str(table), *QUICK], capsys)
    moved = table.rename(tmp_path / "new.csv")
    assert run_json(["score", "runs/measurements", str(moved)], capsys)["rows"] == 200


def test_warnings_about_the_model_are_repeated(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_text(["train", str(table), "--model", "flow", "--iterations=1"], capsys)
    for command in (["score", str(table), "--out", "s.csv"], ["sample", "-n", "2"]):
        _, log = run_text([command[0], "runs/measurements", *command[1:]], capsys)
        assert "WARNING: The model is worse than a Gaussian" in log
