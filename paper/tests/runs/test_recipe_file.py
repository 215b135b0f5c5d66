"""Recipes in Python files of users."""

import sys
from pathlib import Path

import pytest

from paper.recipes import EBM
from paper.runs import UnknownRecipeError, recipe_from_file
from paper.runs.recipe_file import load_file

FILE = """
from dataclasses import replace
from helper import base

mine = replace(base, name="mine")
other = replace(base, name="other")
text = "not a recipe"
"""
HELPER = """
from paper.data import ImageArray
from fdsm.objectives import SSM
from paper.recipes import EBM

base = EBM("base", SSM(), ImageArray("x.npy"))
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "helper.py").write_text(HELPER, encoding="utf-8")
    path = tmp_path / "own.py"
    path.write_text(FILE, encoding="utf-8")
    sys.modules.pop("helper", None)
    return path


def test_recipe_is_found_by_file_and_name(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(file.parent)
    path = list(sys.path)
    recipe, origin = recipe_from_file("own.py:mine")
    assert isinstance(recipe, EBM)
    assert recipe.name == "mine"
    assert origin == {"file": str(file.resolve()), "name": "mine"}
    assert sys.path == path


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("own.py:min", r"own.py defines no recipe 'min'. Did you mean 'mine'\? Available: base"),
        ("own.py:text", r"own.py defines no recipe 'text'. Available: base, mine, other$"),
        ("nowhere.py:mine", "there is no file nowhere.py"),
        ("own.py", "a recipe is given as file.py:name, but got 'own.py'"),
        ("notes.txt:mine", "notes.txt is not a Python file"),
    ],
)
def test_wrong_references_say_what_there_is(
    reference: str, message: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (file.parent / "notes.txt").write_text("mine = 1")
    monkeypatch.chdir(file.parent)
    with pytest.raises(UnknownRecipeError, match=message):
        recipe_from_file(reference)


def test_module_has_the_same_name_wherever_the_file_is(file: Path, tmp_path: Path) -> None:
    (tmp_path / "moved").mkdir()
    moved = file.rename(tmp_path / "moved" / "own.py")
    (tmp_path / "helper.py").rename(tmp_path / "moved" / "helper.py")
    assert load_file(moved).__name__ == "recipe_file.own"
