"""`fdsm sample`; see also test_messy_table.py."""

import json
import re
import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow.feather
import pyarrow.parquet
import pytest

from fdsm.cli import main
from fdsm.serialize import to_json
from fdsm.tables import TableModel
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


def test_conditions_hold_in_the_file(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--given", "weight>5", "--given", "height <= -300", "--given", "weight<9"]
    run_json(["sample", str(trained), "-n", "50", "--out", "s.csv", *given], capsys)
    _, weight, height = np.loadtxt("s.csv", delimiter=",", skiprows=1).T
    assert 5 < weight.min() <= weight.max() < 9
    assert height.max() <= -300


def test_all_bad_conditions_are_explained(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = ["--given", "wieght>5", "--given", "height=tall", "--given", "long"]
    code, error = run_fails(["sample", str(trained), *bad], capsys)
    assert code == 1
    assert "Did you mean 'weight'?" in error
    assert "'height' has numbers, and 'tall' is none" in error
    assert "'long' is no condition" in error
    code, error = run_fails(["sample", str(trained), "--given", "weight>1000"], capsys)
    assert code == 1
    assert "weight>1000: the values are between" in error
    assert not list(Path().iterdir())


@pytest.mark.parametrize(
    "cells",
    [
        {"time": "{0:%Y-%m-%dT%H:%M:%SZ}", "price": "${1:.2f}", "size": "{2:.1f}"},
        {"time": "{0:%Y-%m-%dT%H:%M:%S}", "price": "{1:.2f} EUR", "size": "{2:.1f}"},
        {"time": "{0:%Y-%m-%d %H:%M:%S}", "price": "{1:.2f}", "size": "{3}"},
        {"time": "{0:%d.%m.%Y %H:%M}", "price": "{1:.2f}", "size": "{3}"},
        {"time": "{0:%Y-%m-%d}", "price": "{1:.2f}", "size": "{3}"},
    ],
    ids=lambda cells: cells["time"],
)
def test_samples_have_the_formats_of_the_file(
    cells: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Prices are multiples of 0.10 with two decimals, and sizes are often near zero."""
    rng = np.random.default_rng(0)
    lines = [",".join(cells)]
    for _ in range(200):
        moment = datetime(2013, 1, 1, tzinfo=UTC) + timedelta(hours=int(rng.integers(5000)))
        price, size = round(float(rng.gamma(3, 2)), 1), float(rng.normal()) / 5
        size = round(size, 1) + 0.0
        lines.append(",".join(cells.values()).format(moment, price, size, round(3 * size)))
    Path("t.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    TableModel.fit(Path("t.csv"), iterations=5).save("model")
    run_json(["sample", "model", "-n", "60", "--out", "s.csv"], capsys)
    shapes = [
        {tuple(re.sub(r"\d+(?=[.,]|$)|\d", "0", cell).lstrip("-") for cell in line.split(","))}
        for line in (lines[1], *Path("s.csv").read_text().splitlines()[1:])
    ]
    assert all(shape == shapes[0] for shape in shapes)
    assert not {"-0.0", "-0"} & {
        c for line in Path("s.csv").read_text().split() for c in line.split(",")
    }
