"""Tables and studies are made once, and go on wherever they were stopped."""

import json
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from fdsm.data import DataError, Dataset, Source
from fdsm.evaluation import Measurement
from fdsm.paper import reproduce
from fdsm.paper import run_store as place
from fdsm.paper.catalogue import TARGETS, Figure, Table, Target, target
from fdsm.paper.run_store import RunStore
from fdsm.paper.studies import lemma2
from fdsm.paper.study import Findings, Line, Panel
from fdsm.paper.tables import toy_densities as density
from fdsm.report import labels as titles
from fdsm.runs.reference import Scale
from fdsm.runs.run import MODEL, Run, RunError
from fdsm.runs.train import TrainingInterrupted
from fdsm.samplers import Progress
from fdsm.training import NonFiniteLossError

from ..recipes.tiny import tiny
from ..runs.run_cases import interrupt_after

TINY = Table("tiny", ("density",), {"cpu": 2, "paper": 1})


def silent(numbers: Iterable[int]) -> Iterable[int]:
    return numbers


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Make the experiment `density` a table of two rows that take no time."""
    torch.set_default_dtype(torch.float32)
    rows = (replace(tiny, name="a"), replace(tiny, name="b", sm_eval_rows=5))
    monkeypatch.setattr(density, "TABLE", rows)
    monkeypatch.setattr(density, "PAPER", rows[:1], raising=False)
    costs = lambda runs: [_Cost(float(len(run.recipe.name))) for run in runs]
    monkeypatch.setattr(reproduce, "pace", costs)
    return []


@dataclass(frozen=True)
class _Cost:
    milliseconds: float

    def record(self) -> dict[str, float]:
        return {"milliseconds_per_iteration": self.milliseconds, "bytes": 7}


def make(
    root: Path,
    said: list[str],
    target: Target = TINY,
    seeds: int | None = None,
    scale: Scale = "cpu",
) -> reproduce.Made:
    return reproduce.reproduce(target, RunStore(root, scale), seeds, silent, said.append)


def test_every_row_and_seed_is_made_once(
    tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make(tmp_path, said)
    names = ["a/0", "a/1", "b/0", "b/1"]
    assert made == reproduce.Made(tuple(tmp_path / "tiny" / name for name in names))
    trained = [f"tiny: density/{row}, seed {seed}" for seed in (0, 1) for row in "ab"]
    assert said == [*trained, "timing the steps of density/a, density/b in turn"]
    results = [json.loads((folder / "result.json").read_text()) for folder in made.folders]
    assert [r["bytes"] for r in results] == [7] * 4
    assert results[0]["metrics"]["exact_sm_loss"] != results[1]["metrics"]["exact_sm_loss"]

    said.clear()
    assert make(tmp_path, said) == made
    assert said == []


def test_only_what_is_missing_is_made(tmp_path: Path, said: list[str]) -> None:
    make(tmp_path, said, seeds=1)
    said.clear()
    (tmp_path / "tiny/b/0/result.json").unlink()
    before = (tmp_path / "tiny/a/0/result.json").read_bytes()
    make(tmp_path, said, seeds=1)
    assert said[0] == "tiny: density/b, seed 0"
    assert len(said) == 2  # and the times, which compare rows measured together
    assert (tmp_path / "tiny/a/0/result.json").read_bytes() == before


def test_better_words_reach_what_is_there(
    tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path, said, seeds=1)
    said.clear()
    rows = [replace(row, provenance="Table 9, as in the code") for row in density.TABLE]
    monkeypatch.setattr(density, "TABLE", tuple(rows))
    (folder, _) = make(tmp_path, said, seeds=1).folders
    assert said == []
    assert json.loads((folder / "config.json").read_text())["provenance"] == rows[0].provenance


def test_a_new_row_is_timed_together_with_the_others(
    tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path, said, seeds=1)
    said.clear()
    monkeypatch.setattr(density, "TABLE", (*density.TABLE, replace(tiny, name="c")))
    make(tmp_path, said, seeds=1)
    assert said[-1] == "timing the steps of density/a, density/b, density/c in turn"
    result = json.loads((tmp_path / "tiny/a/0/result.json").read_text())
    assert result["timed_with"] == ["density/a", "density/b", "density/c"]


def test_results_alone_are_enough(tmp_path: Path, said: list[str]) -> None:
    for folder in make(tmp_path, said).folders:
        strip(folder, ("config.json", "result.json"))
    said.clear()
    assert len(make(tmp_path, said).folders) == 4
    assert said == []


def test_a_table_goes_on_where_its_training_was_stopped(
    tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = make(tmp_path / "whole", said)
    with monkeypatch.context() as patch:
        interrupt_after(3, patch)
        for _ in range(4):  # in each of the runs
            with pytest.raises(TrainingInterrupted):
                make(tmp_path / "stopped", said)
            patch.undo()
            interrupt_after(30, patch)
    assert_same(whole, make(tmp_path / "stopped", said))


@pytest.mark.parametrize("where", ["evaluate", "pace"])
def test_a_table_goes_on_where_it_was_killed(
    where: str, tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = make(tmp_path / "whole", said)

    def killed(*arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(place if where == "evaluate" else reproduce, where, killed)
        with pytest.raises(KeyboardInterrupt):
            make(tmp_path / "stopped", said)
    assert_same(whole, make(tmp_path / "stopped", said))


def assert_same(one: reproduce.Made, two: reproduce.Made) -> None:
    for a, b in zip(one.folders, two.folders, strict=True):
        first, second = (json.loads((f / "result.json").read_text()) for f in (a, b))
        assert first["metrics"] == second["metrics"]
        assert first["timed_with"] == second["timed_with"]


@pytest.mark.parametrize("left", [("config.json", "result.json"), ("config.json", MODEL), None])
def test_what_is_there_of_another_recipe_is_neither_used_nor_replaced(
    left: tuple[str, ...] | None, tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder,) = make(tmp_path, said, seeds=1).folders[:1]
    if left is not None:
        strip(folder, left)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(RunError, match=r"scale: cpu -> paper.*--out"):
        RunStore(tmp_path, "paper").trained("tiny", "density/a", 0)
    changed = replace(density.TABLE[0], plan=replace(tiny.plan, batch=16))
    monkeypatch.setattr(density, "TABLE", (changed,))
    for used in (RunStore.run, RunStore.trained):
        with pytest.raises(RunError, match=r"plan.batch: 32 -> 16.*move it away"):
            used(RunStore(tmp_path), "tiny", "density/a", 0)
    with pytest.raises(RunError, match=r"plan.batch: 32 -> 16.*move it away"):
        make(tmp_path, said, seeds=1)
    assert before == {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_run_in_the_place_of_another_is_noticed(tmp_path: Path, said: list[str]) -> None:
    make(tmp_path, said, seeds=1)
    shutil.copytree(tmp_path / "tiny/a/0", tmp_path / "tiny/a/1")
    with pytest.raises(RunError, match="seed: 0 -> 1"):
        make(tmp_path, said, seeds=2)


def test_a_model_trained_again_for_a_study_leaves_the_record_of_its_result(
    tmp_path: Path, said: list[str]
) -> None:
    (folder,) = make(tmp_path, said, seeds=1).folders[:1]
    strip(folder, ("config.json", "result.json"))
    record = (folder / "config.json").read_bytes()
    RunStore(tmp_path).trained("tiny", "density/a", 0)
    assert (folder / MODEL).exists()
    assert (folder / "config.json").read_bytes() == record


def strip(folder: Path, kept: tuple[str, ...]) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir():
            path.rmdir()
        elif path.name not in kept:
            path.unlink()


@dataclass(frozen=True)
class _Nowhere(Source):
    transform: Any = tiny.data.transform

    def load(self) -> Dataset:
        raise DataError("there is no such data")


def test_rows_without_data_are_named_and_the_others_made(
    tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = (replace(tiny, name="a"), replace(tiny, name="b", data=_Nowhere()))
    monkeypatch.setattr(density, "TABLE", rows)
    made = make(tmp_path, said)
    assert [folder.name for folder in made.folders] == ["0", "1"]
    assert made.missing == ("density/b: there is no such data",)


def test_a_seed_that_diverges_does_not_take_the_others_with_it(
    tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    original = RunStore.evaluated

    def evaluated(self: RunStore, target: str, recipe: str, seed: int, progress: Progress) -> Run:
        if (recipe, seed) == ("density/a", 0):
            raise NonFiniteLossError("the loss is nan")
        return original(self, target, recipe, seed, progress)

    monkeypatch.setattr(RunStore, "evaluated", evaluated)
    made = make(tmp_path, said)
    assert [str(f.relative_to(tmp_path / "tiny")) for f in made.folders] == ["a/1", "b/0", "b/1"]
    assert made.missing == ("density/a, seed 0: the loss is nan",)


@dataclass(frozen=True)
class _Study:
    slope: float = 2.0
    title: str = field(default="A line", repr=False)
    provenance: str = field(default="Euclid", repr=False)

    def measure(self, place: RunStore, seed: int, progress: Progress) -> Findings:
        x = tuple(float(i) for i in progress(range(3)))
        line = Line("measured", x, tuple(self.slope * each for each in x))
        panel = Panel("Line", "x", "y", (line,))
        return Findings({"slope": Measurement(self.slope, 0.1)}, (panel,))


def test_a_study_is_measured_once(
    tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lemma2, "STUDY", _Study())
    for _ in range(2):
        made = make(tmp_path, said, target=Figure("lemma2"))
    assert made.folders == (tmp_path / "lemma2",)
    assert said == ["lemma2"]
    record = json.loads((tmp_path / "lemma2" / "study.json").read_text())
    assert record["settings"] == {"class": "_Study", "slope": 2.0}
    assert (record["title"], record["provenance"], record["scale"]) == ("A line", "Euclid", "cpu")
    assert record["findings"]["numbers"]["slope"]["value"] == pytest.approx(2.0)
    assert record["findings"]["panels"][0]["lines"][0]["y"] == [0.0, 2.0, 4.0]
    monkeypatch.setattr(lemma2, "STUDY", _Study(slope=3.0))
    with pytest.raises(RunError, match=r"slope: 2.0 -> 3.0"):
        make(tmp_path, said, target=Figure("lemma2"))


@dataclass(frozen=True)
class _OfAModel(_Study):
    def measure(self, place: RunStore, seed: int, progress: Progress) -> Findings:
        place.trained("tiny", "density/a", seed)
        return super().measure(place, seed, progress)


def test_a_study_of_a_model_is_out_of_date_when_its_recipe_changes(
    tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lemma2, "STUDY", _OfAModel())
    for _ in range(2):
        make(tmp_path, said, target=Figure("lemma2"))
    assert said == ["lemma2"]
    changed = replace(density.TABLE[0], plan=replace(tiny.plan, batch=16))
    monkeypatch.setattr(density, "TABLE", (changed,))
    with pytest.raises(RunError, match="density/a has changed"):
        make(tmp_path, said, target=Figure("lemma2"))


def test_every_table_and_figure_of_the_paper_is_there_at_both_scales() -> None:
    names = [one.name for one in TARGETS]
    assert names == list(titles.TARGETS)
    assert {f"table{i}" for i in range(1, 7)} | {f"figure{i}" for i in range(1, 5)} <= set(names)
    assert {"sensitivity", "lemma2", "theorem2", "nce_mpf", "sumo"} <= set(names)
    for name in names:
        one = target(name)
        if isinstance(one, Figure):
            assert one.study("cpu").provenance
            assert type(one.study("paper")) is type(one.study("cpu"))
            continue
        cpu, paper = one.recipes("cpu"), one.recipes("paper")
        assert paper.keys() == cpu.keys()
        assert all(recipe.provenance for recipe in (*cpu.values(), *paper.values()))


def test_an_unknown_target_is_named_with_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"'tabel1' to reproduce.*Did you mean table1\?"):
        target("tabel1")
