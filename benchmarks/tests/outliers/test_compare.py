import json
from pathlib import Path

import pytest

from benchmarks.outliers.compare import main
from benchmarks.outliers.methods import METHODS, Method
from benchmarks.outliers.tables import Array


def run(folder: Path, out: Path, *options: str) -> None:
    main([str(folder), "--out", str(out), "--methods", "knn1", "iforest", *options])


def test_results_are_written_once_and_kept(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(folder, tmp_path / "out", "--seeds", "2")
    results = json.loads((tmp_path / "out" / "a_one.json").read_text())
    assert sorted(results) == ["iforest-0", "iforest-1", "knn1-0"]
    first = {path: path.read_bytes() for path in (tmp_path / "out").rglob("*.json")}
    assert "a_one  1-NN, seed 0: 100.0" in capsys.readouterr().out
    run(folder, tmp_path / "out", "--seeds", "2")
    assert {path: path.read_bytes() for path in (tmp_path / "out").rglob("*.json")} == first
    assert "seed 0" not in capsys.readouterr().out


def test_the_comparison_is_written(folder: Path, tmp_path: Path) -> None:
    run(folder, tmp_path / "out", "--seeds", "1")
    text = (tmp_path / "out" / "README.md").read_text(encoding="utf8")
    assert "| 1-NN | 100.00 | 100.00 | 1.50 | 2 |" in text
    assert "| a_one | 60 | 3 | **100.0** | **100.0** |" in text
    assert "Not finished" not in text


def test_some_tables_only_leave_the_comparison_unchanged(folder: Path, tmp_path: Path) -> None:
    run(folder, tmp_path / "out", "--seeds", "1", "--only", "a_*")
    assert not (tmp_path / "out" / "README.md").exists()
    assert not (tmp_path / "out" / "b_two").exists()
    main([str(folder), "--out", str(tmp_path / "out"), "--methods", "knn5"])
    text = (tmp_path / "out" / "README.md").read_text(encoding="utf8")
    assert text.endswith(
        "left out: 1-NN (1 of 2 tables missing), iForest (2 of 2 tables missing).\n"
    )


def test_missing_cells_have_their_own_folder_and_the_change(folder: Path, tmp_path: Path) -> None:
    run(folder, tmp_path / "out", "--seeds", "1")
    run(folder, tmp_path / "out", "--seeds", "1", "--missing", "0.2")
    text = (tmp_path / "out" / "missing-0.2" / "README.md").read_text(encoding="utf8")
    assert "20 % of the cells" in text
    assert "| 1-NN | 100.00 | +0.00 |" in text


def test_a_method_that_is_not_installed_is_skipped(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    def build(seed: int) -> Array:
        raise ImportError("No module named 'pyod'")

    method = Method("ECOD", build, seeded=False)
    monkeypatch.setitem(METHODS, "ecod", method)
    main([str(folder), "--out", str(tmp_path / "out"), "--methods", "knn1", "ecod"])
    assert "ECOD is skipped: No module named 'pyod'." in capsys.readouterr().out
    assert not list((tmp_path / "out").rglob("ecod*"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--missing", "1"], "--missing must be from 0"),
        (["--missing", "0.2", "--samples"], "complete rows"),
        (["--seeds", "0"], "at least 1"),
    ],
)
def test_wrong_options_are_refused(
    options: list[str], message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([str(folder), *options])
    assert message in capsys.readouterr().err


def test_an_unknown_table_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"No table is called c\. There are: a_one, b_two"):
        run(folder, tmp_path, "--only", "a_one", "c")


def test_a_folder_without_tables_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        run(tmp_path, tmp_path)
    assert "contains no .npz file" in capsys.readouterr().err
