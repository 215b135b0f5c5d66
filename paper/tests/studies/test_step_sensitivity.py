"""NLLs of runs with given results."""

from dataclasses import replace
from pathlib import Path

import pytest

from fdsm.objectives import SSM
from fdsm.projections import Sphere
from fdsm.serialize import to_json
from paper.run_store import RunStore
from paper.studies.step_sensitivity import CPU
from paper.tables import table1

ROWS = {row.name: row for row in table1.CPU}
PUBLISHED = {0.1: 14.17, 0.05: 13.51, 0.02: 14.03, 0.01: 14.0}


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    """Return runs whose NLL with seed `s` and step `ε` is `ε + s`, and one more near data."""
    store = RunStore(tmp_path)
    for step, row in CPU.rows:
        for seed in (3, 4):
            run = store.run("table1", row, seed)
            run.folder.mkdir(parents=True)
            config = {"format": 2, "origin": dict(run.origin), "seed": seed, "device": "cpu"}
            run.write("config.json", config | {"recipe": to_json(run.recipe)})
            metrics = {
                name: {"value": step + seed + more, "error": 0.3, "settings": {"samples": 7}}
                for name, more in (("nll", 0.0), ("nll_near_data", 1.0))
            }
            run.write("result.json", {"metrics": metrics})
    return store


def test_rows_have_their_step_size() -> None:
    for step, name in CPU.rows:
        objective = ROWS[name].objective
        assert isinstance(objective, SSM)
        assert objective.projection == Sphere(step)


def test_a_single_run_keeps_its_own_error(store: RunStore) -> None:
    result = replace(CPU, seeds=1).run(store, 3, iter)
    found = result.numbers["NLL at ε = 0.02, proposal near the data"]
    assert (found.value, found.error) == (4.02, 0.3)
    assert found.settings == {"samples": 7}
    published, near, sentence = result.panels[0].lines
    assert published.y == pytest.approx([3.1, 3.05, 3.02, 3.01])
    assert near.error == (0.3,) * 4
    assert dict(zip(sentence.x, sentence.y, strict=True)) == PUBLISHED
    assert sentence.reference


def test_several_runs_are_averaged(store: RunStore) -> None:
    """The standard error of the mean of two numbers is half of their difference."""
    found = replace(CPU, seeds=2).run(store, 3, iter)
    mean = found.numbers["NLL at ε = 0.1, proposal as published"]
    assert mean.value == pytest.approx(3.6)
    assert mean.error == pytest.approx(0.5)
    assert mean.settings["deviation"] == pytest.approx(0.5**0.5)
