"""Records of runs describe the user's data and training in their own terms."""

from pathlib import Path

import pytest

from paper.report import read_folders
from paper.report.records import flatten, measurements_from_json, text

from .report_cases import edit, write_table1, write_user_run


def test_a_users_run_is_described_by_its_data_recipe_and_training(tmp_path: Path) -> None:
    (run,) = read_folders([write_user_run(tmp_path / "run")]).runs
    assert run.description == {
        "data": "measurements.csv: 1,000 rows (800 train, 100 validation, 100 test), 12 columns",
        "recipe": "table2/FD-SSM",
        "model": "EBM",
        "objective": "derivatives with FiniteDifference",
        "training": "3,000 iterations with batches of 128",
    }


def test_a_run_of_a_recipe_file_is_described_by_the_file(tmp_path: Path) -> None:
    folder = write_user_run(tmp_path / "run")
    edit(folder / "config.json", {"origin": {"file": "mine.py", "name": "wide"}})
    edit(folder / "config.json", {"recipe.objective.class": "fdsm.objectives.SSM"})
    edit(folder / "config.json", {"data": {"name": "Digits"}, "shape": [1, 8, 8]})
    (run,) = read_folders([folder]).runs
    assert run.description["recipe file"] == "mine.py wide"
    assert run.description["objective"] == "SSM, derivatives with FiniteDifference"
    assert run.description["data"] == "Digits: 1 × 8 × 8 values per row"
    assert "recipe" not in run.description


def test_objective_is_that_inside_its_wrappers(tmp_path: Path) -> None:
    folder = write_user_run(tmp_path / "run")
    inner = {"class": "fdsm.objectives.DSM", "derivative": {"class": "fdsm.derivatives.Taylor"}}
    wrapped = {"class": "fdsm.objectives.ViaScore", "objective": inner}
    edit(folder / "config.json", {"recipe.objective": wrapped})
    (run,) = read_folders([folder]).runs
    assert run.description["objective"] == "DSM, derivatives with Taylor"


def test_time_with_validation_includes_a_share_of_each_validation(tmp_path: Path) -> None:
    """A step takes 20 ms, and a validation takes 40 ms every 4 steps."""
    run = read_folders([write_table1(tmp_path) / "RedWine SSM"]).runs[0]
    found = run.measurement("milliseconds_with_validation")
    assert found is not None
    assert found.value == pytest.approx(30)


def test_text_has_no_control_characters() -> None:
    assert text("a\x1b[31m\u202eb\ud800") == "a�[31m�b�"
    assert [text(value) for value in (None, True, False, 1.5, [1])] == [
        "none", "yes", "no", "1.5", "[1]",
    ]  # fmt: skip


def test_values_that_are_not_objects_have_no_leaves_and_no_measurements() -> None:
    assert flatten(None) == flatten([]) == flatten({}) == {}
    assert measurements_from_json([1]) == {}
