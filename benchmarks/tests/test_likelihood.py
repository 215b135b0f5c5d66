"""The loop has the divergence of the library, and errors and costs are measured."""

import pytest
import torch

from benchmarks.likelihood import (
    accuracy,
    costs,
    flows,
)


@pytest.mark.parametrize("model", ["energy", "score"])
def test_the_loop_has_the_same_divergence(model: str) -> None:
    flow, loop = flows(5, model)
    x, t = torch.randn(7, 5), torch.full((7,), 0.3)
    expected = flow.traces(x, None, t).detach()
    torch.testing.assert_close(loop.traces(x, None, t), expected, rtol=1e-4, atol=1e-4)


def test_errors_and_costs_are_measured() -> None:
    measured = accuracy(2, "energy", None)
    assert measured.largest < 1e-4
    assert measured.covered >= 0.95
    small = costs(2, "score", rows=10, repeats=1)
    assert min(small.seconds, small.loop_seconds) > 0
    assert min(small.peak_bytes, small.loop_peak_bytes) > 0
