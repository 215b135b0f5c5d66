"""A row that is run twice on the same machine gives the same bytes, for one row per family."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from fdsm.samplers import Temperatures
from paper.catalogue import recipe_of
from paper.data import Digits, GaussianMixtureDensity, SyntheticData
from paper.recipes import Frechet, RandomFeatures, Recipe, TemperedSampling
from paper.runs import Run, evaluate, train

TABLE = SyntheticData(GaussianMixtureDensity(((0.0, 0.0), (1.0, 1.0)), (0.5, 0.3)), n=300)
ROWS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "kernel": (
        "table1",
        "RedWine FD-SSM",
        {
            "data": TABLE,
            "inducing": 20,
            "penalty_steps": 5,
            "partition_samples": 1000,
            "chain_steps": 5,
        },
    ),
    "energy": (
        "table2",
        "FD-DSM",
        {
            "data": Digits(),
            "ood_sources": (),
            "sm_eval_rows": 3,
            "tempering": TemperedSampling(Temperatures(2, 3, 1, 30.0)),
        },
    ),
    "flow": ("table3", "FD-SSM", {"data": Digits(), "hidden": 20, "sm_eval_rows": 3}),
    "score network": (
        "table5",
        "FD-SSMVR",
        {
            "data": Digits(),
            "steps": 1,
            "distance": Frechet(RandomFeatures(), 20, name="frechet_random"),
            "watched": None,
        },
    ),
    "autoencoder": (
        "table6",
        "VAE FD-SSMVR",
        {"data": Digits(), "likelihood_rows": 5, "temperatures": 5},
    ),
}
"""Table, row, and what makes it small: data, and the length of the evaluation."""


def small(family: str) -> Recipe:
    table, row, changes = ROWS[family]
    recipe: Any = recipe_of(table, row, "cpu")
    plan = replace(recipe.plan, iterations=3, batch=16, validate_every=2, num_samples=4)
    data = replace(changes["data"], transform=recipe.data.transform)
    smaller: Recipe = replace(recipe, **(changes | {"data": data, "plan": plan}))
    return smaller


def outcome(folder: Path, family: str) -> dict[str, Any]:
    """Return the bytes of the weights and of the samples, and the metrics."""
    run = Run(folder, small(family), seed=3)
    data = run.recipe.data.load()
    saved = train(run, data)
    metrics = evaluate(saved, data, iter, references=False)["metrics"]
    weights = {name: w.numpy().tobytes() for name, w in saved.model.state_dict().items()}
    samples = {"samples": (folder / "samples.npy").read_bytes()}
    return weights | samples | {"metrics": metrics}


@pytest.mark.parametrize("family", ROWS)
def test_a_row_gives_the_same_bits_twice(family: str, tmp_path: Path) -> None:
    torch.set_default_dtype(torch.float32)
    first = outcome(tmp_path / "first", family)
    torch.randn(7)  # the state of torch's own generator does not matter
    second = outcome(tmp_path / "second", family)
    assert [name for name in first if first[name] != second[name]] == []
