"""Evaluations by two processes are compared with those of one in tests/cli/test_processes.py."""

from pathlib import Path

from paper.recipes import EBM
from paper.runs.distributed import evaluated_together
from fdsm.training.distributed.world import SINGLE_PROCESS

from tests.conftest import Launched
from ..run_cases import StandardNormal, known_model, table_recipe, write_table


def test_one_process_evaluates_in_the_folder_of_the_run(tmp_path: Path) -> None:
    recipe = table_recipe(write_table(tmp_path / "t.csv"))
    assert isinstance(recipe, EBM)
    saved = known_model(tmp_path / "run", StandardNormal(), recipe)
    with evaluated_together(saved, SINGLE_PROCESS) as one:
        assert one is saved


def test_only_the_first_process_writes_results(launched: Launched) -> None:
    written = [path.name for path in launched.folder.rglob("result.json")]
    assert written == ["result.json"]
    assert not list(launched.folder.glob("elsewhere/*"))
