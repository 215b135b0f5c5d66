"""`fdsm report`: one page about a model and the tables that it has scored."""

import shutil
from pathlib import Path

import pytest

from fdsm.cli import main

from .cli_cases import run_fails, run_json, run_text, write_measurements


def test_report_is_one_page_about_the_table(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, log = run_text(
        ["report", str(trained), "--out", "pages/report.html", "--title", "My results"], capsys
    )
    assert (out, log) == ("", "Wrote pages/report.html\n")
    page = Path("pages/report.html").read_text(encoding="utf-8")
    for words in ("My results", "measurements.csv", "Gaussian", "length"):
        assert words in page, words
    for words in ("16 × 16", "MNIST", "Table 2", 'src="', 'href="http', "@import"):
        assert words not in page, words


def test_page_has_the_most_unusual_rows_of_score_files(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As csv and as parquet. The file is found wherever it is: the model does not know it."""
    for name in ("first", "second"):
        path = write_measurements(tmp_path / f"{name}.csv", 40, seed=1)
        path.write_text(path.read_text() + "97,5,-300\n")
    main(["score", str(trained), "first.csv"])
    main(["score", str(trained), "second.csv", "--out", "elsewhere/two.parquet"])
    scores = ["first.scores.csv", "elsewhere/two.parquet"]
    assert run_json(["report", str(trained), *scores], capsys) == {"files": ["report.html"]}
    page = Path("report.html").read_text(encoding="utf-8")
    for words in ("Model of measurements.csv", "first.scores.csv", "two.parquet"):
        assert words in page, words
    assert page.count("length is 97 (expected about ") == 2


def test_file_that_is_no_page_is_not_overwritten(
    trained: Path, table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = table.read_bytes()
    code, error = run_fails(["report", str(trained), "--out", str(table)], capsys)
    assert code == 2
    assert error == f"fdsm: the page is a .html file, but --out is {table}\n"
    assert table.read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["TABLE"], "measurements.csv does not hold scores. Give a file that fdsm score wrote"),
        (["nowhere.csv"], "nowhere.csv does not exist"),
        (["--out", "folder.html"], "folder.html is a folder. Give a file, such as folder.html/"),
    ],
)
def test_files_that_do_not_fit_are_named(
    arguments: list[str],
    message: str,
    trained: Path,
    table: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("folder.html").mkdir()
    words = [str(table) if word == "TABLE" else word for word in arguments]
    code, error = run_fails(["report", str(trained), *words], capsys)
    assert code == 1
    assert message in error
    assert error.count("\n") == 1
    assert not Path("report.html").exists()


def test_model_without_a_summary_is_named(
    trained: Path, tmp_path: Path, table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`TableModel.save` writes a summary only if it is given one. Scoring does not need it."""
    folder = shutil.copytree(trained, tmp_path / "model")
    (tmp_path / "model" / "summary.json").unlink()
    code, error = run_fails(["report", str(folder)], capsys)
    assert code == 1
    assert error.startswith(f"fdsm: {folder} has no summary.json, ")
    assert "model.save(folder, model.summarize(table, model.sample_codes(500)))" in error
    assert run_json(["score", str(folder), str(table)], capsys)["rows"] == 200


def test_report_without_a_folder_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    code, error = run_fails(["report"], capsys)
    assert code == 2
    assert "MODEL" in error
