import pytest
import torch

pytest.importorskip("jax")

import jax

from benchmarks.peers.jax_losses import LOSSES, load_parameters
from benchmarks.peers.jax_steps import adam, adam_step, gradient_step, initial_state

from ..benchmark_cases import TINY


def test_adam_is_that_of_torch() -> None:
    model, _ = TINY.build()
    other, _ = TINY.build()
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    state = initial_state(other)
    for factor in (1.0, -3.0, 0.5):
        for p in model.parameters():
            p.grad = factor * p.detach()
        gradient = jax.tree.map(lambda p, factor=factor: factor * p, state.parameters)
        optimizer.step()
        state = adam(state, gradient, 1e-2)
    load_parameters(other, state.parameters)
    for ours, theirs in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", list(LOSSES))
def test_steps_run_and_draw_new_random_numbers(name: str) -> None:
    run = gradient_step(LOSSES[name], TINY)
    (first, _), (second, _) = run(), run()
    assert bool(first == second) == (name == "plain")
    run = adam_step(LOSSES[name], TINY, 1e-2)
    before = jax.device_get(run()[0].parameters.weights[0])
    after = jax.device_get(run()[0].parameters.weights[0])
    assert abs(after - before).max() > 1e-3
