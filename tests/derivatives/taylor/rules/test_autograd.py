"""Gradients that a model takes itself are differentiated."""

import gc
from collections.abc import Callable

import pytest
import torch
from torch import Generator, Tensor, nn

from fdsm.derivatives import Autodiff, MissingRule, Taylor, score_of
from fdsm.objectives import SSMVR, ViaScore

from ..agreement import assert_agrees


def network(width: int = 8) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(3, width), nn.Softplus(), nn.Linear(width, width), nn.Tanh(),
        nn.Linear(width, 1), nn.Flatten(0),
    )  # fmt: skip


@pytest.mark.parametrize("order", [1, 2, 4])
def test_gradients_that_a_model_takes_of_itself(order: int, generator: Generator) -> None:
    model = network()
    score = score_of(model)

    def f(x: Tensor) -> Tensor:
        return score(x).sin().sum(1) * model(x)

    x = torch.randn(4, 3, generator=generator)
    assert_agrees(f, x, *model[:3].parameters(), orders=(order,), directions=(1, 3))


def test_gradients_with_weights_that_depend_on_the_input(generator: Generator) -> None:
    """A product of a Jacobian and a vector, as in Hutchinson's estimate of a trace."""
    model = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 3))

    def f(x: Tensor) -> Tensor:
        y = model(x)
        (product,) = torch.autograd.grad(y, x, y.cos(), create_graph=True)
        return product.square().sum(1)

    x = torch.randn(4, 3, generator=generator)

    def tracked(x: Tensor) -> Tensor:
        return f(x if x.requires_grad else x.view_as(x).requires_grad_())

    assert_agrees(tracked, x, *model.parameters())


def test_gradients_of_several_tensors_are_refused() -> None:
    def f(x: Tensor) -> Tensor:
        x = x.view_as(x).requires_grad_()
        return torch.autograd.grad([x.sum(), x.sum()], x)[0].sum(1)

    with pytest.raises(MissingRule, match="of several tensors"):
        Taylor().jet(f, torch.ones(2, 3), torch.ones(2, 3), 1)


def test_a_score_objective_of_a_log_density(generator: Generator) -> None:
    model, x = network(), torch.randn(5, 3, generator=generator)
    losses = [
        ViaScore(SSMVR(engine, directions=2))(model, x, generator=Generator().manual_seed(0))
        for engine in (Taylor(), Autodiff())
    ]
    torch.testing.assert_close(*losses)
    parameters = [*model[:3].parameters()]
    torch.testing.assert_close(*(torch.autograd.grad(y.sum(), parameters) for y in losses))


def test_gradients_inside_where_the_input_requires_one(generator: Generator) -> None:
    model = network()

    def f(x: Tensor) -> Tensor:
        x = x.requires_grad_()
        (g,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        return g.square().sum(1)

    x, v = torch.randn(2, 4, 3, generator=generator)
    x.requires_grad_()
    torch.testing.assert_close(Taylor().jet(f, x, v, 3), Autodiff().jet(f, x, v, 3))


def test_gradients_with_respect_to_a_hidden_layer(generator: Generator) -> None:
    model = network()

    def f(x: Tensor) -> Tensor:
        h = model[0](x)
        h = h if h.requires_grad else h.requires_grad_()
        (g,) = torch.autograd.grad(model[1:](h).sum(), h, create_graph=True)
        return (g * h).sum(1)

    def forgotten(x: Tensor) -> Tensor:
        h = model[0](x)
        (g,) = torch.autograd.grad(model[1:](h).sum(), h, create_graph=True)
        return (g * h).sum(1)

    x, v = torch.randn(2, 4, 3, generator=generator)
    torch.testing.assert_close(Taylor().jet(f, x, v, 2), Autodiff().jet(f, x, v, 2))
    with pytest.raises(MissingRule, match=r"requires_grad_\(\)` was called before"):
        Taylor().jet(forgotten, x, v, 2)


def test_an_unused_input_has_no_gradient() -> None:
    def f(x: Tensor) -> Tensor:
        other = x.clone().requires_grad_()
        assert torch.autograd.grad(x.sin().sum(), other, allow_unused=True) == (None,)
        return x.sum(1)

    x = torch.ones(2, 3, requires_grad=True)
    Taylor().jet(f, x, torch.ones(2, 3), 1)


@pytest.mark.parametrize("function", [torch.exp, torch.tanh, torch.reciprocal, torch.sigmoid])
def test_nothing_stays_in_memory_without_gradients(function: Callable[[Tensor], Tensor]) -> None:
    """These functions save their own result, which must not keep the graph alive."""
    score = score_of(lambda x: function(x).sum(1))
    x = torch.ones(4, 3)
    counts = []
    with torch.no_grad():
        for _ in range(4):
            Taylor().quadratic(score, x, x)
            gc.collect()
            counts.append(sum(isinstance(o, Tensor) for o in gc.get_objects()))
    assert counts[1:] == counts[1:2] * 3
