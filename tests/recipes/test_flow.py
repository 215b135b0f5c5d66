"""The rows of Table 3: their order, their settings, and where they are from."""

import pytest
import torch

from fdsm.paper.tables import table3 as nice_mnist
from fdsm.recipes.flow import Flow

PUBLISHED = ("Approx BP", "CP", "DSM 0.1", "DSM 1.74", "SSM", "SSMVR", "FD-SSM", "MLE")


@pytest.fixture(autouse=True)
def _as_users_have_it() -> None:
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("table", [nice_mnist.CPU, nice_mnist.PAPER])
def test_rows_are_in_the_order_of_the_paper(table: tuple[Flow, ...]) -> None:
    assert [row.name for row in table] == [*PUBLISHED, "Taylor-SSM"]
    assert all(row.provenance for row in table)


def test_small_rows_differ_in_nothing_but_the_objective() -> None:
    """Otherwise their times and likelihoods would say nothing about it."""
    common = {
        (row.data, row.hidden, row.depth, row.couplings, row.optimizer, row.plan)
        for row in nice_mnist.CPU
    }
    assert len(common) == 1


def test_rows_say_which_are_of_the_paper_and_where_it_is_not_clear() -> None:
    for row in (*nice_mnist.CPU, *nice_mnist.PAPER):
        assert ("not of the paper" in row.provenance) == (row.name == "Taylor-SSM")
        assert "averages over 5 runs" in row.provenance
    for row in nice_mnist.PAPER:
        rate = {1e-3: "rate 1e-3", 1e-4: "rate 1e-4"}[row.optimizer.lr]
        assert rate in row.provenance
        assert ("1e-4 for all" in row.provenance) == (
            row.name in {"CP", "DSM 0.1", "DSM 1.74", "FD-SSM"}
        )
