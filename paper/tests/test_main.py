"""`python -m paper`: rows are run once and shown beside the published numbers."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from paper.__main__ import main
from paper.catalogue import TARGETS
from paper.data import DataError, Dataset, Digits
from paper.recipes import EBM
from paper.tables import table2
from paper.tests.commands.command_cases import run_fails, run_json, run_text
from paper.tests.recipes.recipe_cases import tiny


@pytest.fixture(autouse=True)
def _as_users_do(_float64: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute in float32, in an empty working directory."""
    torch.set_default_dtype(torch.float32)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> tuple[EBM, ...]:
    """Replace Table 2 by two tiny models."""
    rows = tuple(replace(tiny, name=name) for name in ("FD-SSM", "SSM"))
    monkeypatch.setattr(table2, "CPU", rows)
    return rows


def test_targets_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = run_text([], capsys)
    for target in TARGETS:
        assert target.name in out
    titles = run_json([], capsys)
    assert [*titles][: len(TARGETS)] == [target.name for target in TARGETS]


def test_rows_are_shown_beside_the_published_numbers_and_not_run_again(
    rows: tuple[EBM, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["table2", "--seeds", "1", "--out", "results"]
    out, _ = run_text(command, capsys)
    shown = " ".join(out.split())
    assert "FD-SSM" in shown
    assert any(number in shown for number in ("-3.33e7", "-33,300,000", "-3.330e7", "-3.33e+07"))
    assert Path("results/table2.html").exists()
    record = json.loads(Path("results/table2/SSM/0/config.json").read_text())
    assert record["origin"] == {"target": "table2", "row": "SSM", "scale": "cpu"}
    before = Path("results/table2/SSM/0/result.json").read_bytes()
    main(command)
    assert Path("results/table2/SSM/0/result.json").read_bytes() == before
    code, error = run_fails([*command, "--no-resume"], capsys)
    assert code == 2
    assert "results already holds table2" in error


def test_one_row_is_run_by_its_name(
    rows: tuple[EBM, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["table2", "--row", "FD-SSM", "--seeds", "1", "--out", "results"]
    result = run_json(command, capsys)
    assert result["files"] == ["results/table2/FD-SSM/0", "results/table2.html"]
    assert not Path("results/table2/SSM").exists()


def test_rows_that_cannot_be_run_are_named_at_the_end(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(self: Digits) -> Dataset:
        raise DataError("the digits are not available")

    rows = (replace(tiny, name="SSM"), replace(tiny, name="FD-SSM", data=Digits()))
    monkeypatch.setattr(Digits, "load", absent)
    monkeypatch.setattr(table2, "CPU", rows)
    command = ["table2", "--seeds", "1", "--out", "results"]
    code, error = run_fails(command, capsys)
    assert code == 1
    assert "FD-SSM" in error.partition("some rows could not be run")[2]
    assert "the digits are not available" in error
    assert Path("results/table2/SSM/0/result.json").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tabel1"], "Did you mean 'table1'?"),
        (["table1", "--seeds", "0"], "--seeds: must be a whole number of at least 1, but is 0"),
        (["lemma2", "--seeds", "2"], "lemma2 has no rows: leave out --seeds and --row"),
        (["lemma2", "--row", "SSM"], "lemma2 has no rows"),
        (["all", "--row", "SSM"], "--row needs the name of one table"),
        (["table2", "--row", "FD-SMS"], "Did you mean 'FD-SSM'?"),
        (["table1", "--device", "cuda:99"], "torch cannot use the device 'cuda:99' here"),
    ],
)
def test_wrong_command_lines_are_explained(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, error = run_fails(arguments, capsys)
    assert code == 2
    assert message in error
