"""The list of numbers that changed, and what differs between the two results."""

import shutil
from pathlib import Path

import pytest

from fdsm.measurement import Measurement
from paper.changes import Change, compare, main
from paper.report import read_folders
from paper.tests.report.report_cases import TABLE1, edit, write_results


def changed(root: Path) -> list[Change]:
    before, now = (read_folders([root / name]) for name in ("before", "now"))
    return [change for change in compare(before, now) if change.is_listed]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    shutil.copytree(write_results(tmp_path / "before"), tmp_path / "now")
    return tmp_path


def test_equal_results_have_no_changes(root: Path) -> None:
    assert not changed(root)
    assert len(compare(*(read_folders([root / name]) for name in ("before", "now")))) > 4


def test_a_change_is_measured_in_units_of_both_errors(root: Path) -> None:
    """The two seeds of FD-SSM have 13.0 and 13.2, so 13.1 ± 0.1. 13.3 and 13.5 differ by 0.3."""
    for seed, value in enumerate((13.3, 13.5)):
        path = root / "now" / "table1" / "RedWine FD-SSM" / str(seed) / "result.json"
        edit(path, {"metrics.nll.value": value})
    (change,) = changed(root)
    assert (change.target, change.name) == ("table1", "RedWine FD-SSM, NLL (nats)")
    assert change.errors == pytest.approx(0.3 / 0.02**0.5)
    assert change.reason == "2 of 2 common seeds changed"


def test_what_differs_is_named(root: Path) -> None:
    """The mean of both seeds is 13.2 ± 0.2; without the second one it is 13.0 ± 0.4."""
    row = root / "now" / "table1" / "RedWine SSM"
    shutil.rmtree(row / "1")
    edit(row / "0" / "config.json", {"recipe.plan": {"validate_every": 9}})
    edit(row / "0" / "result.json", {"metrics.nll.value": 19.0})
    (change,) = changed(root)
    assert change.reason == (
        "settings: plan.validate_every; seeds: 2, now 1; 1 of 1 common seeds changed"
    )


def test_numbers_of_studies_are_compared(root: Path) -> None:
    path = root / "now" / "figure2" / "study.json"
    edit(path, {"findings.numbers.autodiff_growth.value": 3.4, "settings.network.width": 9})
    (change,) = changed(root)
    assert change.errors == pytest.approx(0.5 / (2 * 0.1**2) ** 0.5)
    assert change.reason == "settings: network.width"


@pytest.mark.parametrize(
    ("before", "now", "listed"),
    [
        *((1.0, 1.05, False), (1.0, 1.11, True), (1.0, 0.89, True), (-1.0, 1.0, True)),
        *((float("nan"), float("nan"), False), (1.0, float("nan"), True)),
    ],
)
def test_without_errors_a_tenth_is_a_change(before: float, now: float, listed: bool) -> None:
    change = Change("a", "b", Measurement(before), Measurement(now), "")
    assert change.is_listed is listed


def test_time_and_memory_are_compared_with_the_baseline(tmp_path: Path) -> None:
    """FD-SSM takes 15 ms and SSM 20 ms: 0.75. All times of a slower machine give the same."""
    for name in ("before", "now"):
        write_results(tmp_path / name)
    for row, ms in {"RedWine SSM": 200.0, "RedWine FD-SSM": 150.0, "RedWine SSMVR": 480.0}.items():
        for seed in "01":
            path = tmp_path / "now" / "table1" / row / seed / "result.json"
            edit(path, {"milliseconds_per_iteration": ms})
    infos = [TABLE1]
    before, now = (read_folders([tmp_path / name], infos) for name in ("before", "now"))
    listed = [change for change in compare(before, now) if change.is_listed]
    numbers = {change.name: (change.before.value, change.now.value) for change in listed}
    assert numbers == {
        "RedWine SSMVR, time ratio": (pytest.approx(1.2), pytest.approx(2.4)),
        "RedWine FD-SSM-all, time ratio": (pytest.approx(0.6), pytest.approx(0.06)),
    }


def test_times_are_not_compared_but_their_ratios_are(root: Path) -> None:
    names = ("seconds, SSM", "time, FD-SSM over SSM")
    for folder, value in (("before", 1.0), ("now", 9.0)):
        numbers = {name: {"value": value} for name in names}
        edit(root / folder / "figure2" / "study.json", {"findings.numbers": numbers})
    assert [change.name for change in changed(root)] == ["time, FD-SSM over SSM"]


def test_the_command_prints_a_table(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = root / "now" / "figure2" / "study.json"
    edit(path, {"findings.numbers.autodiff_growth.value": 3.4})
    main([str(root / "before"), str(root / "now")])
    *_, line = capsys.readouterr().out.splitlines()
    row = "| figure2 | autodiff\\_growth | 2.90 ± 0.10 | 3.40 ± 0.10 | 3.5 | the same settings |"
    assert line == row
