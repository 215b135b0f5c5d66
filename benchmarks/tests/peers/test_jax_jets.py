from functools import partial

import pytest
import torch

pytest.importorskip("jax")

from benchmarks.orders import derivative_sum
from benchmarks.peers import jax_jets
from benchmarks.peers.jax_losses import as_array, log_density, parameters_of
from fdsm.derivatives import Taylor

from ..benchmark_cases import TINY


@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_derivatives_are_those_of_taylor(order: int, monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = TINY.build()
    v = torch.randn(5, 3, dtype=torch.float32)
    monkeypatch.setattr("benchmarks.orders.sphere", lambda x: v)
    f = partial(log_density, parameters_of(model))
    theirs = jax_jets.derivative_sum(order, f, as_array(x), as_array(v))
    ours = derivative_sum(Taylor(), order, model, x)
    assert float(theirs) == pytest.approx(ours.item(), rel=1e-4)


def test_steps_run() -> None:
    jax_jets.jet_value(2, TINY)()
    jax_jets.jet_gradient(2, TINY)()
