"""Rows at the scale of the paper have the published settings."""

from typing import Any, cast

import pytest
import torch

from fdsm.noise import Geometric
from fdsm.serialize import to_json
from paper.recipes import Recipe
from paper.tables import table1, table2, table3, table5


def parameters(recipe: Recipe, *shape: int) -> int:
    with torch.device("meta"):
        return sum(p.numel() for p in recipe.build(torch.Size(shape)).parameters())


def test_table_1_trains_for_500_epochs() -> None:
    assert [row.plan.iterations for row in table1.PAPER[:18:6]] == [11_500, 3000, 9500]


def test_table_2_has_the_network_optimizer_and_step_size_of_the_appendix() -> None:
    rows = {row.name: row for row in table2.PAPER}
    assert parameters(rows["DSM"], 1, 32, 32) == 62_336_770
    assert rows["DSM"].optimizer.lr == pytest.approx(5e-5)
    assert rows["FD-SSM"].optimizer.lr == pytest.approx(1e-5)
    assert {row.optimizer.clip for row in table2.PAPER} == {0.1}
    record = cast(dict[str, Any], to_json(rows["FD-SSM"]))
    assert record["data"]["transform"]["steps"][-1]["sigma"] == pytest.approx(0.005)
    assert record["objective"]["projection"]["radius"] == pytest.approx(0.05)
    multiscale = cast(dict[str, Any], to_json(rows["FD-DSM"]))["objective"]
    assert multiscale["objective"]["sigma"] == pytest.approx(0.1)
    assert (multiscale["levels"]["first"], multiscale["levels"]["last"]) == (0.05, 1.2)


def test_table_3_has_the_published_flow_and_learning_rates() -> None:
    assert parameters(table3.PAPER[0], 784) == 15_154_352
    assert {row.name: row.optimizer.lr for row in table3.PAPER} == {
        "FD-SSM": 1e-3, "Approx BP": 1e-4, "CP": 1e-3, "DSM 0.1": 1e-3, "DSM 1.74": 1e-3,
        "SSM": 1e-4, "SSMVR": 1e-4, "MLE": 1e-4, "Taylor-SSM": 1e-3,
        "Taylor-SSM 1": 1e-3,
    }  # fmt: skip


def test_table_5_has_the_published_levels_and_sampler() -> None:
    for row in table5.PAPER:
        assert row.levels == Geometric(1.0, 0.01, 10)
        assert (row.steps, row.step_size, row.denoise) == (100, 2e-5, False)
