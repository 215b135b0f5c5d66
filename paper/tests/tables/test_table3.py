"""The rows of Table 3: order, settings and provenance."""

import pytest
import torch

from paper.recipes import Flow
from paper.tables import table3

PUBLISHED = ("Approx BP", "CP", "DSM 0.1", "DSM 1.74", "SSM", "SSMVR", "FD-SSM", "MLE")


@pytest.fixture(autouse=True)
def _float32() -> None:
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("table", [table3.CPU, table3.PAPER])
def test_rows_are_in_the_order_of_the_paper(table: tuple[Flow, ...]) -> None:
    assert [row.name for row in table] == [*PUBLISHED, "Taylor-SSM", "Taylor-SSM 1"]
    assert all(row.provenance for row in table)


def test_cpu_rows_differ_only_in_the_objective() -> None:
    """Otherwise their times and likelihoods could not be compared."""
    common = {
        (row.data, row.hidden, row.depth, row.couplings, row.optimizer, row.plan)
        for row in table3.CPU
    }
    assert len(common) == 1


def test_provenance_states_learning_rates_and_rows_that_are_not_in_the_paper() -> None:
    for row in (*table3.CPU, *table3.PAPER):
        assert ("Not in the paper" in row.provenance) == row.name.startswith("Taylor")
        assert "averages over 5 runs" in row.provenance
    for row in table3.PAPER:
        rate = {1e-3: "rate is 1e-3", 1e-4: "rate is 1e-4"}[row.optimizer.lr]
        assert rate in row.provenance
        assert ("1e-4 for all" in row.provenance) == (
            row.name in {"CP", "DSM 0.1", "DSM 1.74", "FD-SSM"}
        )
