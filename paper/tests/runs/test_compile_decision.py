"""Whether compiling pays."""

import pytest
import torch
from torch import Generator, nn

from fdsm.training import Update
from paper.runs import compile_decision
from paper.runs.compile_decision import COMPILE_SECONDS, Estimate, estimate_saving


def test_saving_is_proportional_to_iterations_and_operations() -> None:
    estimate = Estimate(operations=200, seconds=5e-6)
    assert estimate.saving(1000) == pytest.approx(1.0)
    assert estimate.compile_seconds == pytest.approx(200 * COMPILE_SECONDS)
    enough = int(COMPILE_SECONDS / 5e-6)
    assert not estimate.pays(enough - 1)
    assert estimate.pays(enough + 1)


def test_operations_of_a_step_are_counted_and_weights_unchanged(
    generator: Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loss is noise times w · x. Its operations and those of its gradient are known."""
    monkeypatch.setattr(compile_decision, "_seconds_per_call", lambda: 2e-6)
    model = nn.Linear(2, 1, bias=False)
    optimizer = torch.optim.Adam(model.parameters())
    noisy = lambda x, generator, _: torch.randn(3, generator=generator) * model(x).squeeze(1)
    update = Update(noisy, model, optimizer)
    before = model.weight.clone()
    estimate = estimate_saving(update, (torch.ones(3, 2),), generator, 0.0)
    # randn, t, mm, squeeze, mul, mean; ones_like, expand, div, mul, unsqueeze, t, mm, t
    assert 12 <= estimate.operations <= 18
    assert estimate.seconds == pytest.approx(compile_decision.CALLS * 2e-6)
    assert torch.equal(model.weight, before)
    assert model.weight.grad is None
