"""Tables and studies are run once, and continue where they were stopped."""

import json
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from fdsm.evaluation import Measurement
from fdsm.samplers import Progress
from fdsm.training import NonFiniteLossError
from paper import reproduce, run_store
from paper.catalogue import Target, UnknownTargetError
from paper.data import DataError, Dataset, Source
from paper.report import Line, Panel
from paper.reproduce import ReproductionResult
from paper.run_store import RunStore
from paper.runs import Run, RunError, TrainingInterrupted
from paper.studies import lemma2
from paper.study import StudyResult
from paper.tables import toy_densities
from paper.targets import StudyTarget
from paper.tests.runs.run_cases import interrupt_after

from .paper_cases import TINY, TINY_ROWS, with_batch

pytestmark = pytest.mark.usefixtures("tiny_table")

STUDY = StudyTarget("line", "A line", "lemma2")


@dataclass(frozen=True)
class _Cost:
    milliseconds: float

    def record(self) -> dict[str, float]:
        return {"milliseconds_per_iteration": self.milliseconds, "bytes": 7}


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list of log messages. Timing is replaced by a constant."""
    costs = lambda runs: [_Cost(float(len(run.recipe.name))) for run in runs]
    monkeypatch.setattr(reproduce, "measure_step_costs", costs)
    return []


def run_target(
    root: Path,
    log: list[str],
    target: Target = TINY,
    *,
    rows: tuple[str, ...] | None = None,
    seeds: int | None = None,
) -> ReproductionResult:
    return reproduce.reproduce(
        target, RunStore(root), rows=rows, seeds=seeds, progress=iter, log=log.append
    )


def results(result: ReproductionResult) -> list[dict[str, Any]]:
    return [json.loads((folder / "result.json").read_text()) for folder in result.folders]


def strip(folder: Path) -> None:
    """Keep only the files that are committed in results/."""
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir():
            path.rmdir()
        elif path.name not in {"config.json", "result.json"}:
            path.unlink()


def test_every_row_and_seed_is_run_once(tmp_path: Path, log: list[str]) -> None:
    result = run_target(tmp_path, log)
    names = ["a/0", "a/1", "b/0", "b/1"]
    assert result == ReproductionResult(tuple(tmp_path / "tiny" / name for name in names))
    runs = [f"tiny: {row}, seed {seed}" for seed in (0, 1) for row in "ab"]
    assert log == [*runs, "timing the training steps of tiny/a, tiny/b, interleaved"]
    first, second, *_ = found = results(result)
    assert [one["bytes"] for one in found] == [7] * 4
    assert [one["timed_with"] for one in found] == [["tiny/a", "tiny/b"]] * 4
    assert first["metrics"]["exact_sm_loss"] != second["metrics"]["exact_sm_loss"]
    log.clear()
    assert run_target(tmp_path, log) == result
    assert log == []


def test_only_missing_rows_are_run(tmp_path: Path, log: list[str]) -> None:
    run_target(tmp_path, log, seeds=1)
    log.clear()
    (tmp_path / "tiny/b/0/result.json").unlink()
    before = (tmp_path / "tiny/a/0/result.json").read_bytes()
    run_target(tmp_path, log, seeds=1)
    assert log[0] == "tiny: b, seed 0, continuing at iteration 40"
    assert len(log) == 2  # and the times, because rows are compared
    assert (tmp_path / "tiny/a/0/result.json").read_bytes() == before


def test_one_row_can_be_run_alone(tmp_path: Path, log: list[str]) -> None:
    result = run_target(tmp_path, log, rows=("b",), seeds=1)
    assert result.folders == (tmp_path / "tiny/b/0",)
    assert results(result)[0]["timed_with"] == ["tiny/b"]
    assert not (tmp_path / "tiny/a").exists()
    with pytest.raises(UnknownTargetError, match=r"unknown row 'c' of tiny. Available: a, b"):
        run_target(tmp_path, log, rows=("c",))
    with pytest.raises(UnknownTargetError, match="line is a study and has no rows"):
        run_target(tmp_path, log, STUDY, rows=("a",))


def test_one_row_of_a_finished_table_keeps_its_times(tmp_path: Path, log: list[str]) -> None:
    run_target(tmp_path, log, seeds=1)
    log.clear()
    assert results(run_target(tmp_path, log, rows=("b",), seeds=1))[0]["timed_with"] == [
        "tiny/a",
        "tiny/b",
    ]
    assert log == []


def test_new_provenance_is_written_to_existing_runs(
    tmp_path: Path, log: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_target(tmp_path, log, seeds=1)
    log.clear()
    rows = tuple(replace(row, provenance="Table 9, as in the code.") for row in TINY_ROWS)
    monkeypatch.setattr(toy_densities, "CPU", rows)
    (folder, _) = run_target(tmp_path, log, seeds=1).folders
    assert log == []
    assert json.loads((folder / "config.json").read_text())["provenance"] == rows[0].provenance


def test_a_new_row_is_timed_together_with_the_others(
    tmp_path: Path, log: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_target(tmp_path, log, seeds=1)
    log.clear()
    monkeypatch.setattr(toy_densities, "CPU", (*TINY_ROWS, replace(TINY_ROWS[0], name="c")))
    result = run_target(tmp_path, log, seeds=1)
    assert log[-1] == "timing the training steps of tiny/a, tiny/b, tiny/c, interleaved"
    assert [one["timed_with"] for one in results(result)] == [["tiny/a", "tiny/b", "tiny/c"]] * 3


def test_config_and_result_are_enough_to_count_as_finished(tmp_path: Path, log: list[str]) -> None:
    for folder in run_target(tmp_path, log).folders:
        strip(folder)
    log.clear()
    assert len(run_target(tmp_path, log).folders) == 4
    assert log == []


def test_a_table_continues_after_its_training_was_stopped(
    tmp_path: Path, log: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run_target(tmp_path / "whole", log)
    with monkeypatch.context() as patch:
        interrupt_after(3, patch)
        for _ in range(4):  # once in each run
            with pytest.raises(TrainingInterrupted):
                run_target(tmp_path / "stopped", log)
            patch.undo()
            interrupt_after(30, patch)
    assert_same_results(whole, run_target(tmp_path / "stopped", log))


@pytest.mark.parametrize("where", ["evaluate", "measure_step_costs"])
def test_a_table_continues_after_it_was_killed(
    where: str, tmp_path: Path, log: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run_target(tmp_path / "whole", log)

    def killed(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(run_store if where == "evaluate" else reproduce, where, killed)
        with pytest.raises(KeyboardInterrupt):
            run_target(tmp_path / "stopped", log)
    assert_same_results(whole, run_target(tmp_path / "stopped", log))


def assert_same_results(one: ReproductionResult, two: ReproductionResult) -> None:
    for first, second in zip(results(one), results(two), strict=True):
        assert first["metrics"] == second["metrics"]
        assert first["timed_with"] == second["timed_with"]


def test_existing_results_with_other_settings_are_refused(
    tmp_path: Path, log: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_target(tmp_path, log, seeds=1)
    monkeypatch.setattr(toy_densities, "CPU", (with_batch(TINY_ROWS[0], 16),))
    with pytest.raises(RunError, match=r"plan.batch: 32 -> 16"):
        run_target(tmp_path, log, seeds=1)
    shutil.copytree(tmp_path / "tiny/a/0", tmp_path / "tiny/a/1")
    monkeypatch.setattr(toy_densities, "CPU", TINY_ROWS)
    with pytest.raises(RunError, match="seed: 0 -> 1"):
        run_target(tmp_path, log, seeds=2)


@dataclass(frozen=True)
class _Unavailable(Source):
    transform: Any = TINY_ROWS[0].data.transform

    def load(self) -> Dataset:
        raise DataError("the data are not available")


def test_rows_without_data_are_reported_and_the_others_run(
    tmp_path: Path, log: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = (TINY_ROWS[0], replace(TINY_ROWS[1], data=_Unavailable()))
    monkeypatch.setattr(toy_densities, "CPU", rows)
    result = run_target(tmp_path, log)
    assert result.folders == (tmp_path / "tiny/a/0", tmp_path / "tiny/a/1")
    assert result.missing == ("tiny/b: the data are not available",)


def test_a_seed_that_diverges_does_not_stop_the_others(
    tmp_path: Path, log: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    original = RunStore.evaluated

    def evaluated(self: RunStore, target: str, row: str, seed: int, progress: Progress) -> Run:
        if (row, seed) == ("a", 0):
            raise NonFiniteLossError("the loss is nan")
        return original(self, target, row, seed, progress)

    monkeypatch.setattr(RunStore, "evaluated", evaluated)
    result = run_target(tmp_path, log)
    folders = [str(folder.relative_to(tmp_path / "tiny")) for folder in result.folders]
    assert folders == ["a/1", "b/0", "b/1"]
    assert result.missing == ("tiny/a, seed 0: the loss is nan",)


@dataclass(frozen=True)
class _Slope:
    slope: float = 2.0
    provenance: ClassVar[str] = "Euclid."

    def run(self, store: RunStore, seed: int, progress: Progress) -> StudyResult:
        x = tuple(float(i) for i in progress(range(3)))
        line = Line("measured", x, tuple(self.slope * each for each in x))
        panel = Panel("Line", "x", "y", (line,))
        return StudyResult({"slope": Measurement(self.slope, 0.1)}, (panel,))


def test_a_study_is_run_once(
    tmp_path: Path, log: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lemma2, "CPU", _Slope())
    for _ in range(2):
        result = run_target(tmp_path, log, STUDY)
    assert result.folders == (tmp_path / "line",)
    assert log == ["line"]
    record = json.loads((tmp_path / "line" / "study.json").read_text())
    assert record["settings"] == {"class": f"{__name__}._Slope", "slope": 2.0}
    assert [record[key] for key in ("title", "provenance", "scale")] == [
        "A line",
        "Euclid.",
        "cpu",
    ]
    assert record["findings"]["numbers"]["slope"]["value"] == pytest.approx(2.0)
    assert record["findings"]["panels"][0]["lines"][0]["y"] == [0.0, 2.0, 4.0]
    monkeypatch.setattr(lemma2, "CPU", _Slope(slope=3.0))
    with pytest.raises(RunError, match=r"slope: 2.0 -> 3.0"):
        run_target(tmp_path, log, STUDY)


def test_a_new_title_is_written_to_an_existing_study(
    tmp_path: Path, log: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lemma2, "CPU", _Slope())
    run_target(tmp_path, log, STUDY)
    before = json.loads((tmp_path / "line" / "study.json").read_text())
    run_target(tmp_path, log, replace(STUDY, title="Another line"))
    after = json.loads((tmp_path / "line" / "study.json").read_text())
    assert after == before | {"title": "Another line"}
    assert log == ["line"]


@dataclass(frozen=True)
class _SlopeOfModel(_Slope):
    def run(self, store: RunStore, seed: int, progress: Progress) -> StudyResult:
        store.trained("tiny", "a", seed)
        return super().run(store, seed, progress)


def test_a_study_of_a_model_is_refused_after_its_recipe_changed(
    tmp_path: Path, log: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lemma2, "CPU", _SlopeOfModel())
    for _ in range(2):
        run_target(tmp_path, log, STUDY)
    assert log == ["line"]
    monkeypatch.setattr(toy_densities, "CPU", (with_batch(TINY_ROWS[0], 16),))
    with pytest.raises(RunError, match="the settings of tiny/a have changed"):
        run_target(tmp_path, log, STUDY)
