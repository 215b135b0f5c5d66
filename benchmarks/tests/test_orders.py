import pytest
import torch

from benchmarks import orders
from benchmarks.timing import time_group
from fdsm.derivatives import Taylor

from .benchmark_cases import TINY


def test_every_order_is_timed_with_both_engines() -> None:
    (group,) = orders.groups(problems=[TINY], orders=[1, 4])
    assert {case.method for case in group.cases} == {
        "plain", "FD, order 1", "FD, order 4", "Taylor, order 1", "Taylor, order 4",
    }  # fmt: skip
    assert len(time_group(group)) == len(group.cases) == 2 * 5
    assert list(orders.ORDERS) == [1, 2, 3, 4, 5, 6, 7, 8]


def test_the_loss_depends_on_every_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of $e^{ax}$ the derivatives along $v$ are $(av)^k e^{ax}$."""
    x = torch.tensor([[0.5]])
    monkeypatch.setattr(orders, "sphere", lambda x: torch.full_like(x, 0.1))
    f = lambda x: (2 * x).exp().sum(1)
    expected = torch.e * sum(0.2**k for k in range(4))
    assert orders.derivative_sum(Taylor(), 3, f, x).item() == pytest.approx(expected)
