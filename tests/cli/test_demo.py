import csv
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from fdsm import report
from fdsm.cli import demo
from fdsm.cli.train import train
from paper.recipes import digits

from paper.tests.recipes.recipe_cases import tiny
from .cli_cases import run_text


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


def test_demo_finds_tumors_compares_five_methods_and_keeps_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [row.name for row in digits.DIGITS]
    assert names == ["DSM", "FD-DSM", "SSM", "FD-SSM", "Taylor-SSM"]
    monkeypatch.setattr(digits, "DIGITS", tuple(replace(tiny, name=name) for name in names))
    quick = ("plan.num_samples=100", "levels.count=10")
    monkeypatch.setattr(demo, "train", partial(train, iterations=10, settings=quick))
    out, _ = run_text(["demo", "--out", "demo"], capsys)
    for name in names:
        assert name in out
    sentence = next(line for line in out.splitlines() if line.startswith("Of 212 malignant rows"))
    assert float(sentence.split("AUC of the score: ")[1].rstrip(".")) > 0.9
    lines = out.splitlines()
    top = lines[lines.index("The most unusual rows:") + 1 :][:10]
    assert all(", malignant, score " in line for line in top[::2])
    assert all(" (expected about " in line for line in top[1::2])
    page = Path("demo/demo.html").read_text(encoding="utf-8")
    for words in ("handwritten digits", "benign.csv", "new.csv", "area error"):
        assert words in page, words
    models = sorted(Path("demo").rglob("model.safetensors"))
    assert len(models) == 6
    before = [path.read_bytes() for path in models]
    monkeypatch.setattr(report, "write_page", lambda *_, **__: None)  # plots take seconds
    again, _ = run_text(["demo", "--out", "demo"], capsys)
    assert sentence in again
    assert [path.read_bytes() for path in models] == before
