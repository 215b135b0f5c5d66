"""Losses written by hand are those of the package, for the same random numbers."""

import pytest
import torch
from torch import nn

from benchmarks.peers import by_hand
from benchmarks.problems import mlp
from fdsm.derivatives import Autodiff, FiniteDifference, Taylor
from fdsm.objectives import DSM, SSM
from fdsm.projections import Sphere

SPHERE = Sphere(by_hand.EPS)


@pytest.fixture
def model() -> nn.Module:
    return mlp(3, 8, 8)


def gradient(loss: torch.Tensor, model: nn.Module) -> torch.Tensor:
    grads = torch.autograd.grad(
        loss, list(model.parameters()), allow_unused=True, materialize_grads=True
    )
    return torch.cat([g.flatten() for g in grads])


@pytest.mark.parametrize(
    ("loss", "objective"),
    [
        (by_hand.fd_ssm, SSM(FiniteDifference(), SPHERE)),
        (by_hand.nested_ssm, SSM(Autodiff(), SPHERE)),
        (by_hand.nested_ssm, SSM(Taylor(), SPHERE)),
        (by_hand.dsm, DSM(by_hand.SIGMA)),
    ],
)
def test_losses_and_gradients_are_those_of_the_objectives(
    loss: object, objective: object, model: nn.Module
) -> None:
    x = torch.randn(5, 3)
    random = by_hand.sphere(x)
    value, expected = loss(model, x, random), objective.at(model, x, random).mean()
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(gradient(value, model), gradient(expected, model))


def test_directions_have_the_length_of_the_projection() -> None:
    v = by_hand.sphere(torch.zeros(4, 2, 3))
    torch.testing.assert_close(v.flatten(1).norm(dim=1), torch.full((4,), by_hand.EPS))


def test_losses_draw_their_own_random_numbers(model: nn.Module) -> None:
    x = torch.randn(5, 3)
    for loss in by_hand.LOSSES.values():
        assert loss(model, x) != loss(model, x)
    assert by_hand.plain(model, x) == model(x).mean()
