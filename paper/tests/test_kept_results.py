"""The committed results match the recipes and studies, so that nothing has to be run again."""

import hashlib
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from paper.catalogue import DEMOS, TARGETS, Target, recipe_of
from paper.reproduce import reproduce
from paper.run_store import RunStore
from paper.runs import Run

PENDING = {"table1", "kernels"}
"""Targets with rows, seeds or studies whose results are not committed yet."""

DEMONSTRATIONS = {target.name for target in DEMOS}
KEPT = Path(__file__).parents[1] / "results"
RUNS = sorted(path.parent for path in KEPT.rglob("config.json"))
STUDIES = sorted(KEPT.rglob("study.json"))


@pytest.mark.parametrize(
    "target",
    [
        pytest.param(t, marks=[pytest.mark.xfail(strict=True)]) if t.name in PENDING else t
        for t in TARGETS
    ],
    ids=lambda target: target.name,
)
def test_nothing_is_run_or_rewritten(target: Target, tmp_path: Path) -> None:
    """A setting that was renamed or changed in the code, but not in the results, is an error."""
    shutil.copytree(KEPT / target.name, tmp_path / target.name)
    result = reproduce(target, RunStore(tmp_path), progress=iter, log=pytest.fail)
    assert result.folders
    assert not result.missing
    for path in (tmp_path / target.name).rglob("*.json"):
        assert path.read_bytes() == (KEPT / path.relative_to(tmp_path)).read_bytes()


def test_runs_open_with_the_recipe_of_the_catalogue() -> None:
    for folder in RUNS:
        run = Run.open(folder)
        target, row = str(run.origin["target"]), str(run.origin["row"])
        assert folder == RunStore(KEPT).folder(target, row, run.seed)
        recipe: Any = recipe_of(target, row, "cpu")
        assert run.recipe == replace(recipe, provenance=""), folder  # it is not a setting
        assert run.config["provenance"] == recipe.provenance, folder
        assert run.result["metrics"] or target in DEMONSTRATIONS, folder


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.parent.name)
def test_studies_used_models_with_the_recorded_settings(path: Path) -> None:
    """The digest of a row in a study is that of the settings in the config of its run."""
    for name, digest in json.loads(path.read_text())["recipes"].items():
        config = json.loads((KEPT / name / "0" / "config.json").read_text())
        recipe = json.dumps(config["recipe"], sort_keys=True)
        assert hashlib.sha256(recipe.encode()).hexdigest() == digest
