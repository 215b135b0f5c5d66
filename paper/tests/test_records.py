"""Recipes of the paper as JSON and back."""

import json
from dataclasses import replace

import pytest

import paper
from fdsm.serialize import from_json, to_json
from paper.catalogue import DEMOS, TARGETS
from paper.recipes import Recipe
from paper.targets import TableTarget

PAPER_ROWS = [
    pytest.param(recipe, id=f"{target.name}-{scale}-{row}")
    for target in (*TARGETS, *DEMOS)
    if isinstance(target, TableTarget)
    for scale in ("cpu", "paper")
    for row, recipe in target.recipes(scale).items()
]


@pytest.mark.parametrize("recipe", PAPER_ROWS)
def test_every_recipe_survives_the_way_to_json_and_back(recipe: Recipe) -> None:
    record = to_json(recipe)
    text = json.loads(json.dumps(record))
    rebuilt = from_json(text, paper)
    assert type(rebuilt) is type(recipe)
    assert replace(rebuilt, provenance=recipe.provenance) == recipe
    assert to_json(rebuilt) == record == text
