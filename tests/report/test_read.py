"""Runs are found, read, and put together as they belong; damage is named and survived."""

import json
from pathlib import Path

import pytest

from fdsm.report import collect, differing

from .folders import LOSSES, METHODS, edit, records, write


def test_seeds_are_grouped_in_the_order_of_the_folders(runs: list[Path]) -> None:
    (experiment,) = collect(list(reversed(runs))).experiments
    assert (experiment.family, experiment.data, experiment.scale) == ("deep_ebm", "Digits", "cpu")
    assert [group.label for group in experiment.groups] == list(reversed(METHODS))
    assert [[run.seed for run in group.runs] for group in experiment.groups] == [["0", "1"]] * 4
    run = experiment.groups[0].runs[1]
    assert run.metrics["exact_sm_loss"].value == LOSSES["FD-DSM", 1]
    assert run.metrics["exact_sm_loss"].settings == {"rows": 180}
    logged = [r for r in records("FD-DSM", 1) if "loss" in r]
    assert run.loss.values == tuple(r["loss"] for r in logged)
    assert run.loss.seconds == tuple(r["seconds"] for r in logged)
    assert run.validation["nll"].iterations == (500, 1000, 1500, 2000, 2500, 3000)
    assert run.size == (64, 64)


def test_what_is_found_twice_counts_once(runs: list[Path]) -> None:
    once = collect([runs[0].parent])
    assert len(once.runs) == 8
    assert len(collect([runs[0].parent, *runs, runs[0] / "1"]).runs) == 8


def test_seeds_are_sorted_as_numbers(tmp_path: Path) -> None:
    for seed in (10, 9, 2):
        write(tmp_path / str(seed), "SSM", seed % 2, seed=seed)
    (group,) = collect([tmp_path]).groups
    assert [run.seed for run in group.runs] == ["2", "9", "10"]


def test_of_a_seed_run_twice_the_later_counts(runs: list[Path], tmp_path: Path) -> None:
    write(tmp_path / "again", "SSM", 0, started="2026-12-01T00:00:00+00:00")
    collection = collect([*runs, tmp_path / "again"])
    assert [run.folder for run in collection.groups[0].runs] == ["again", "SSM/1"]
    (note,) = collection.notes
    assert note.startswith("SSM/0 is left out: again ")


@pytest.mark.parametrize(
    "change",
    [{"settings.optimizer.lr": 0.01}, {"device": "cuda"}, {"settings.batch": "128"}],
    ids=str,
)
def test_groups_that_differ_in_a_setting_are_apart(
    runs: list[Path], change: dict[str, object]
) -> None:
    for seed in "01":
        edit(runs[0] / seed / "config.json", change)
        (runs[0] / seed).rename(runs[0].parent / f"other{seed}")
    write(runs[0] / "0", "SSM", 0)
    (experiment,) = collect([runs[0], runs[0].parent]).experiments
    first, *_, last = experiment.groups
    assert (len(first.runs), len(last.runs)) == (1, 2)
    assert len({group.label for group in experiment.groups}) == 5
    (path,) = differing([first.settings, last.settings])
    assert path == next(iter(change)).removeprefix("settings.").replace("device", "config.device")
    assert path in first.label
    assert path in last.label


def test_what_cannot_be_compared_is_another_experiment(runs: list[Path], tmp_path: Path) -> None:
    write(tmp_path / "a", "SSM", 0, data={"name": "MNIST"})
    write(tmp_path / "b", "SSM", 0, scale="paper")
    write(tmp_path / "c", "SSM", 0, recipe="nice/SSM")
    names = [one.name for one in collect([*runs, *map(tmp_path.joinpath, "abc")]).experiments]
    assert names == [
        "deep_ebm · Digits · cpu",
        "deep_ebm · MNIST · cpu",
        "deep_ebm · Digits · paper",
        "nice · Digits · cpu",
    ]


def test_a_torn_last_line_is_tolerated(runs: list[Path]) -> None:
    path = runs[0] / "0" / "metrics.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + '{"iteration": 3050, "loss": -1, "µ'.encode()[:-1])
    collection = collect(runs)
    assert collection.notes == ()
    assert collection.groups[0].runs[0].loss.iterations[-1] == 3000
    path.write_bytes(whole.rstrip(b"\n"))
    assert "nll" in collect(runs).groups[0].runs[0].validation


def test_a_damaged_line_is_named_and_left_out(runs: list[Path]) -> None:
    path = runs[0] / "0" / "metrics.jsonl"
    lines = path.read_bytes().split(b"\n")
    lines[1], lines[3] = b"\xff\x00", b'["iteration"]'
    path.write_bytes(b"\n".join(lines))
    collection = collect(runs)
    assert collection.notes == ("SSM/0: metrics.jsonl is damaged in line 2, 4",)
    assert collection.groups[0].runs[0].loss.iterations[:4] == (50, 150, 250, 300)


def test_a_missing_result_is_an_unfinished_run(runs: list[Path]) -> None:
    (runs[0] / "0" / "result.json").unlink()
    run = collect(runs).groups[0].runs[0]
    assert not run.finished
    assert (run.iterations, run.seconds) == (3000, 72)
    assert run.milliseconds == sum(sorted(run.step_times)[29:31]) / 2
    assert collect(runs).groups[0].counted == collect(runs).groups[0].runs[1:]


@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff", b"[" * 100_000, b'{"a":' * 900])
@pytest.mark.parametrize("name", ["config", "result"])
def test_a_damaged_file_is_named(runs: list[Path], name: str, content: bytes) -> None:
    (runs[0] / "0" / f"{name}.json").write_bytes(content)
    collection = collect(runs)
    (note,) = collection.notes
    assert "SSM/0" in note
    assert name in note
    assert [run.finished for run in collection.groups[0].runs] == [False, True][name == "config" :]


def test_an_image_cut_short_is_named(runs: list[Path]) -> None:
    path = runs[0] / "0" / "samples.png"
    path.write_bytes(path.read_bytes()[:-20])
    collection = collect(runs)
    assert collection.groups[0].runs[0].samples is None
    (note,) = collection.notes
    assert "SSM/0: samples" in note


def test_values_of_the_wrong_kind_are_not_numbers(runs: list[Path]) -> None:
    path = runs[0] / "0"
    edit(path / "result.json", {"seconds": "fast", "iterations": 10**400, "metrics": [1]})
    edit(path / "config.json", {"versions": ["x"], "parameters": True, "machine": {"a": 1}})
    line = {"iteration": 1, "seconds": None, "loss": "low", "validation": 3}
    (path / "metrics.jsonl").write_text(json.dumps(line) + "\n")
    run = collect(runs).groups[0].runs[0]
    for value in (run.seconds, run.iterations, run.parameters, *run.loss.values):
        assert value != value
    assert run.metrics == {}
    assert run.validation == {}
    assert run.said("machine") == '{"a": 1}'


def test_what_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*nothing"):
        collect([tmp_path / "nothing"])
    with pytest.raises(FileNotFoundError, match=r"a run is a folder with a config\.json"):
        collect([tmp_path])


def test_none_is_not_the_word_none() -> None:
    assert differing([{"a": None, "b": 1, "c": [1]}, {"a": "none", "b": True, "c": [1]}]) == [
        "a",
        "b",
    ]
