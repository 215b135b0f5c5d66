"""Table 2: its rows, their validation metric and their settings."""

from dataclasses import replace

import pytest
import torch
from torch import Generator, nn

from fdsm.derivatives import Autodiff, score_of
from fdsm.noise import Arithmetic
from fdsm.objectives import DSM, SSMVR, MultiscaleDSM, SlicedDSM
from fdsm.projections import Gaussian, Sphere
from fdsm.training import GradientStep, ShuffledBatches, fit
from paper.data import MNIST, Dataset
from paper.data.transforms import Chain, Noise
from paper.recipes import EBM, ResNet
from paper.tables import table2

SLICED = {"SSM", "SSMVR", "FD-SSM*", "FD-SSM", "Taylor-SSM", "Taylor-SSM 1"}


def images(row: EBM) -> Dataset:
    """Return a few images of noise instead of digits."""
    generator = Generator().manual_seed(0)
    rows = torch.randint(0, 256, (12, 1, 28, 28), dtype=torch.uint8, generator=generator)
    return Dataset(rows, rows, rows, row.data.transform.fit(rows), {})


def network(row: EBM, width: int = 2) -> nn.Module:
    torch.manual_seed(0)
    return ResNet(width, gain=1.8).build(images(row).shape)


@pytest.mark.parametrize("row", table2.CPU, ids=lambda row: row.name)
def test_validation_uses_the_exact_objective_of_the_family(row: EBM) -> None:
    """The random numbers are the same for all rows."""
    row, data, model = replace(row, validation_rows=6), images(row), network(row)
    found = row.validate(model, data, Generator().manual_seed(3))
    generator = Generator().manual_seed(3)
    x = data.transform.sample(data.validation[:6], generator)
    if row.validation_metric is not None and row.validation_metric.name == "ssm":
        losses = SSMVR(Autodiff(), Gaussian())(score_of(model), x, generator=generator)
        assert set(found) == {"loss", "ssm"}
        assert found["ssm"] == pytest.approx(losses.mean().item(), rel=1e-12)
    else:
        exact = MultiscaleDSM(DSM(0.1), Arithmetic(0.05, 1.2))
        losses = exact(model, x, generator=generator)
        assert set(found) == {"loss", "dsm"}
        assert found["dsm"] == pytest.approx(losses.mean().item(), rel=1e-12)


@pytest.mark.parametrize("row", table2.PAPER, ids=lambda row: row.name)
def test_published_rows_train_with_their_objective(row: EBM) -> None:
    """The first logged loss is the objective of the first batch, for a narrow network."""
    row, data = replace(row, plan=replace(row.plan, batch=2)), images(row)
    model, seen = network(row), []
    batches = ShuffledBatches(data.train, data.transform, 2, seed=0)
    generator = Generator().manual_seed(1)
    expected = row.objective(model, batches(0, generator), generator=generator).mean().item()
    step = row.step(model, data)
    note = lambda event: seen.append(event.metrics["loss"])
    fit(step, batches, 2, generator=Generator().manual_seed(1), callbacks=[note])
    assert seen[0] == pytest.approx(expected, rel=1e-10)
    assert len(seen) == 2


@pytest.mark.nightly
def test_finite_differences_agree_with_exact_slopes_at_the_published_width() -> None:
    """62 million parameters, and a step size of 0.05."""
    row = next(row for row in table2.PAPER if row.name == "FD-DSM")
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


def test_rows_are_in_the_order_of_the_paper() -> None:
    for table in (table2.CPU, table2.PAPER):
        assert [row.name for row in table] == [
            "DSM", "FD-DSM*", "FD-DSM", "SSM", "SSMVR", "FD-SSM*", "FD-SSM",
            "Taylor-DSM", "Taylor-SSM", "Taylor-SSM 1",
        ]  # fmt: skip


def noise_of(row: EBM) -> list[float]:
    """Return the standard deviations of noise that is added to the data."""
    assert isinstance(row.data, MNIST)
    assert isinstance(row.data.transform, Chain)
    return [step.sigma for step in row.data.transform.steps if isinstance(step, Noise)]


def test_only_sliced_rows_have_noise_on_the_data_and_no_samples() -> None:
    for table, noise, rate in ((table2.CPU, 0.1, 2e-3), (table2.PAPER, 0.005, 1e-5)):
        for row in table:
            assert noise_of(row) == ([noise] if row.name in SLICED else [])
            assert (row.plan.num_samples == 0) == (row.name in SLICED)
            if row.name in SLICED:
                assert row.optimizer.lr == rate


def test_provenance_states_what_differs_between_rows() -> None:
    for row in (*table2.CPU, *table2.PAPER):
        assert "300,000 iterations" in row.provenance
        finite = row.name in {"FD-DSM*", "FD-DSM", "FD-SSM*", "FD-SSM"}
        assert ("ε is 0.05" in row.provenance) == finite
        assert ("one by one" in row.provenance) == (row.name in {"FD-DSM*", "FD-SSM*"})
        assert ("Noise of 0.005" in row.provenance) == (row.name in SLICED)
        assert ("Not in the paper" in row.provenance) == row.name.startswith("Taylor")
    for row in table2.CPU:
        plan = f"{row.plan.iterations:,} iterations with a batch size of {row.plan.batch}"
        assert plan in row.provenance
