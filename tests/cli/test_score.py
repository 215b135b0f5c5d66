"""`fdsm score`; see also test_messy_table.py."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

import fdsm
from fdsm.cli import main

from .cli_cases import FILES, read_csv, run_fails, run_json, run_text, write_measurements


def test_scores_are_written_beside_the_data(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Columns are found by name. The far row is the only one with the smallest p-value."""
    new = tmp_path / "new.csv"
    new.write_text("height,name,length,weight\n-300,a,0,5\n-300,b,50,5\n", encoding="utf-8")
    summary = run_json(["score", str(trained), str(new)], capsys)
    assert summary == {
        "files": [str(tmp_path / "new.scores.csv")],
        "rows": 2,
        "flagged": 1,
        "false_discovery_rate": 0.1,
        "not_scored": 0,
        "smallest_possible_p_value": 0.005,
    }
    rows = read_csv(tmp_path / "new.scores.csv")
    assert list(rows[0])[:5] == ["height", "name", "length", "weight", "score"]
    assert [row["flagged"] for row in rows] == ["false", "true"]
    assert float(rows[0]["p_value"]) > 0.1
    assert float(rows[1]["p_value"]) == pytest.approx(1 / 201)
    assert float(rows[1]["score"]) > 3 > float(rows[0]["score"])
    assert rows[1]["reasons"].startswith("length is 50 (expected about ")


def test_model_is_not_changed(trained: Path, table: Path) -> None:
    """So a model on a read-only disk can be used."""
    before = {path: path.read_bytes() for path in trained.iterdir()}
    main(["score", str(trained), str(table), "--out", "new/folder/scores.csv"])
    assert len(read_csv(Path("new/folder/scores.csv"))) == 200
    assert {path: path.read_bytes() for path in trained.iterdir()} == before
    assert {path.name for path in before} == FILES


@pytest.mark.nightly
def test_scoring_imports_neither_the_compiler_nor_plots(trained: Path, table: Path) -> None:
    code = f"import sys, fdsm.cli; fdsm.cli.main(['score', {str(trained)!r}, {str(table)!r}])"
    command = [sys.executable, "-c", f"{code}; print(*sys.modules)"]
    root = Path(fdsm.__file__).parents[1]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    slow = {"torch._dynamo", "sklearn", "scipy", "matplotlib", "rich.console", "PIL"}
    assert slow & set(done.stdout.split()) == set()


def test_one_unreadable_cell_does_not_reject_the_file(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new = tmp_path / "new.csv"
    new.write_text("length,weight,height\n0,5,-300\n0,unknown,-300\n,,\n1,4,-200\n")
    _, log = run_text(["score", str(trained), str(new), "--out", "mine.csv"], capsys)
    assert "4 rows, " in log
    assert "1 not scored." in log
    rows = read_csv(Path("mine.csv"))
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
    assert "column 'height' is missing" in error
    assert "--" not in error


def test_file_is_named_once_in_an_error(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "page.csv").write_text("<!DOCTYPE html>\n<html></html>\n")
    code, error = run_fails(["score", str(trained), "page.csv"], capsys)
    assert code == 1
    assert error.splitlines()[-1].startswith("fdsm: page.csv is not a table but HTML")


def test_other_files_are_not_overwritten(
    trained: Path, table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = table.read_text()
    other = write_measurements(table.with_name("other.csv"))
    for out, message in ((table, "is the file to score"), (other, "does not hold scores")):
        code, error = run_fails(["score", str(trained), str(table), "--out", str(out)], capsys)
        assert code == 1
        assert f"{out} " in error
        assert message in error
        assert out.read_text() == before
    for _ in range(2):  # older scores are replaced
        run_json(["score", str(trained), str(table)], capsys)
    assert len(read_csv(table.with_name("measurements.scores.csv"))) == 200


@pytest.mark.parametrize(
    ("out", "message"),
    [("file/s.csv", "file is not a folder"), ("locked/s.csv", "locked is read-only")],
)
def test_folder_that_cannot_be_written_is_named(
    out: str,
    message: str,
    trained: Path,
    table: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "locked").mkdir()
    monkeypatch.setattr("os.access", lambda *_: False)  # root may write everywhere
    for command in (["score", str(trained), str(table)], ["sample", str(trained)]):
        code, error = run_fails([*command, "--out", out], capsys)
        assert code == 1
        assert error.endswith(f"{message}\n")
        assert f"fdsm: {out} cannot be written: " in error


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        (["--top", "7"], "with the highest scores"),
        (["--alpha", "0.2"], "with a p-value of at most 0.2"),
    ],
)
def test_rows_are_flagged_by_other_rules(
    options: list[str], rule: str, trained: Path, table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, log = run_text(["score", str(trained), str(table), "--out", "s.csv", *options], capsys)
    rows = read_csv(Path("s.csv"))
    flagged = [row for row in rows if row["flagged"] == "true"]
    assert f"200 rows, {len(flagged)} flagged {rule}." in log
    if options[0] == "--top":
        assert len(flagged) == 7
    else:
        assert [r for r in rows if float(r["p_value"]) <= 0.2] == flagged
    summary = run_json(["score", str(trained), str(table), "--out=s.csv", *options], capsys)
    assert summary["false_discovery_rate"] is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--device", "nonsense"], "torch cannot use the device 'nonsense' here"),
        (["--fdr", "2"], "--fdr must be between 0 and 1, but is 2.0"),
        (["--alpha", "0"], "--alpha must be between 0 and 1, but is 0.0"),
        (["--top", "0"], "--top must be at least 1, but is 0"),
        (["--top", "3", "--fdr", "0.1"], "--fdr and --top are different rules to flag rows"),
    ],
)
def test_wrong_options_are_explained(
    options: list[str],
    message: str,
    trained: Path,
    table: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, error = run_fails(["score", str(trained), str(table), *options], capsys)
    assert code == 2
    assert message in error


# Standard input


def give(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let standard input have a text."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


NEW = "length,weight,height\n0,5,-300\n50,5,-300\n1,x,-200\n0,5\n"


def test_csv_on_standard_input_is_scored_as_the_file(
    trained: Path,
    tmp_path: Path,
    capfdbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rows go to standard output and messages to standard error. The default level is 0.01."""
    (tmp_path / "new.csv").write_text(NEW)
    main(["score", str(trained), "new.csv", "--alpha", "0.01"])
    capfdbinary.readouterr()
    give(NEW, monkeypatch)
    main(["score", str(trained), "-"])
    sys.stdout.flush()
    out, log = capfdbinary.readouterr()
    assert out == (tmp_path / "new.scores.csv").read_bytes()
    assert b"Wrote standard output: 4 rows, 2 flagged with a p-value of at most 0.01." in log
    assert b"1 not scored." in log
    assert {path.name for path in tmp_path.iterdir()} == {"new.csv", "new.scores.csv"}


def test_json_lines_on_standard_input_are_written_as_json_lines(
    trained: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows: list[dict[str, object]] = [
        {"length": 0, "weight": 5, "height": -300.0, "score": "mine"},
        {"height": -300, "length": 50, "größe": None},
    ]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    for _ in range(2):  # older scores are replaced
        give(lines + "oops\n", monkeypatch)
        command = ["score", str(trained), "-", "--out", "new/s.jsonl", "--alpha", "0.1"]
        assert run_json(command, capsys) == {
            "files": ["new/s.jsonl"],
            "rows": 3,
            "flagged": 1,
            "false_discovery_rate": None,
            "not_scored": 1,
            "smallest_possible_p_value": 0.005,
        }
    first, second, third = map(json.loads, Path("new/s.jsonl").read_text().splitlines())
    assert list(first)[:5] == ["length", "weight", "height", "score", "fdsm_score"]
    assert (first["score"], first["height"], first["flagged"]) == ("mine", -300.0, False)
    assert second["flagged"] is True
    assert second["reasons"].startswith("length is 50 (expected about ")
    assert third["problem"] == "line 3 is not JSON (Expecting value: column 1 (char 0))"
    (tmp_path / "other.jsonl").write_text('{"a": 1}\n')
    for out, problem in (
        ("other.jsonl", "other.jsonl exists and does not hold scores"),
        ("s.csv", "scores can be written as .jsonl, not '.csv'"),
    ):
        give(lines, monkeypatch)
        code, error = run_fails(["score", str(trained), "-", "--out", out], capsys)
        assert (code, problem in error) == (1, True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--top", "3"], "--top needs all rows, but rows of standard input are scored as they"),
        (["--fdr", "0.2"], "--fdr needs all rows"),
        (["--json"], "standard output has the scored rows. To use --json, give --out"),
        (["--alpha", "2"], "--alpha must be between 0 and 1, but is 2.0"),
    ],
)
def test_options_that_need_all_rows_are_refused_for_standard_input(
    options: list[str], message: str, trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, error = run_fails(["score", str(trained), "-", *options], capsys)
    assert code == 2
    assert message in error


def test_a_row_is_answered_before_the_next_one_is_sent(trained: Path) -> None:
    """A program can wait for the scores of a row, as with a service."""
    root = Path(fdsm.__file__).parents[1]
    command = [sys.executable, "-m", "fdsm", "score", str(trained), "-"]
    row = json.dumps({"length": 0, "weight": 5, "height": -300}) + "\n"
    with subprocess.Popen(
        command, cwd=root, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        answers = []
        for _ in range(3):
            process.stdin.write(row)
            process.stdin.flush()
            answers.append(process.stdout.readline())
        process.stdin.close()
        assert process.stdout.read() == ""
    assert json.loads(answers[0])["p_value"] > 0.1
    assert answers[1] == answers[2] == answers[0]
    assert process.returncode == 0
