"""Runs by target, row and seed: trained when needed, never mixed with other settings."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from paper.run_store import RunStore
from paper.runs import RunError
from paper.tables import toy_densities

from .paper_cases import TINY_ROWS, with_batch

pytestmark = pytest.mark.usefixtures("tiny_table")


def test_a_model_is_trained_once(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    saved = store.trained("tiny", "a", 3)
    assert saved.run.folder == tmp_path / "tiny" / "a" / "3"
    assert saved.run.origin == {"target": "tiny", "row": "a", "scale": "cpu"}
    before = saved.run.model_path.stat().st_mtime_ns
    assert store.trained("tiny", "a", 3).run.model_path.stat().st_mtime_ns == before


def test_an_opened_run_has_the_provenance_of_the_catalogue(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    store.trained("tiny", "a", 0)
    assert store.run("tiny", "a", 0).recipe == TINY_ROWS[0]
    assert store.run("tiny", "a", 0).recipe.provenance == TINY_ROWS[0].provenance != ""


def test_evaluating_writes_a_result(tmp_path: Path) -> None:
    run = RunStore(tmp_path).evaluated("tiny", "a", 0, iter)
    assert run.result["metrics"]["exact_sm_loss"]["value"] < 0
    assert "comparisons" not in run.result


def test_other_settings_scales_and_seeds_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    RunStore(tmp_path).trained("tiny", "a", 0)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(RunError, match=r"different settings \(origin.scale: cpu -> paper\)"):
        RunStore(tmp_path, "paper").trained("tiny", "a", 0)
    monkeypatch.setattr(toy_densities, "CPU", (with_batch(TINY_ROWS[0], 16),))
    with pytest.raises(RunError, match=r"different settings \(recipe.plan.batch: 32 -> 16\)"):
        RunStore(tmp_path).trained("tiny", "a", 0)
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    monkeypatch.undo()


def test_a_folder_with_the_run_of_another_seed_is_refused(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    store.trained("tiny", "a", 0)
    shutil.copytree(tmp_path / "tiny/a/0", tmp_path / "tiny/a/1")
    with pytest.raises(RunError, match="seed: 0 -> 1"):
        store.run("tiny", "a", 1)


def test_retraining_for_a_study_keeps_the_record_of_the_result(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    run = store.evaluated("tiny", "a", 0, iter)
    config = (run.folder / "config.json").read_bytes()
    run.model_path.unlink()
    shutil.rmtree(run.folder / "checkpoints")
    store.trained("tiny", "a", 0)
    assert run.model_path.exists()
    assert (run.folder / "config.json").read_bytes() == config


def test_digests_change_with_the_settings_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = RunStore(tmp_path)
    store.run("tiny", "a", 0)
    store.run("tiny", "a", 1)
    assert list(store.recipe_digests) == ["tiny/a"]
    assert store.changed_rows(store.recipe_digests) == []
    described = replace(TINY_ROWS[0], provenance="Table 9.")
    monkeypatch.setattr(toy_densities, "CPU", (described,))
    assert store.changed_rows(store.recipe_digests) == []
    monkeypatch.setattr(toy_densities, "CPU", (with_batch(TINY_ROWS[0], 16),))
    assert store.changed_rows(store.recipe_digests) == ["the settings of tiny/a have changed"]
