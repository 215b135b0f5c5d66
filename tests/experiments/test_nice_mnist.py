"""The rows of Table 3: their order, their settings, and a step of each at the published size."""

import pytest
import torch

from fdsm.experiments import nice_mnist
from fdsm.experiments.nice_mnist import Flow

from .steps import first_step

PUBLISHED = ("Approx BP", "CP", "DSM 0.1", "DSM 1.74", "SSM", "SSMVR", "FD-SSM", "MLE")


@pytest.fixture(autouse=True)
def _as_users_have_it() -> None:
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("table", [nice_mnist.TABLE, nice_mnist.PAPER])
def test_rows_are_in_the_order_of_the_paper(table: tuple[Flow, ...]) -> None:
    assert [row.name for row in table] == [*PUBLISHED, "Taylor-SSM"]
    assert all(row.source for row in table)


def test_small_rows_differ_in_nothing_but_the_objective() -> None:
    """Otherwise their times and likelihoods would say nothing about it."""
    common = {
        (row.data, row.hidden, row.depth, row.couplings, row.optimiser, row.plan)
        for row in nice_mnist.TABLE
    }
    assert len(common) == 1


@pytest.mark.filterwarnings("ignore::fdsm.derivatives.PrecisionWarning")
@pytest.mark.parametrize("recipe", nice_mnist.PAPER, ids=lambda row: row.name)
def test_a_step_at_the_published_size_has_the_published_length(recipe: Flow) -> None:
    """The first step of Adam moves what has a gradient by the learning rate."""
    model, moved = first_step(recipe, (784,))
    assert sum(p.numel() for p in model.parameters()) == 15_154_352
    assert max(moved.values()) == pytest.approx(recipe.optimiser.lr, rel=0.01)
    assert min(moved.values()) > 0
