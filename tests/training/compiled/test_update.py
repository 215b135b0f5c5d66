"""When updates are compiled, and when they run eagerly."""

import pytest
import torch
import torch._inductor
from torch import Generator, Tensor, nn

from fdsm.derivatives import FiniteDifference, PrecisionWarning
from fdsm.objectives import DSM, SSM
from fdsm.projections import Sphere
from fdsm.training import CompileWarning, compiled_step

from .cases import Pair, mlp, objective_of


@pytest.mark.usefixtures("_traced_only")
def test_smaller_batches_run_eagerly_in_between() -> None:
    pair = Pair(lambda m: objective_of(DSM(0.3), m), mlp(), decay=0.9)
    pair.train(3)
    traced = pair.compiled._graph
    pair.train(1, (2, 3))
    metrics = pair.train(2)
    assert pair.compiled._graph is traced
    pair.require_equal(metrics)


def test_without_a_compiler_it_runs_eagerly(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object, **__: object) -> None:
        raise FileNotFoundError("g++ was not found")

    monkeypatch.setattr(torch._inductor, "standalone_compile", missing)
    pair = Pair(lambda m: objective_of(DSM(0.3), m), mlp())
    with pytest.warns(CompileWarning, match=r"FileNotFoundError: g\+\+ was not found"):
        pair.train(2)
    pair.require_equal(pair.train(2))


@pytest.mark.usefixtures("_traced_only")
def test_guards_see_a_compiled_model() -> None:
    """A finite difference that loses its precision during training is still reported."""
    torch.set_default_dtype(torch.float32)

    class Offset(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net, self.offset = mlp(), nn.Buffer(torch.tensor(0.0))

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = self.net(x) - x.square().sum(1)
            return y + self.offset

    pair = Pair(lambda m: objective_of(SSM(FiniteDifference(), Sphere(0.1)), m), Offset())
    pair.train(4, (64, 3))
    assert pair.compiled.is_compiled
    offset = pair.models[1].offset
    assert isinstance(offset, Tensor)
    offset.fill_(1e6)
    x = torch.randn(64, 3)
    with pytest.warns(PrecisionWarning, match="rounding"):
        _ = [pair.compiled((x,), Generator(), 0.0) for _ in range(8)]


@pytest.mark.usefixtures("_traced_only")
def test_a_step_for_loops_of_other_people(generator: Generator) -> None:
    """With conditions, and with the global generator of torch."""

    class Conditional(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = mlp(4)

        def forward(self, x: Tensor, c: Tensor) -> Tensor:
            y: Tensor = self.net(torch.cat([x, c], 1))
            return y

    models = [Conditional(), Conditional()]
    models[1].load_state_dict(models[0].state_dict())
    optimizers = [torch.optim.Adam(m.parameters(), lr=0.01) for m in models]
    scheduler = [torch.optim.lr_scheduler.StepLR(o, 2) for o in optimizers]
    step = compiled_step(DSM(0.3), models[1], optimizers[1])
    for _ in range(5):
        x, c = torch.randn(6, 3, generator=generator), torch.randn(6, 1, generator=generator)
        state = torch.get_rng_state()
        optimizers[0].zero_grad()
        loss = DSM(0.3)(models[0], x, c).mean()
        loss.backward()
        optimizers[0].step()
        torch.set_rng_state(state)
        torch.testing.assert_close(step(x, c)["loss"], loss.detach())
        for one in scheduler:
            one.step()
    for a, b in zip(*(m.parameters() for m in models), strict=True):
        torch.testing.assert_close(b, a)
