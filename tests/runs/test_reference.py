from pathlib import Path

import pytest
from fdsm.runs.reference import Reference, UnknownRecipeError, experiments, rows

from fdsm.recipes.recipe import Density, Recipe

FILE = """
from dataclasses import replace
from fdsm.paper.tables.digits import CPU

mine = replace(CPU[0], name="mine")
"""


def test_every_experiment_has_rows_with_names_of_their_own() -> None:
    assert {"deep_ebm", "digits", "density", "dkef_uci", "nice_mnist", "ncsn"} <= set(
        experiments()
    )
    for experiment in experiments():
        for scale in ("cpu", "paper"):
            names = [row.name for row in rows(experiment, scale)]
            assert len(set(names)) == len(names)


def test_a_row_is_found_by_name_and_the_first_without() -> None:
    assert Reference("digits/FD-SSM").resolve().name == "FD-SSM"
    assert Reference("digits").resolve() is rows("digits")[0]
    paper = Reference("deep_ebm/FD-DSM", "paper").resolve()
    assert paper.plan.iterations == 300_000
    assert isinstance(paper, Density)


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        (Reference("deep_emb"), "no experiment 'deep_emb', but .* Did you mean deep_ebm"),
        (Reference("digits/FD-SMS"), "no row of digits 'FD-SMS', but DSM.* Did you mean FD-SSM"),
        (Reference("digits", "paper"), "digits has no recipes at the scale 'paper'"),
        (Reference("nowhere.py:mine"), "no file 'nowhere.py' to find the recipe 'mine' in"),
        (Reference("override"), "no experiment 'override'"),
        (Reference("../cli"), "no experiment '..'"),
    ],
)
def test_mistakes_name_what_there_is(reference: Reference, message: str) -> None:
    with pytest.raises(UnknownRecipeError, match=message):
        reference.resolve()


def test_a_recipe_of_ones_own_is_found_in_its_file(tmp_path: Path) -> None:
    path = tmp_path / "own.py"
    path.write_text(FILE, encoding="utf-8")
    recipe: Recipe = Reference(f"{path}:mine").resolve()
    assert recipe.name == "mine"
    with pytest.raises(
        UnknownRecipeError, match=r"no recipe in .*own.py 'min'.*Did you mean mine"
    ):
        Reference(f"{path}:min").resolve()


def test_data_and_settings_are_applied_in_order(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("a,b\n" + "\n".join(f"{i},{i * i}" for i in range(30)), encoding="utf-8")
    reference = Reference(
        "deep_ebm", data=str(path), overrides=("plan.batch=8", "data.test=0.2", "plan.batch=9")
    )
    recipe = reference.resolve()
    assert recipe.plan.batch == 9
    assert len(recipe.data.load().test) == 6
    record = {**reference.record(), "settings": {"data": {"class": "Table"}}}
    path.unlink()
    again = Reference.from_record(record).resolve()
    assert again == recipe
