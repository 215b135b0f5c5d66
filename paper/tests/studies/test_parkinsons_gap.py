"""NLLs with a known partition function, and coefficients with a known solution."""

import math
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import cast

import pytest
import torch
from torch import Generator

from fdsm.models import DKEF, ExactEquations
from fdsm.projections import Rademacher
from paper.data import Dataset
from paper.data.transforms import Chain
from paper.run_store import RunStore
from paper.studies.parkinsons_gap import CPU, mean_nlls, solve_exactly
from paper.tables import table1

ROW = next(row for row in table1.CPU if row.name == "Parkinsons SSM")


@pytest.fixture
def data() -> Dataset:
    """Return rows whose parts are at distances 1, 2 and 3 from the origin."""
    directions = torch.randn(300, 2, generator=Generator().manual_seed(0))
    rows = directions / directions.norm(dim=1, keepdim=True)
    return Dataset(rows[:100], 2 * rows[100:200], 3 * rows[200:], Chain(()), {})


def test_without_kernels_the_density_is_the_base_measure(data: Dataset) -> None:
    """The NLL of N(0, 4I) in the plane is log 8π + r²/8."""
    model = DKEF(data.train[:10].double())
    model.alpha.fill_(1e-12)
    found = mean_nlls(ROW, model, data, 2000, Generator().manual_seed(1))
    expected = {
        part: math.log(8 * math.pi) + radius**2 / 8
        for part, radius in (("training rows", 1), ("validation rows", 2), ("test rows", 3))
    }
    assert found == pytest.approx(expected, abs=0.1)
    spread = {part: value - found["test rows"] for part, value in found.items()}
    assert spread == pytest.approx(
        {"training rows": -1.0, "validation rows": -0.625, "test rows": 0.0}, abs=1e-6
    )


def test_exact_coefficients_minimize_score_matching_on_training_rows(data: Dataset) -> None:
    torch.manual_seed(2)
    model = DKEF(data.train[:10].double())
    solve_exactly(ROW, model, data, Generator().manual_seed(1))
    x = data.train.double()
    expected = model.solve(x, torch.ones_like(x), ExactEquations()).alpha
    torch.testing.assert_close(model.alpha, expected.detach())


def test_nlls_before_and_after_the_exact_solution(data: Dataset) -> None:
    torch.manual_seed(2)
    model = DKEF(data.train[:10].double())
    g = Generator().manual_seed(1)
    v = Rademacher(0.1).sample(data.train.double(), g)
    model.finalize(model.equations(data.train.double(), v))
    first = mean_nlls(ROW, model, data, 5000, Generator().manual_seed(3))
    nlls = replace(CPU, samples=5000).nlls(ROW, model, data, Generator().manual_seed(3))
    assert {part: nlls[part] for part in first} == pytest.approx(first)
    solved = mean_nlls(ROW, model, data, 5000, Generator().manual_seed(4))["test rows"]
    again = nlls["test rows, coefficients solved for exactly"]
    assert again == pytest.approx(solved, abs=0.1)


@dataclass(frozen=True)
class InMemory:
    """Data in memory."""

    data: Dataset

    def load(self) -> Dataset:
        return self.data


def test_means_are_over_the_seeds_of_each_row(data: Dataset) -> None:
    """With seed `s` test rows are `s` times as far from the origin: `9 s²/8` nats less likely."""
    calls: list[tuple[str, str, int]] = []

    def trained(target: str, row: str, seed: int) -> SimpleNamespace:
        calls.append((target, row, seed))
        model = DKEF(data.train[:10].double())
        model.alpha.fill_(1e-12)
        rows = replace(data, test=seed * data.test)
        return SimpleNamespace(
            model=model, run=SimpleNamespace(recipe=replace(ROW, data=InMemory(rows)))
        )

    store = cast(RunStore, SimpleNamespace(device="cpu", trained=trained))
    study = replace(CPU, rows=("A", "B"), seeds=2, samples=4000)
    found = study.run(store, 1, iter).numbers
    assert calls == [("table1", row, seed) for row in "AB" for seed in (1, 2)]
    assert len(found) == 2 * 4
    for row in "AB":
        mean = found[f"NLL, {row}, test rows"]
        assert mean.value == pytest.approx(math.log(8 * math.pi) + (9 + 36) / 16, abs=0.1)
        assert mean.error == pytest.approx((36 - 9) / 16, abs=0.1)  # half of their difference
