"""The committed results match the current recipes, so no row has to be run again."""

import shutil
from pathlib import Path

import pytest

from fdsm.paper.catalogue import TARGETS, Target
from fdsm.paper.reproduce import reproduce
from fdsm.paper.run_store import RunStore

KEPT = Path(__file__).parents[2] / "results"


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_nothing_is_run_again(target: Target, tmp_path: Path) -> None:
    """A setting that was renamed or changed in a recipe, but not in its results, is an error."""
    shutil.copytree(KEPT / target.name, tmp_path / target.name)
    made = reproduce(target, RunStore(tmp_path), None, iter, pytest.fail)
    assert made.folders
    assert not made.missing
