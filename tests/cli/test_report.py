from pathlib import Path

import pytest

from .cli_cases import run_fails, run_json, run_text


def test_report_is_one_page_about_the_table(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It must not describe a table by the settings of the paper's images."""
    out, _ = run_text(
        ["report", str(trained.parent), "--out", "pages/report.html", "--title", "My results"],
        capsys,
    )
    page = Path("pages/report.html").read_text(encoding="utf-8")
    assert "My results" in page
    assert "measurements" in page or "table/small" in page
    for words in ("16 × 16", "MNIST", "Table 2", 'src="http', 'href="http'):
        assert words not in page, words
    assert "Gaussian" in page
    assert out.strip()


def test_files_are_printed_as_json(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = run_json(["report", str(trained)], capsys)
    assert result["files"] == ["report.html"]
    assert Path("report.html").exists()


def test_report_without_folders_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    code, error = run_fails(["report"], capsys)
    assert code == 2
    assert "give at least one folder of a run" in error


def test_folder_without_runs_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    code, error = run_fails(["report", "empty"], capsys)
    assert code == 1
    assert "empty" in error
