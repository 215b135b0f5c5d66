"""`python -m benchmarks`, with a benchmark whose ratios are given."""

import json
from pathlib import Path

import pytest

from benchmarks import suite, time_to_loss
from benchmarks.__main__ import main
from benchmarks.records import Case, Cost, Record
from benchmarks.records.record import read_record
from benchmarks.suite import Benchmark
from benchmarks.timing import Group

from .benchmark_cases import FD, PLAIN, trainings


def run_fails(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[object, str]:
    """Return the exit code and the error of a benchmark that fails."""
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    return exit_.value.code, capsys.readouterr().err


@pytest.fixture
def ratio(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Replace the benchmarks by one. Its ratio can be changed."""
    given = [2.0]
    group = Group("tiny", {PLAIN: lambda: lambda: None, FD: lambda: lambda: None}, 3)

    def measure(group: Group) -> list[Cost]:
        costs: dict[Case, float] = {PLAIN: 1.0, FD: given[0]}
        return [Cost("tiny", case, (costs[case],) * group.repeats) for case in group.cases]

    one = Benchmark("step", lambda peers: [group], {"gradient": PLAIN}, measure)
    monkeypatch.setattr(suite, "BENCHMARKS", (one,))
    monkeypatch.setattr("benchmarks.timing.pin_to_one_core", lambda: None)
    return given


def test_a_table_is_printed_and_files_are_written(
    ratio: list[float], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["step", "--out", str(tmp_path), "--repeats", "5"])
    printed = capsys.readouterr()
    assert "2.00 (2.00-2.00)" in printed.out
    assert "step.json" in printed.err
    record = read_record(tmp_path / "step.json", Record)
    assert record.cost("tiny", FD).samples == (2.0,) * 5
    assert (tmp_path / "step.svg").exists()


def test_json_is_printed(ratio: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    main(["step", "--json"])
    printed = json.loads(capsys.readouterr().out)
    assert printed["step"]["costs"][1]["samples"] == [2.0, 2.0, 2.0]


def test_check_passes_until_a_ratio_is_worse(
    ratio: list[float], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["step", "--out", str(tmp_path)])
    ratio[0] = 2.1
    main(["step", "--check", "--committed", str(tmp_path)])
    capsys.readouterr()
    ratio[0] = 2.3
    with pytest.raises(SystemExit) as exit_:
        main(["step", "--check", "--committed", str(tmp_path)])
    assert exit_.value.code == 1
    printed = capsys.readouterr().err
    assert "FD-SSM, fdsm, gradient" in printed
    assert "+15%" in printed


def test_check_needs_committed_results(
    ratio: list[float], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _ = run_fails(["step", "--check", "--committed", str(tmp_path)], capsys)
    assert "step.json" in str(code)


def test_missing_packages_are_named(
    ratio: list[float], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("benchmarks.peers.packages.find_spec", lambda name: None)
    main(["step", "--peers"])
    assert "left out: torchebm, jax, folx, jet." in capsys.readouterr().err


def test_trainings_are_shown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(time_to_loss, "run", lambda *args, **kwargs: trainings())
    monkeypatch.setattr("benchmarks.timing.pin_to_one_core", lambda: None)
    main(["time-to-loss", "--out", str(tmp_path)])
    assert "FD-SSM, fdsm" in capsys.readouterr().out
    assert (tmp_path / "time-to-loss-wine.svg").exists()


@pytest.mark.parametrize("option", ["--repeats", "--seconds", "--seeds"])
def test_numbers_must_be_positive(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, error = run_fails(["step", option, "0"], capsys)
    assert code == 2
    assert "must be positive" in error
