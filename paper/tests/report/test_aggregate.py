"""Means over seeds, against arithmetic by hand."""

import math
from pathlib import Path

import pytest

from fdsm.measurement import Measurement
from paper.report import Group, read_folders
from paper.report.records import Comparison, RunRecord

from .report_cases import edit, write_run, write_table1


def test_mean_of_three_seeds(runs: list[Path]) -> None:
    """-100, -104 and -105: the mean is -103, s² = (9 + 1 + 4) / 2 = 7, and √(7/3) = 1.53."""
    write_run(runs[0] / "2", "SSM", 0, seed=2)
    edit(runs[0] / "2" / "result.json", {"metrics.exact_sm_loss.value": -105})
    mean, count = read_folders(runs).groups[0].mean("exact_sm_loss")
    assert (mean.value, mean.error, count) == (-103, pytest.approx(math.sqrt(7 / 3)), 3)


def test_mean_of_one_seed_has_the_error_of_its_measurement(runs: list[Path]) -> None:
    (group,) = read_folders([runs[0] / "0"]).groups
    assert group.mean("exact_sm_loss") == (Measurement(-100.0, 1.3, {"rows": 180}), 1)
    assert group.mean("milliseconds_per_iteration") == (Measurement(23.8), 1)
    mean, count = group.mean("fid")
    assert (math.isnan(mean.value), count) == (True, 0)


def test_mean_excludes_unfinished_runs(runs: list[Path]) -> None:
    (runs[0] / "0" / "result.json").unlink()
    group = read_folders(runs).groups[0]
    assert group.mean("exact_sm_loss")[0].value == -104
    assert group.mean("milliseconds_per_iteration")[0].value == pytest.approx(24.2)
    (runs[0] / "1" / "result.json").unlink()
    group = read_folders(runs).groups[0]
    assert group.mean("milliseconds_per_iteration")[0].value == pytest.approx(24, rel=0.05)


def test_test_set_error_is_the_mean_of_the_errors(tmp_path: Path) -> None:
    folder = write_table1(tmp_path)
    edit(folder / "RedWine SSM" / "1" / "result.json", {"metrics.nll.error": 0.6})
    (group,) = read_folders([folder / "RedWine SSM"]).groups
    assert group.test_set_error("nll") == pytest.approx(0.5)
    assert math.isnan(group.test_set_error("bytes"))


def test_rows_of_a_target_are_timed_together_if_each_names_the_other(tmp_path: Path) -> None:
    folder = write_table1(tmp_path)
    edit(folder / "RedWine FD-SSM" / "1" / "result.json", {"timed_with": ["table1/other"]})
    groups = {group.label: group for group in read_folders([folder]).groups}
    ssm = groups["RedWine SSM"]
    assert ssm.is_timed_with(groups["RedWine SSMVR"])
    assert not ssm.is_timed_with(groups["RedWine FD-SSM"])
    assert not groups["RedWine FD-SSM"].is_timed_with(groups["RedWine FD-SSM"])


def test_comparisons_of_several_seeds_are_averaged() -> None:
    def run(seed: int, model: float) -> RunRecord:
        references = {"Gaussian": Measurement(1.0 + seed, 0.1)}
        compared = Comparison("nll", Measurement(model, 0.1), references)
        return RunRecord("", {"seed": seed}, {}, comparisons=(compared,))

    (found,) = Group("x", (run(0, 2.0), run(1, 1.0))).comparisons
    assert (found.model.value, found.model.error) == (1.5, 0.5)
    assert found.references["Gaussian"] == Measurement(1.5, 0.5)
