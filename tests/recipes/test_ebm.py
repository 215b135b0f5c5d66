"""Table 2: what its rows are compared by, and its published setting."""

from dataclasses import replace

import pytest
import torch
from torch import Generator, nn

from fdsm.data import Dataset
from fdsm.derivatives import Autodiff, score_of
from fdsm.noise import Arithmetic
from fdsm.objectives import DSM, SSMVR, MultiscaleDSM, SlicedDSM
from fdsm.paper.tables import table2 as deep_ebm
from fdsm.projections import Gaussian, Sphere
from fdsm.recipes.ebm import EBM
from fdsm.recipes.networks import ResNet
from fdsm.training import GradientStep, ShuffledBatches, fit


def images(row: EBM) -> Dataset:
    """Return a few images of noise in the place of digits."""
    generator = Generator().manual_seed(0)
    rows = torch.randint(0, 256, (12, 1, 28, 28), dtype=torch.uint8, generator=generator)
    return Dataset(rows, rows, rows, row.data.transform.fit(rows), {})


def network(row: EBM, width: int = 2) -> nn.Module:
    torch.manual_seed(0)
    return ResNet(width, gain=1.8).build(images(row).shape)


@pytest.mark.parametrize("row", deep_ebm.CPU, ids=lambda row: row.name)
def test_rows_are_compared_by_the_exact_objective(row: EBM) -> None:
    """Under the same random numbers, whatever their own objective takes of them."""
    row, data, model = replace(row, validation_rows=6), images(row), network(row)
    found = row.validate(model, data, Generator().manual_seed(3))
    generator = Generator().manual_seed(3)
    x = data.transform.sample(data.validation[:6], generator)
    if "SSM" in row.name:
        losses = SSMVR(Autodiff(), Gaussian())(score_of(model), x, generator=generator)
        assert set(found) == {"loss", "ssm"}
        assert found["ssm"] == pytest.approx(losses.mean().item(), rel=1e-12)
    else:
        exact = MultiscaleDSM(DSM(0.1), Arithmetic(0.05, 1.2))
        losses = exact(model, x, generator=generator)
        assert set(found) == {"loss", "dsm"}
        assert found["dsm"] == pytest.approx(losses.mean().item(), rel=1e-12)


def test_the_first_validation_number_is_the_objective() -> None:
    """It is what decides when to stop; without a validation_metric it is the only one."""
    row = replace(deep_ebm.CPU[2], validation_rows=6)
    data, model = images(row), network(row)
    assert next(iter(row.validate(model, data, Generator()))) == "loss"
    row = replace(row, validation_metric=None)
    found = row.validate(model, data, Generator().manual_seed(3))
    generator = Generator().manual_seed(3)
    x = data.transform.sample(data.validation[:6], generator)
    assert found == {"loss": row.objective(model, x, generator=generator).mean().item()}


@pytest.mark.parametrize("row", deep_ebm.PAPER, ids=lambda row: row.name)
def test_published_rows_train_by_their_objective(row: EBM) -> None:
    """With a narrow network: the first logged loss is the objective of the first batch."""
    row, data = replace(row, plan=replace(row.plan, batch=2)), images(row)
    model, seen = network(row), []
    batches = ShuffledBatches(data.train, data.transform, 2, seed=0)
    generator = Generator().manual_seed(1)
    expected = row.objective(model, batches(0, generator), generator=generator).mean().item()
    step = row.step(model, data)
    note = lambda moment: seen.append(moment.metrics["loss"])
    fit(step, batches, 2, generator=Generator().manual_seed(1), callbacks=[note])
    assert seen[0] == pytest.approx(expected, rel=1e-10)
    assert len(seen) == 2


@pytest.mark.slow
def test_a_step_of_the_published_width() -> None:
    """62 million parameters: differences of a step of 0.05 against the exact slope."""
    row = next(row for row in deep_ebm.PAPER if row.name == "FD-DSM")
    data = images(row)
    torch.manual_seed(0)
    model = row.build(data.shape)
    x = data.transform.deterministic(data.train[:2])
    levels = Arithmetic(0.05, 1.2)
    exact = MultiscaleDSM(SlicedDSM(0.1, Autodiff(), Sphere(0.05)), levels)
    losses, expected = (
        objective(model, x, generator=Generator().manual_seed(2))
        for objective in (row.objective, exact)
    )
    torch.testing.assert_close(losses, expected, rtol=1e-4, atol=0)
    step = row.step(model, data)
    assert isinstance(step, GradientStep)
    logged = step(x, Generator().manual_seed(2))
    assert float(logged["loss"]) == pytest.approx(expected.mean().item(), rel=1e-4)


def test_the_first_row_is_what_times_are_compared_with() -> None:
    for table in (deep_ebm.CPU, deep_ebm.PAPER):
        assert [row.name for row in table] == [
            "DSM", "FD-DSM*", "FD-DSM", "SSM", "SSMVR", "FD-SSM*", "FD-SSM",
            "Taylor-DSM", "Taylor-SSM",
        ]  # fmt: skip


def test_sources_say_how_long_and_where_they_differ() -> None:
    for row in (*deep_ebm.CPU, *deep_ebm.PAPER):
        assert f"{row.plan.iterations:,} iterations" in row.provenance
        assert ("ε is 0.05" in row.provenance) == row.name.startswith("FD")
        assert ("Noise of 0.005" in row.provenance) == ("SSM" in row.name)
    for row in deep_ebm.CPU:
        assert f"of {row.plan.batch} with" in row.provenance
