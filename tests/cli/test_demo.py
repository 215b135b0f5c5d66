import csv
from functools import partial
from pathlib import Path

import pytest

from fdsm.cli import demo
from fdsm.cli.train import train

from .cli_cases import FILES, run_text


def test_half_of_the_benign_rows_are_for_training(tmp_path: Path) -> None:
    """The table has 357 benign and 212 malignant rows of 30 columns."""
    demo.write_tables(tmp_path)
    rows = {}
    for name in ("benign", "new"):
        with (tmp_path / f"{name}.csv").open(newline="") as file:
            rows[name] = list(csv.DictReader(file))
    assert (len(rows["benign"]), len(rows["new"])) == (179, 178 + 212)
    assert "diagnosis" not in rows["benign"][0]
    assert len(rows["benign"][0]) == 30
    assert sum(row["diagnosis"] == "malignant" for row in rows["new"]) == 212
    known = {tuple(row.values()) for row in rows["benign"]}
    assert not known & {tuple(row.values())[:-1] for row in rows["new"]}


@pytest.mark.nightly
@pytest.mark.usefixtures("quick")
def test_demo_compares_five_objectives_finds_tumors_and_keeps_the_model(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "STEPS", 10)
    monkeypatch.setattr(demo, "SKIPPED", 2)
    monkeypatch.setattr(demo, "train", partial(train, iterations=10))
    out, log = run_text(["demo", "--out", "demo"], capsys)
    rows = [line.split() for line in out.splitlines()]
    names = ["DSM", "FD-DSM", "SSM", "FD-SSM", "Taylor-SSM"]
    compared = {row[0]: row[1:] for row in rows if row and row[0] in names}
    assert list(compared) == names
    assert [cells[0] for cells in compared.values()] == ["none", "4", "4", "4", "4"]
    assert compared["SSM"][2] == "1.00"
    assert "With the same 4 directions, FD-SSM is " in out
    sentence = next(line for line in out.splitlines() if "Of 212 malignant rows" in line)
    assert float(sentence.split("AUC of the score: ")[1].rstrip(".")) > 0.9
    lines = out.splitlines()
    top = lines[lines.index(sentence) + 1 :]
    assert len(top) == 10
    assert all(", malignant, score " in line for line in top[::2])
    assert all(" (expected about " in line for line in top[1::2])
    page = Path("demo/demo.html").read_text(encoding="utf-8")
    for words in (
        "Five objectives",
        "Taylor-SSM",
        "Of 212 malignant rows",
        "benign.csv",
        "new.scores.csv",
        "area error",
    ):
        assert words in page, words
    assert "Open demo/demo.html in a browser" in log
    files = {path: path.read_bytes() for path in Path("demo/benign").iterdir()}
    assert {path.name for path in files} == FILES
    monkeypatch.setattr("fdsm.tables.report.write_page", lambda path, *_, **__: path)
    again, _ = run_text(["demo", "--out", "demo"], capsys)
    assert sentence in again
    assert {path: path.read_bytes() for path in Path("demo/benign").iterdir()} == files
