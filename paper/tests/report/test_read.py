"""Runs and studies are found, read and grouped. Damaged files are named and left out."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fdsm.measurement import Measurement
from paper.report import read_folders
from paper.report.figure import Line
from paper.report.records import differing_paths

from .report_cases import (
    LOSSES,
    METHODS,
    TARGETS,
    edit,
    records,
    study,
    write_results,
    write_run,
    write_study,
    write_table1,
    write_timed,
)


def test_seeds_are_grouped_in_the_order_of_the_folders(runs: list[Path]) -> None:
    (experiment,) = read_folders(list(reversed(runs))).experiments
    assert (experiment.target, experiment.data, experiment.scale) == ("", "Digits", "")
    assert [group.label for group in experiment.groups] == list(reversed(METHODS))
    assert [[run.seed for run in group.runs] for group in experiment.groups] == [["0", "1"]] * 4
    run = experiment.groups[0].runs[1]
    assert run.metrics["exact_sm_loss"].value == LOSSES["FD-DSM", 1]
    assert run.metrics["exact_sm_loss"].settings == {"rows": 180}
    logged = [r for r in records("FD-DSM", 1) if "loss" in r]
    assert run.loss.values == tuple(r["loss"] for r in logged)
    assert run.loss.seconds == tuple(r["seconds"] for r in logged)
    assert run.validation["nll"].iterations == (500, 1000, 1500, 2000, 2500, 3000)
    assert run.samples_size == (64, 64)


def test_a_folder_given_twice_is_read_once(runs: list[Path]) -> None:
    once = read_folders([runs[0].parent])
    assert len(once.runs) == 8
    assert len(read_folders([runs[0].parent, *runs, runs[0] / "1"]).runs) == 8


def test_seeds_are_sorted_as_numbers(tmp_path: Path) -> None:
    for seed in (10, 9, 2):
        write_run(tmp_path / str(seed), "SSM", seed % 2, seed=seed)
    (group,) = read_folders([tmp_path]).groups
    assert [run.seed for run in group.runs] == ["2", "9", "10"]


def test_the_later_of_two_runs_of_a_seed_is_kept(runs: list[Path], tmp_path: Path) -> None:
    write_run(tmp_path / "again", "SSM", 0, started="2026-12-01T00:00:00+00:00")
    collection = read_folders([*runs, tmp_path / "again"])
    assert [run.folder for run in collection.groups[0].runs] == ["again", "SSM/1"]
    (note,) = collection.notes
    assert note.startswith("SSM/0 is left out: again ")


@pytest.mark.parametrize(
    "change",
    [{"recipe.optimizer.lr": 0.01}, {"device": "cuda"}, {"recipe.plan.batch": "128"}],
    ids=str,
)
def test_runs_that_differ_in_a_setting_are_two_groups(
    runs: list[Path], change: dict[str, object]
) -> None:
    for seed in "01":
        edit(runs[0] / seed / "config.json", change)
        (runs[0] / seed).rename(runs[0].parent / f"other{seed}")
    write_run(runs[0] / "0", "SSM", 0)
    (experiment,) = read_folders([runs[0], runs[0].parent]).experiments
    first, *_, last = experiment.groups
    assert (len(first.runs), len(last.runs)) == (1, 2)
    assert len({group.label for group in experiment.groups}) == 5
    (path,) = differing_paths([first.settings, last.settings])
    assert path == next(iter(change)).removeprefix("recipe.").replace("device", "config.device")
    assert path in first.label
    assert path in last.label


def test_runs_on_other_data_are_another_experiment(runs: list[Path], tmp_path: Path) -> None:
    """Data with the same name but other files are other data."""
    write_run(tmp_path / "a", "SSM", 0, data={"name": "MNIST"})
    files = [{"file": "a/x.csv", "sha256": "1"}]
    write_run(tmp_path / "b", "SSM", 0, data={"name": "TableFile", "files": files})
    other = [{"file": "b/x.csv", "sha256": "2"}]
    write_run(tmp_path / "c", "SSM", 0, data={"name": "TableFile", "files": other})
    collection = read_folders([*runs, *map(tmp_path.joinpath, "abc")])
    assert [one.title for one in collection.experiments] == ["Digits", "MNIST", "x.csv", "x.csv"]


def test_rows_of_two_targets_or_scales_are_other_experiments(tmp_path: Path) -> None:
    for name in ("table5", "figure4"):
        write_timed(tmp_path / name, name, {"SSMVR": (2, "MNIST")})
    write_timed(tmp_path / "paper", "table5", {"SSMVR": (2, "MNIST")})
    edit(tmp_path / "paper" / "SSMVR" / "0" / "config.json", {"origin.scale": "paper"})
    collection = read_folders([tmp_path])
    assert [(one.target, one.scale) for one in collection.experiments] == [
        ("figure4", "cpu"), ("table5", "paper"), ("table5", "cpu"),
    ]  # fmt: skip
    assert collection.notes == ()


def test_rows_of_a_folder_have_the_order_of_the_target_and_folders_that_of_the_caller(
    tmp_path: Path,
) -> None:
    folder = write_table1(tmp_path)
    rows = ["RedWine SSM", "RedWine SSMVR", "RedWine FD-SSM", "RedWine FD-SSM-all"]
    assert [group.label for group in read_folders([folder], TARGETS).groups] == rows
    given = [folder / row for row in reversed(rows)]
    assert [group.label for group in read_folders(given, TARGETS).groups] == rows[::-1]
    assert [group.label for group in read_folders([folder]).groups] == sorted(rows)


def test_published_numbers_come_from_the_targets_only(tmp_path: Path) -> None:
    folder = write_table1(tmp_path)
    entry = {"nll": {"value": 9.5, "error": None, "settings": {"place": "elsewhere"}}, "fid": 3}
    edit(folder / "RedWine SSM" / "0" / "result.json", {"published": entry})
    published = read_folders([folder], TARGETS).groups[0].info.published
    assert set(published) == {"nll", "exact_sm_loss", "milliseconds_per_iteration"}
    assert (published["nll"].value, published["nll"].place) == (13.34, "Table 1")
    assert read_folders([folder]).groups[0].info.published == {}


def test_an_incomplete_last_line_is_ignored(runs: list[Path]) -> None:
    path = runs[0] / "0" / "metrics.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + '{"iteration": 3050, "loss": -1, "µ'.encode()[:-1])
    collection = read_folders(runs)
    assert collection.notes == ()
    assert collection.groups[0].runs[0].loss.iterations[-1] == 3000
    path.write_bytes(whole.rstrip(b"\n"))
    assert "nll" in read_folders(runs).groups[0].runs[0].validation


def test_a_damaged_line_is_named_and_left_out(runs: list[Path]) -> None:
    path = runs[0] / "0" / "metrics.jsonl"
    lines = path.read_bytes().split(b"\n")
    lines[1], lines[3] = b"\xff\x00", b'["iteration"]'
    path.write_bytes(b"\n".join(lines))
    collection = read_folders(runs)
    assert collection.notes == ("SSM/0: metrics.jsonl is damaged in line 2, 4",)
    assert collection.groups[0].runs[0].loss.iterations[:4] == (50, 150, 250, 300)


def test_a_missing_result_is_an_unfinished_run(runs: list[Path]) -> None:
    (runs[0] / "0" / "result.json").unlink()
    run = read_folders(runs).groups[0].runs[0]
    assert not run.finished
    assert (run.iterations, run.seconds) == (3000, 72)
    assert run.measurement("milliseconds_per_iteration") == Measurement(
        sum(sorted(run.step_times)[29:31]) / 2
    )
    assert read_folders(runs).groups[0].counted == read_folders(runs).groups[0].runs[1:]


@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff", b"[" * 100_000, b'{"a":' * 900])
@pytest.mark.parametrize("name", ["config", "result"])
def test_a_damaged_file_is_named(runs: list[Path], name: str, content: bytes) -> None:
    (runs[0] / "0" / f"{name}.json").write_bytes(content)
    collection = read_folders(runs)
    (note,) = collection.notes
    assert "SSM/0" in note
    assert name in note
    assert [run.finished for run in collection.groups[0].runs] == [False, True][name == "config" :]


def test_an_incomplete_image_is_named(runs: list[Path]) -> None:
    path = runs[0] / "0" / "samples.png"
    path.write_bytes(path.read_bytes()[:-20])
    collection = read_folders(runs)
    assert collection.groups[0].runs[0].samples is None
    (note,) = collection.notes
    assert "SSM/0: samples" in note


def test_values_of_the_wrong_kind_are_not_numbers(runs: list[Path]) -> None:
    path = runs[0] / "0"
    edit(path / "result.json", {"seconds": "fast", "iterations": 10**400, "metrics": [1]})
    edit(path / "config.json", {"versions": ["x"], "parameters": True, "machine": {"a": 1}})
    line = {"iteration": 1, "seconds": None, "loss": "low", "validation": 3}
    (path / "metrics.jsonl").write_text(json.dumps(line) + "\n")
    run = read_folders(runs).groups[0].runs[0]
    for value in (run.seconds, run.iterations, run.parameters, *run.loss.values):
        assert value != value
    assert run.metrics == {}
    assert run.validation == {}
    assert run.entry("machine") == '{"a": 1}'


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*nothing"):
        read_folders([tmp_path / "nothing"])
    with pytest.raises(FileNotFoundError, match=r"a run is a folder with a config\.json"):
        read_folders([tmp_path])


def test_none_differs_from_the_text_none() -> None:
    assert differing_paths([
        {"a": None, "b": 1, "c": [1]},
        {"a": "none", "b": True, "c": [1]},
    ]) == [
        "a",
        "b",
    ]


def test_a_study_is_read_as_it_was_written(tmp_path: Path) -> None:
    write_study(tmp_path / "figure2")
    (found,) = read_folders([tmp_path], TARGETS).studies
    assert (found.target, found.entry("title")) == ("figure2", "Results of figure2")
    assert found.title == "Figure 2: derivatives · cpu"
    assert read_folders([tmp_path]).studies[0].title == "Results of figure2 · cpu"
    assert found.numbers["autodiff_growth"] == Measurement(2.9, 0.1, {"to": 8})
    (panel,) = found.panels
    assert (panel.x_log, panel.y_log) == (False, True)
    assert panel.lines[0] == Line("error", (1, 2, 4), (0.1, 1e-3, 1e-5), (0.2, 1e-4, 1e-6))
    assert panel.lines[1].reference
    assert found.settings["network.width"] == 8
    assert found.versions == "fdsm 0.1.0, torch 2.13.0"


@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff", b"{}", b'{"findings": 3}', b"[" * 9999])
def test_a_damaged_study_is_named_and_left_out(tmp_path: Path, content: bytes) -> None:
    write_study(tmp_path / "figure2")
    (write_study(tmp_path / "figure1") / "study.json").write_bytes(content)
    collection = read_folders([tmp_path])
    assert [one.target for one in collection.studies] == ["figure2"]
    (note,) = collection.notes
    assert "figure1/study.json" in note


def test_a_folder_with_only_a_damaged_study_is_not_an_error(tmp_path: Path) -> None:
    (write_study(tmp_path / "figure1") / "study.json").write_text("{")
    assert read_folders([tmp_path]).studies == ()


def changed(**changes: object) -> dict[str, Any]:
    return {"findings": study("x")["findings"] | changes}


def test_a_damaged_panel_leaves_the_others(tmp_path: Path) -> None:
    (whole,) = study("x")["findings"]["panels"]
    torn = whole | {"lines": [{"name": "a", "x": [1, 2], "y": [1]}]}
    write_study(tmp_path / "a", **changed(panels=[torn, whole, 3, {}]))
    collection = read_folders([tmp_path])
    (found,) = collection.studies
    assert [panel.title for panel in found.panels] == ["Error against order"]
    assert [note.split(" is left out")[0].rpartition(" ")[2] for note in collection.notes] == [
        "panels[0]", "panels[2]", "panels[3]",
    ]  # fmt: skip
    assert "2 x, 1 y and 0 errors" in collection.notes[0]


def test_panels_and_numbers_of_the_wrong_type_are_ignored(tmp_path: Path) -> None:
    write_study(tmp_path / "a", **changed(panels=7, numbers={"n": {"value": None}}))
    (found,) = read_folders([tmp_path]).studies
    assert found.panels == ()
    assert math.isnan(found.numbers["n"].value)


def test_runs_below_a_study_are_found(tmp_path: Path) -> None:
    write_results(tmp_path)
    write_study(tmp_path / "table1")
    collection = read_folders([tmp_path])
    assert len(collection.studies) == 4
    assert len([one for one in collection.runs if one.target == "table1"]) == 8


def test_sections_have_the_order_of_the_targets(tmp_path: Path) -> None:
    write_results(tmp_path)
    sections = read_folders([tmp_path], TARGETS).sections
    assert [one.target for one in sections] == [target.name for target in TARGETS]


def test_a_study_with_few_entries_is_read(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "study.json").write_text(json.dumps({"findings": {}}))
    (found,) = read_folders([tmp_path]).studies
    assert (found.target, found.title, found.versions) == ("mine", "mine", "")
    assert found.settings == {}


@pytest.mark.parametrize("content", ["{}", "3", '[{"model": 1}]', '{"metric": "nll"}'])
def test_damaged_comparisons_are_named_or_ignored(runs: list[Path], content: str) -> None:
    """A list with a record without its metric is damaged. Anything but a list is ignored."""
    edit(runs[0] / "0" / "result.json", {"comparisons": json.loads(content)})
    collection = read_folders(runs)
    assert collection.groups[0].runs[0].comparisons == ()
    named = [note for note in collection.notes if note.startswith("SSM/0: result.json cannot be")]
    assert len(named) == content.startswith("[")


def test_damaged_density_grids_are_named(runs: list[Path]) -> None:
    """One file is not an archive, and the other has arrays of the wrong shape."""
    (runs[0] / "0" / "density_grid.npz").write_bytes(b"PK")
    score, density = np.zeros((3, 3, 2)), np.zeros((3, 2))
    path = runs[0] / "1" / "density_grid.npz"
    np.savez(path, axis=np.zeros(3), model_score=score, model_log_density=density)
    collection = read_folders(runs)
    assert [run.density_grid for run in collection.groups[0].runs] == [None, None]
    first, second = collection.notes
    assert first.startswith("SSM/0: density_grid.npz cannot be read: it is not a complete archive")
    assert "[(3, 2), (3, 3, 2)] on a grid of 3 points" in second
