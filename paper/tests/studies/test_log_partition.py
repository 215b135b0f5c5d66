"""Estimates of the partition function against closed forms and sums over a grid."""

import math
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import cast

import pytest
import torch
from torch import Generator

from fdsm.evaluation import log_densities, mean_of
from fdsm.models import DKEF
from paper.data import Dataset
from paper.data.transforms import Chain
from paper.run_store import RunStore
from paper.runs import SavedModel
from paper.studies.log_partition import AIS, CPU, NEAR, WIDE
from paper.tables import table1

ROW = replace(
    next(row for row in table1.CPU if row.name == "Parkinsons SSM"), partition_samples=5000
)
SMALL = replace(CPU, chains=100, temperatures=(30, 10), repetitions=30, scales=(2.0, 1.0, 0.5))
METHODS = {WIDE, NEAR, f"{AIS} from {WIDE}", f"{AIS} from {NEAR}", AIS}


@dataclass(frozen=True)
class Source:
    """Data in memory."""

    data: Dataset

    def load(self) -> Dataset:
        return self.data


@pytest.fixture
def data() -> Dataset:
    """Rows in the plane; the test rows are at distance 3 from the origin."""
    rows = torch.randn(300, 2, generator=Generator().manual_seed(0))
    test = 3 * rows[200:] / rows[200:].norm(dim=1, keepdim=True)
    return Dataset(0.5 * rows[:100] + 1, rows[100:200], test, Chain(()), {})


def trained(model: DKEF, data: Dataset) -> SavedModel:
    run = SimpleNamespace(
        recipe=replace(ROW, data=Source(data)), generator=lambda *_: Generator().manual_seed(1)
    )
    return cast(SavedModel, SimpleNamespace(model=model, run=run, transform=data.transform))


def base_measure(data: Dataset) -> DKEF:
    model = DKEF(data.train[:10].double())
    model.alpha.fill_(1e-12)
    return model


def test_known_density_is_estimated_without_bias_and_with_its_error() -> None:
    found = SMALL.of_known_density(3, Generator().manual_seed(2))
    assert found.error is not None
    assert abs(found.value) < 4 * found.error
    spread, own = found.error * math.sqrt(30), found.settings["error_of_one"]
    assert isinstance(own, float)
    assert 0.01 < own < 0.3
    assert spread == pytest.approx(own, rel=3 / math.sqrt(2 * 30))


def test_every_estimate_agrees_with_a_sum_over_a_grid(data: Dataset) -> None:
    torch.manual_seed(2)
    model = DKEF(data.train[:10].double())
    x = data.train.double()
    model.finalize(model.equations(x, torch.randn(x.shape, generator=Generator().manual_seed(3))))
    axis = torch.linspace(-14, 14, 281)
    grid = log_densities(ROW.log_density(model), torch.cartesian_prod(axis, axis))
    truth = grid.logsumexp(0).item() + 2 * math.log(0.1)
    assert truth - math.log(8 * math.pi) > 0.2  # the kernels matter
    found, unnormalized = SMALL.estimates(trained(model, data), data, Generator().manual_seed(4))
    assert found.keys() == METHODS
    for log_z in found.values():
        assert log_z.error is not None
        assert 0 < log_z.error < 0.15
        assert abs(log_z.value - truth) < 4 * log_z.error
    f = log_densities(ROW.log_density(model), data.test)
    assert unnormalized == pytest.approx(-f.mean().item())
    table = ROW.evaluate(model, data, Generator().manual_seed(1))
    for method, metric in ((WIDE, "nll"), (NEAR, "nll_near_data")):
        error = math.hypot(found[method].error or 0, mean_of(f).error or 0)
        assert table[metric].error == pytest.approx(error)


def test_annealing_is_exact_for_the_base_measure(data: Dataset) -> None:
    """Without kernels f is -r²/8 and Z is 8π in the plane."""
    found, unnormalized = SMALL.estimates(
        trained(base_measure(data), data), data, Generator().manual_seed(4)
    )
    assert found[f"{AIS} from {WIDE}"].value == pytest.approx(math.log(8 * math.pi))
    assert unnormalized == pytest.approx(9 / 8)


def test_means_are_over_the_runs_of_each_row(data: Dataset) -> None:
    """With seed `s` the test rows are `s` times as far from the origin."""
    calls: list[tuple[str, str, int]] = []

    def run(target: str, row: str, seed: int) -> SavedModel:
        calls.append((target, row, seed))
        return trained(base_measure(data), replace(data, test=seed * data.test))

    store = cast(RunStore, SimpleNamespace(device="cpu", trained=run))
    study = replace(SMALL, rows=("A", "B"), seeds=2, temperatures=(10, 10), repetitions=2)
    found = study.run(store, 1, iter).numbers
    assert calls == [("table1", row, seed) for row in "AB" for seed in (1, 2)]
    for row in "AB":
        nll = found[f"NLL, {row}, AIS"]
        assert nll.value == pytest.approx(math.log(8 * math.pi) + (9 + 36) / 16, abs=0.1)
        assert nll.error == pytest.approx((36 - 9) / 16, abs=0.1)  # half of their difference
    for method in METHODS - {AIS}:
        ratios = [
            math.exp(found[f"log Z, {run}, {method}"].value - found[f"log Z, {run}, AIS"].value)
            for run in ("A, seed 1", "A, seed 2", "B, seed 1", "B, seed 2")
        ]
        mean = found[f"Z by {method} over Z by AIS, mean over runs"]
        assert mean.value == pytest.approx(sum(ratios) / 4)
