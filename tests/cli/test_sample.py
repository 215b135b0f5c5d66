from pathlib import Path

import numpy as np
import pytest

from fdsm.cli import main

from .cli_cases import QUICK, run_fails, run_json


def test_samples_are_repeatable_and_depend_on_the_seed(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arrays = []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        main(["sample", str(trained), "-n", "5", "--seed", str(seed), "--out", name])
        arrays.append(np.loadtxt(tmp_path / name / "samples.csv", delimiter=",", skiprows=1))
    assert arrays[0].shape == (5, 3)
    assert np.array_equal(arrays[0], arrays[1])
    assert not np.array_equal(arrays[0], arrays[2])


@pytest.mark.parametrize("name", ["samples.csv", "new/samples.csv"])
def test_file_is_written_where_a_file_is_asked_for(
    name: str, trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = run_json(["sample", str(trained), "-n", "7", "--out", name], capsys)
    assert result["files"] == [name]
    assert Path(name).is_file()
    header, *rows = Path(name).read_text().splitlines()
    assert header == "length,weight,height"
    assert len(rows) == 7


def test_array_is_written_where_an_array_is_asked_for(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_json(["sample", str(trained), "-n", "7", "--out", "x.npy"], capsys)
    assert np.load("x.npy").shape == (7, 3)


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["-n", "0"], 2, "-n must be at least 1, but is 0"),
        (
            ["--out", "x.png"],
            1,
            "can be written as .npy or .csv or .parquet or .feather, not '.png'",
        ),
        (
            ["--out", "x.txt"],
            1,
            "can be written as .npy or .csv or .parquet or .feather, not '.txt'",
        ),
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
    assert not list(Path().glob("x.*"))


def test_training_data_are_not_overwritten(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_json(["train", str(table), *QUICK], capsys)
    before = table.read_bytes()
    moved = table.with_name("moved.csv")
    moved.write_bytes(before)
    for path in (table, moved):
        code, error = run_fails(["sample", "runs/measurements", "--out", str(path)], capsys)
        assert code == 2
        assert f"{path} has the training data of runs/measurements" in error
        assert path.read_bytes() == before
    for _ in range(2):
        run_json(["sample", "runs/measurements", "-n", "2", "--out", "s.csv"], capsys)
