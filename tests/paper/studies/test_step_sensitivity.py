"""The likelihoods of runs whose results are made by hand."""

from dataclasses import replace
from pathlib import Path

import pytest

from fdsm.objectives import SSM
from fdsm.paper.run_store import RunStore
from fdsm.paper.studies.step_sensitivity import STUDY
from fdsm.paper.tables import table1 as dkef_uci
from fdsm.projections import Sphere
from fdsm.serialize import to_json

ROWS = {row.name: row for row in dkef_uci.TABLE}
PUBLISHED = {0.1: 14.17, 0.05: 13.51, 0.02: 14.03, 0.01: 14.0}


@pytest.fixture
def judged(tmp_path: Path) -> RunStore:
    """Return a place where the NLL of seed `s` at step `ε` is `ε + s`, and one more near data."""
    place = RunStore(tmp_path)
    for step, row in STUDY.rows:
        for seed in (3, 4):
            run = place.run("table1", f"dkef_uci/{row}", seed)
            run.folder.mkdir(parents=True)
            settings = {"settings": to_json(run.recipe), "seed": seed, "device": "cpu"}
            run.write("config.json", {**run.reference.record(), **settings})
            metrics = {
                name: {"value": step + seed + more, "error": 0.3, "settings": {"samples": 7}}
                for name, more in (("nll", 0.0), ("nll_near_data", 1.0))
            }
            run.write("result.json", {"metrics": metrics})
    return place


def test_rows_are_of_their_steps() -> None:
    for step, name in STUDY.rows:
        objective = ROWS[name].objective
        assert isinstance(objective, SSM)
        assert objective.projection == Sphere(step)


def test_the_likelihood_of_one_run_is_that_of_its_result(judged: RunStore) -> None:
    findings = replace(STUDY, seeds=1).measure(judged, 3, iter)
    found = findings.numbers["NLL at ε = 0.02, proposal near the data"]
    assert (found.value, found.error) == (4.02, 0.3)
    assert found.settings == {"samples": 7}
    published, near, sentence = findings.panels[0].lines
    assert published.y == pytest.approx([3.1, 3.05, 3.02, 3.01])
    assert near.error == (0.3,) * 4
    assert dict(zip(sentence.x, sentence.y, strict=True)) == PUBLISHED
    assert sentence.reference


def test_that_of_several_is_their_mean(judged: RunStore) -> None:
    """Of two numbers that are one apart the mean has half of that for an error."""
    found = replace(STUDY, seeds=2).measure(judged, 3, iter)
    mean = found.numbers["NLL at ε = 0.1, proposal as published"]
    assert mean.value == pytest.approx(3.6)
    assert mean.error == pytest.approx(0.5)
    assert mean.settings["deviation"] == pytest.approx(0.5**0.5)
