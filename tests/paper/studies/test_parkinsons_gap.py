"""Likelihoods with a known normaliser, and coefficients with a known solution."""

import math
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import cast

import pytest
import torch
from torch import Generator

from fdsm.data import Dataset
from fdsm.data.transforms import Chain
from fdsm.models import DKEF, ExactEquations
from fdsm.paper.run_store import RunStore
from fdsm.paper.studies.parkinsons_gap import STUDY, likelihoods, resolve
from fdsm.paper.tables import table1 as dkef_uci
from fdsm.projections import Rademacher

ROW = next(row for row in dkef_uci.TABLE if row.name == "Parkinsons SSM")


@pytest.fixture
def data() -> Dataset:
    """Return rows whose parts are at distances 1, 2 and 3 from the origin."""
    directions = torch.randn(300, 2, generator=Generator().manual_seed(0))
    rows = directions / directions.norm(dim=1, keepdim=True)
    return Dataset(rows[:100], 2 * rows[100:200], 3 * rows[200:], Chain(()), {})


def test_without_kernels_it_is_the_base_measure(data: Dataset) -> None:
    """Of N(0, 4I) in the plane minus the log-density is log 8π + r²/8."""
    model = DKEF(data.train[:10].double())
    model.alpha.fill_(1e-12)
    found = likelihoods(ROW, model, data, 2000, Generator().manual_seed(1))
    expected = {
        part: math.log(8 * math.pi) + radius**2 / 8
        for part, radius in (("training rows", 1), ("validation rows", 2), ("test rows", 3))
    }
    assert found == pytest.approx(expected, abs=0.1)
    spread = {part: value - found["test rows"] for part, value in found.items()}
    assert spread == pytest.approx(
        {"training rows": -1.0, "validation rows": -0.625, "test rows": 0.0}, abs=1e-6
    )


def test_coefficients_are_those_of_score_matching_on_training_rows(data: Dataset) -> None:
    torch.manual_seed(2)
    model = DKEF(data.train[:10].double())
    resolve(ROW, model, data, Generator().manual_seed(1))
    x = data.train.double()
    expected = model.solve(x, torch.ones_like(x), ExactEquations()).alpha
    torch.testing.assert_close(model.alpha, expected.detach())


def test_all_is_tried_on_one_model(data: Dataset) -> None:
    torch.manual_seed(2)
    model = DKEF(data.train[:10].double())
    g = Generator().manual_seed(1)
    v = Rademacher(0.1).sample(data.train.double(), g)
    model.finalize(model.equations(data.train.double(), v))
    first = likelihoods(ROW, model, data, 5000, Generator().manual_seed(3))
    tried = replace(STUDY, samples=5000).tried(ROW, model, data, Generator().manual_seed(3))
    assert {part: tried[part] for part in first} == pytest.approx(first)
    solved = likelihoods(ROW, model, data, 5000, Generator().manual_seed(4))["test rows"]
    again = tried["test rows, coefficients solved for exactly"]
    assert again == pytest.approx(solved, abs=0.1)


@dataclass(frozen=True)
class Here:
    """A source of data that are here already."""

    data: Dataset

    def load(self) -> Dataset:
        return self.data


def test_means_are_over_the_seeds_of_each_row(data: Dataset) -> None:
    """With seed `s` test rows are `s` times as far from the origin: `9 s²/8` nats less likely."""
    asked: list[tuple[str, str, int]] = []

    def trained(target: str, recipe: str, seed: int) -> SimpleNamespace:
        asked.append((target, recipe, seed))
        model = DKEF(data.train[:10].double())
        model.alpha.fill_(1e-12)
        rows = replace(data, test=seed * data.test)
        return SimpleNamespace(
            model=model, run=SimpleNamespace(recipe=replace(ROW, data=Here(rows)))
        )

    place = cast(RunStore, SimpleNamespace(device="cpu", trained=trained))
    study = replace(STUDY, rows=("A", "B"), seeds=2, samples=4000)
    found = study.measure(place, 1, iter).numbers
    assert asked == [("table1", f"dkef_uci/{row}", seed) for row in "AB" for seed in (1, 2)]
    assert len(found) == 2 * 4
    for row in "AB":
        mean = found[f"NLL, {row}, test rows"]
        assert mean.value == pytest.approx(math.log(8 * math.pi) + (9 + 36) / 16, abs=0.1)
        assert mean.error == pytest.approx((36 - 9) / 16, abs=0.1)  # half of their distance
