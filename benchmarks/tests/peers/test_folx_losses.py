from functools import partial

import pytest

pytest.importorskip("jax")
pytest.importorskip("folx")

from benchmarks.peers import folx_losses
from benchmarks.peers.jax_losses import as_array, log_density, parameters_of
from fdsm.derivatives import Taylor
from fdsm.objectives import SM

from ..benchmark_cases import TINY


def test_the_exact_loss_is_that_of_the_package() -> None:
    model, x = TINY.build()
    ours = SM(Taylor())(model, x).mean().item()
    theirs = folx_losses.sm(partial(log_density, parameters_of(model)), as_array(x), as_array(x))
    assert float(theirs) == pytest.approx(ours, rel=1e-4)
    assert float(folx_losses.value(TINY)()) == pytest.approx(ours, rel=1e-4)
