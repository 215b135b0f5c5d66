"""Cells that are drawn given the others have their distribution in closed form."""

import numpy as np
import pyarrow as pa
import pytest
import torch
from scipy import stats
from torch import Generator, Tensor

from fdsm.tables.conditionals import CellView, Conditionals
from fdsm.tables.encoder import Encoder
from fdsm.tables.ensemble import fold_of_rows
from fdsm.tables.gibbs import redraw
from fdsm.tables.schema import TableSchema

RHO = 0.8


@pytest.fixture(scope="module")
def forests() -> Conditionals:
    """Two columns of a Gaussian with correlation 0.8, and the result of a coin."""
    rng = np.random.default_rng(0)
    x = rng.multivariate_normal([0, 0], [[1, RHO], [RHO, 1]], 6000)
    frame = pa.table({"a": x[:, 0], "b": x[:, 1], "coin": rng.choice(["head", "tail"], 6000)})
    schema = TableSchema.infer(frame)
    codes = torch.from_numpy(schema.encode(frame)[0])
    encoder = Encoder.fit(codes, schema.num_levels)
    return Conditionals.fit(CellView(encoder, ()), encoder(codes), fold_of_rows(len(codes)))


def starts(forests: Conditionals, a: float, count: int) -> Tensor:
    """Return rows with a given first cell."""
    codes = torch.tensor([[a, 0.0, 0.0]]).double().repeat(count, 1)
    return forests.view.encoder(codes).double()


def test_with_all_cells_fixed_nothing_changes(forests: Conditionals, generator: Generator) -> None:
    x = forests.rows[:100].double()
    fixed = torch.zeros(100, 3, dtype=torch.bool)
    assert torch.equal(redraw(forests, x, fixed, sweeps=3, generator=generator), x)


def test_only_chosen_cells_change_and_the_input_stays(
    forests: Conditionals, generator: Generator
) -> None:
    x = forests.rows[:100].double()
    before, chosen = x.clone(), torch.zeros(100, 3, dtype=torch.bool)
    chosen[:50, 1] = True
    drawn = redraw(forests, x, chosen, sweeps=3, generator=generator)
    changed = forests.view.cells(drawn) != forests.view.cells(x)
    assert not changed[~chosen].any()
    assert changed[chosen].double().mean() > 0.8  # a row can be its own donor
    assert torch.equal(x, before)


def test_a_cell_has_the_conditional_distribution_of_a_gaussian(
    forests: Conditionals, generator: Generator
) -> None:
    """The cell b given a is N(ρa, 1 - ρ²).

    Slope and variance of 5,000 draws have errors of 0.01 and 0.01, and those of 6,000 training
    rows about the same. The rest is for the width of leaves.
    """
    a = torch.randn(5000, generator=generator).double()
    codes = torch.stack([a, torch.zeros(5000), torch.zeros(5000)], 1)
    chosen = torch.tensor([[False, True, False]]).repeat(5000, 1)
    x = forests.view.encoder(codes).double()
    drawn = redraw(forests, x, chosen, sweeps=1, generator=generator)
    b = forests.view.encoder.inverse(drawn)[:, 1]
    slope, constant = np.polyfit(a.numpy(), b.numpy(), 1)
    assert slope == pytest.approx(RHO, abs=0.05)
    assert constant == pytest.approx(0, abs=0.05)
    rest = float((b - slope * a - constant).var())
    assert rest == pytest.approx(1 - RHO**2, abs=0.05)


def test_sweeps_reach_the_joint_distribution_from_any_start(
    forests: Conditionals, generator: Generator
) -> None:
    """All cells are drawn again and again, from a start far from the mean."""
    chosen = torch.ones(2000, 3, dtype=torch.bool)
    x = redraw(forests, starts(forests, 2.0, 2000), chosen, sweeps=20, generator=generator)
    drawn = forests.view.encoder.inverse(x)
    # 2,000 independent draws have errors of 0.02. An error of the forests in the conditional mean
    # is 1 / (1 - ρ²) = 2.8 times as large in the joint distribution.
    assert drawn[:, :2].mean(0).tolist() == pytest.approx([0, 0], abs=0.1)
    assert drawn[:, :2].std(0).tolist() == pytest.approx([1, 1], abs=0.08)
    assert np.corrcoef(drawn[:, :2].T.numpy())[0, 1] == pytest.approx(RHO, abs=0.04)
    assert float(drawn[:, 2].mean()) == pytest.approx(0.5, abs=0.06)


def test_donors_are_allowed_rows_so_the_distribution_is_truncated(
    forests: Conditionals, generator: Generator
) -> None:
    """The cell b given a = 0 and b > 0.3 has the mean of a truncated Gaussian."""
    codes = forests.view.encoder.inverse(forests.rows)
    allowed = {1: codes[:, 1] > 0.3}
    chosen = torch.tensor([[False, True, False]]).repeat(3000, 1)
    x = starts(forests, 0.0, 3000)
    b = forests.view.encoder.inverse(
        redraw(forests, x, chosen, sweeps=1, generator=generator, allowed=allowed)
    )[:, 1]
    assert (b > 0.3).all()
    scale = (1 - RHO**2) ** 0.5
    assert float(b.mean()) == pytest.approx(
        stats.truncnorm.mean(0.3 / scale, np.inf, scale=scale), abs=0.12
    )


def test_cells_without_an_allowed_donor_get_a_value_of_an_allowed_row(
    forests: Conditionals, generator: Generator
) -> None:
    """No donor of rows with a = 2 has b < -2."""
    b = forests.view.encoder.inverse(forests.rows)[:, 1]
    chosen = torch.tensor([[False, True, False]]).repeat(100, 1)
    drawn = redraw(
        forests,
        starts(forests, 2.0, 100),
        chosen,
        sweeps=2,
        generator=generator,
        allowed={1: b < -2},
    )
    cells = forests.view.encoder.inverse(drawn)[:, 1]
    assert torch.isin(cells, b[b < -2]).all()
    assert len(cells.unique()) > 10


def test_the_same_seed_gives_the_same_draws(forests: Conditionals) -> None:
    x, chosen = forests.rows[:50].double(), torch.ones(50, 3, dtype=torch.bool)
    first, again, other = (
        redraw(forests, x, chosen, sweeps=2, generator=Generator().manual_seed(seed))
        for seed in (0, 0, 1)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
