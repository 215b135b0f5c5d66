"""`fdsm sample`; see also test_messy_table.py."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.feather
import pyarrow.parquet
import pytest

from fdsm.cli import main
from fdsm.serialize import to_json
from fdsm.tables.summary import read_summary

from .cli_cases import FILES, run_fails, run_json, run_text

pytestmark = pytest.mark.usefixtures("quick")
COLUMNS = ["length", "weight", "height"]


def test_samples_are_repeatable_and_depend_on_the_seed(trained: Path) -> None:
    arrays = []
    for name, seed in (("a.csv", 0), ("b.csv", 0), ("c.csv", 1)):
        main(["sample", str(trained), "-n", "5", "--seed", str(seed), "--out", name])
        arrays.append(np.loadtxt(name, delimiter=",", skiprows=1))
    assert arrays[0].shape == (5, 3)
    assert np.array_equal(arrays[0], arrays[1])
    assert not np.array_equal(arrays[0], arrays[2])


def test_warnings_about_samples_are_repeated_where_samples_are_drawn(
    trained: Path, table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(trained, tmp_path / "model")
    summary = replace(read_summary(folder / "summary.json"), problems=("Samples are bad.",))
    (folder / "summary.json").write_text(json.dumps(to_json(summary)))
    _, log = run_text(["sample", str(folder), "-n", "2"], capsys)
    assert log.startswith("WARNING: Samples are bad.\n")
    _, log = run_text(["score", str(folder), str(table)], capsys)
    assert "WARNING" not in log


@pytest.mark.parametrize("name", ["x.csv", "new/x.csv", "x.parquet", "x.feather"])
def test_suffix_decides_the_format(
    name: str, trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = run_json(["sample", str(trained), "-n", "7", "--out", name], capsys)
    assert result == {"files": [name], "samples": 7, "columns": COLUMNS}
    if name.endswith(".csv"):
        header, *rows = Path(name).read_text().splitlines()
        assert header.split(",") == COLUMNS
        assert len(rows) == 7
        return
    readers = {".parquet": pyarrow.parquet, ".feather": pyarrow.feather}
    table = readers[Path(name).suffix].read_table(name)
    assert table.column_names == COLUMNS
    assert {str(column.type) for column in table.columns} == {"double"}
    assert table.num_rows == 7


@pytest.mark.parametrize("inside", [False, True])
def test_samples_are_written_beside_the_model(
    *,
    inside: bool,
    trained: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = Path(shutil.copytree(trained, "runs/mine"))
    file = (folder.parent / "mine.samples.csv").resolve()
    if inside:
        monkeypatch.chdir(folder)
        folder = Path()
    assert run_json(["sample", str(folder)], capsys)["samples"] == 1000
    assert len(file.read_text().splitlines()) == 1001
    assert {path.name for path in folder.iterdir()} == FILES


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["-n", "0"], 2, "-n must be at least 1, but is 0"),
        (["--out", "x.png"], 2, "can be written as .csv, .parquet or .feather, not '.png'"),
        (["--out", "x"], 2, "can be written as .csv, .parquet or .feather, not ''"),
        (["--device", "cuda:99"], 2, "torch cannot use the device 'cuda:99' here"),
    ],
)
def test_wrong_options_are_explained(
    options: list[str],
    code: int,
    message: str,
    trained: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found, error = run_fails(["sample", str(trained), *options], capsys)
    assert found == code
    assert message in error
    assert not list(Path().iterdir())


def test_training_data_are_not_overwritten(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = trained.with_name("measurements.csv")
    before = table.read_bytes()
    copy = tmp_path / "copy.csv"
    copy.write_bytes(before)
    for path in (table, copy):
        code, error = run_fails(["sample", str(trained), "--out", str(path)], capsys)
        assert code == 2
        assert f"{path} has the training table of {trained}. Choose another --out" in error
        assert path.read_bytes() == before
    for _ in range(2):  # older samples are replaced
        run_json(["sample", str(trained), "-n", "2", "--out", "s.csv"], capsys)
