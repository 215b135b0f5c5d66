"""Losses and their gradients are traced as one graph, without checks that depend on numbers."""

import threading

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.fx.experimental.proxy_tensor import make_fx

from fdsm import DSM, SSM, Autodiff, FiniteDifference, Taylor
from fdsm.derivatives.checks.state import is_tracing, tracing

from ...parameters import at_night

OBJECTIVES = {
    "finite differences": SSM(FiniteDifference()),
    "one by one": SSM(FiniteDifference(parallel=False)),
    "chunks": SSM(FiniteDifference(chunk=5)),
    "taylor": SSM(Taylor()),
    "autodiff": SSM(Autodiff()),
    "denoising": DSM(0.3),
}


@pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=list(OBJECTIVES))
@pytest.mark.parametrize("mode", at_night(["real", "fake"], but=["fake"]))
def test_a_traced_loss_and_gradient_are_those_computed_eagerly(
    objective: SSM | DSM, mode: str, generator: torch.Generator
) -> None:
    model = nn.Sequential(
        nn.Linear(3, 5), nn.LayerNorm(5), nn.SiLU(), nn.Linear(5, 1), nn.Flatten(0)
    )
    names = [name for name, _ in model.named_parameters()]

    def step(x: Tensor, v: Tensor, *parameters: Tensor) -> tuple[Tensor, ...]:
        weights = dict(zip(names, parameters, strict=True))
        loss = objective.at(lambda x: functional_call(model, weights, (x,)), x, v).mean()
        return loss, *torch.autograd.grad(loss, parameters, materialize_grads=True)

    x, v = torch.randn(2, 4, 3, generator=generator)
    with tracing():
        graph = make_fx(step, tracing_mode=mode)(torch.ones_like(x), v / 10, *model.parameters())
    assert not any("local_scalar" in str(node.target) for node in graph.graph.nodes)
    with torch.no_grad():
        traced = graph(x, v, *model.parameters())
    torch.testing.assert_close(traced, step(x, v, *model.parameters()))


def test_data_are_checked_again_after_tracing() -> None:
    x = torch.full((2, 3), torch.nan)
    objective = SSM(FiniteDifference())
    with tracing():
        assert objective.at(lambda x: x.sum(1), x, torch.ones_like(x)).isnan().all()
    with pytest.raises(ValueError, match="not finite in rows"):
        objective.at(lambda x: x.sum(1), x, torch.ones_like(x))


def test_tracing_ends_with_the_outermost_context() -> None:
    with tracing():
        with tracing():
            assert is_tracing()
        assert is_tracing()
    assert not is_tracing()


def test_tracing_ends_with_an_error() -> None:
    with pytest.raises(ValueError, match="must have shape"), tracing():
        SSM(FiniteDifference()).at(lambda x: x.sum(1), torch.ones(2, 3), torch.ones(2, 4))
    assert not is_tracing()


def test_other_threads_are_not_traced() -> None:
    seen: list[bool] = []
    with tracing():
        thread = threading.Thread(target=lambda: seen.append(is_tracing()))
        thread.start()
        thread.join()
    assert seen == [False]
