"""Ratios of given costs, what is measured, and that the recipes are the published ones."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from paper.recipes import EBM, ResNet, ScoreNetwork
from paper.studies.published_sizes import table1, table2, table3, table5
from paper.studies.published_sizes.step_ratios import (
    Comparison,
    Cost,
    PublishedSizes,
    compare,
    measure,
)
from paper.tests.recipes.recipe_cases import tiny

STUDIES = (table1.CPU, table2.CPU, table3.CPU, table5.CPU)


def test_ratios_are_those_of_the_shortest_times_and_of_the_memory() -> None:
    costs = {"a": Cost([4.0, 6.0, 9.0], 300, 64), "b": Cost([2.0, 2.0, 3.0], 200, 64)}
    numbers = compare(costs, [("a", "b")])
    time, memory = numbers["time, a over b"], numbers["memory, a over b"]
    assert (time.value, time.settings) == (2.0, {"median": 3.0, "steps": 3, "batch": 64})
    assert (memory.value, memory.settings) == (1.5, {"steps": 3, "batch": 64})
    assert (numbers["seconds, b"].value, numbers["bytes, b"].value) == (2.0, 200)


def test_each_recipe_takes_one_step_for_the_memory_and_then_the_timed_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch.set_default_dtype(torch.float32)
    batches: list[int] = []

    def part(batch: torch.Tensor, generator: torch.Generator) -> dict[str, torch.Tensor]:
        batches.append(len(batch))
        weight = torch.ones(25, dtype=torch.float32, requires_grad=True)
        return {"loss": (weight.exp() * weight).sum()}  # saves both: 200 bytes

    monkeypatch.setattr(EBM, "timed_part", lambda self, step: part)
    comparison = Comparison(tuple(replace(tiny, name=n) for n in "ab"), (("a", "b"),), batch=7)
    costs = measure(comparison.sized(), 3, "cpu", seed=0)
    assert batches == [7] * 2 * (1 + 3)
    assert {name: (len(c.seconds), c.saved_bytes, c.batch) for name, c in costs.items()} == {
        "a": (3, 200, 7),
        "b": (3, 200, 7),
    }


@pytest.mark.parametrize("study", STUDIES, ids=["table1", "table2", "table3", "table5"])
def test_every_pair_has_its_recipes(study: PublishedSizes) -> None:
    for comparison in study.comparisons:
        names = {recipe.name for recipe in comparison.recipes}
        assert names == {name for pair in comparison.pairs for name in pair}
        assert len({recipe.data for recipe in comparison.recipes}) == 1


def test_networks_and_batches_are_the_published_ones() -> None:
    recipes: Any = [c.sized() for study in STUDIES for c in study.comparisons]
    batches = [[recipe.plan.batch for recipe in rows] for rows in recipes]
    assert batches == [*[[200] * 5] * 3, [64] * 3, [64] * 3, [128] * 5, [16] * 4]
    denoising, sliced, flows, networks = recipes[3:]
    assert {recipe.network for recipe in (*denoising, *sliced)} == {ResNet(128)}
    assert {(recipe.hidden, recipe.depth) for recipe in flows} == {(1000, 4)}
    assert {recipe.width for recipe in networks} == {128}
    assert table5.PAPER.comparisons[0].sized()[0].plan.batch == 128
    assert isinstance(networks[0], ScoreNetwork)
    assert networks[0].data.load().shape == (3, 32, 32)
