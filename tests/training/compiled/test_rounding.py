"""Graphs that differ from eager torch are noticed, and rounding is not taken for a difference."""

import pytest
import torch
from torch import Tensor, nn

from fdsm.derivatives import Autodiff, FiniteDifference, PrecisionWarning, Taylor
from fdsm.objectives import DSM, SSM, SlicedDSM
from fdsm.projections import Sphere
from fdsm.training.compiled import rounding

from ...parameters import at_night
from .cases import Pair, mlp, objective_of

HIDDEN = {"factor": 1.0}
"""A global variable, which cannot be noticed when it changes."""


class Reads(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = mlp()

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.net(x) * HIDDEN["factor"]
        return y


@pytest.mark.usefixtures("_traced_only")
@pytest.mark.parametrize("change", [1.0, 1e-6, 1e-9])
def test_a_hidden_change_stops_training_at_the_next_comparison(
    change: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = Pair(lambda m: objective_of(DSM(0.3), m), Reads())
    pair.train(4)  # the last three are compiled
    monkeypatch.setitem(HIDDEN, "factor", 1 + change)
    before = [p.detach().clone() for p in pair.models[1].parameters()]
    steps = [s["step"].item() for s in pair.compiled.optimizer.state.values()]
    state = pair.generators[1].get_state()
    message = (
        r"the loss is \S+ in the graph and \S+ in eager torch .* before update 4 .* condition"
    )
    with pytest.raises(RuntimeError, match=message):
        pair.train(1)
    for p, value in zip(pair.models[1].parameters(), before, strict=True):
        assert torch.equal(p, value)
    assert [s["step"].item() for s in pair.compiled.optimizer.state.values()] == steps
    assert torch.equal(pair.generators[1].get_state(), state)
    assert not pair.compiled.is_compiled  # later updates would be eager


@pytest.mark.usefixtures("_traced_only")
def test_a_hidden_change_of_the_gradient_alone_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(x: Tensor) -> Tensor:
            return x.clone()

        @staticmethod
        def setup_context(ctx: object, inputs: object, output: object) -> None:
            """Save nothing."""

        @staticmethod
        def backward(ctx: object, gradient: Tensor) -> Tensor:  # type: ignore[override]
            return gradient * HIDDEN["factor"]

    pair = Pair(lambda m: lambda x, *_: Scaled.apply(m(x).square()), mlp())  # type: ignore[no-untyped-call]
    pair.train(4)
    monkeypatch.setitem(HIDDEN, "factor", 1.01)
    with pytest.raises(RuntimeError, match="the norm of the gradient is"):
        pair.train(1)


OBJECTIVES = {
    "FD-SSM": SSM(FiniteDifference(), Sphere(0.1)),
    "FD-SSM with small steps": SSM(FiniteDifference(), Sphere(0.01)),
    "FD-DSM": SlicedDSM(0.3, FiniteDifference(), Sphere(0.1)),
    "Taylor-SSM": SSM(Taylor()),
    "SSM": SSM(Autodiff()),
    "DSM": DSM(0.3),
}


@pytest.mark.filterwarnings(f"ignore::{PrecisionWarning.__module__}.PrecisionWarning")
@pytest.mark.usefixtures("_traced_only")
@pytest.mark.parametrize("seed", at_night(range(3), but={0}))
@pytest.mark.parametrize("name", OBJECTIVES)
def test_rounding_in_float32_is_no_difference(name: str, seed: int) -> None:
    """At 64 rows and at one row, where errors do not average."""
    torch.set_default_dtype(torch.float32)
    for rows in (64, 1):
        torch.manual_seed(seed)
        pair = Pair(lambda m: objective_of(OBJECTIVES[name], m), mlp())
        pair.train(20, (rows, 3))
        assert pair.compiled.is_compiled


def test_the_tolerance_follows_type_and_conditioning() -> None:
    """For L = (w - 1) / h with w = 1 + 1e-3 one unit of w in the last place is 1/h units of L."""
    for dtype, h in ((torch.float64, 1.0), (torch.float64, 1e-6), (torch.float32, 1e-3)):
        eps, w = torch.finfo(dtype).eps, torch.full((8,), 1 + 1e-3, dtype=dtype)
        loss = lambda w: ((w - 1) / h).double()  # ruff: ignore[function-uses-loop-variable]
        exact = loss(w), torch.ones(1)
        others = [(loss(rounding.perturbed(w, eps, i)), torch.ones(1)) for i in range(3)]
        unit, value = eps / h, exact[0].mean()
        one = torch.ones(())
        assert rounding.difference((value + unit, one), exact, others, eps) is None
        assert rounding.difference((value + 1000 * unit, one), exact, others, eps) is not None
