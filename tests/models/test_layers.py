"""Activations and heads compared with their formulas."""

import math

import torch
from torch import Generator, nn

from fdsm.models import QuadraticHead, ShiftedSoftplus
from fdsm.models.layers import out_of_place, perceptron
from fdsm.typing import Elementwise


def test_shifted_softplus_is_zero_at_zero_and_has_slope_one_half() -> None:
    activation, x = ShiftedSoftplus(), torch.tensor([0.0, 2.0], requires_grad=True)
    y = activation(x)
    torch.testing.assert_close(y, torch.tensor([0.0, math.log((1 + math.exp(2)) / 2)]))
    (slope,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(slope[0], torch.tensor(0.5))
    assert isinstance(activation, Elementwise)


def test_quadratic_head_agrees_with_its_formula(generator: Generator) -> None:
    head, h = QuadraticHead(3), torch.randn(5, 3, generator=generator)
    (a, b), (a0, b0), c = head.factors.weight, head.factors.bias, head.squares.weight[0]
    expected = [(a @ row + a0) * (b @ row + b0) + (c * row * row).sum() for row in h]
    torch.testing.assert_close(head(h), torch.stack(expected))


def test_quadratic_head_has_no_trainable_constant() -> None:
    """Moving any parameter moves differences between examples, not only the level."""
    head, h = QuadraticHead(3), torch.tensor([[1.0, 2.0, 3.0], [0.5, -1.0, 0.0]])
    for parameter in head.parameters():
        for jacobian in zip(
            *(torch.autograd.grad(row, parameter, retain_graph=True)[0].flatten()
              for row in head(h)),
            strict=True,
        ):  # fmt: skip
            assert abs(jacobian[0] - jacobian[1]) > 1e-6


def test_perceptron_ends_in_a_linear_layer() -> None:
    layers = perceptron((4, 3, 2), nn.Tanh)
    assert [type(layer) for layer in layers] == [nn.Linear, nn.Tanh, nn.Linear]
    assert [layer.weight.shape for layer in layers if isinstance(layer, nn.Linear)] == [
        (3, 4),
        (2, 3),
    ]


def test_activations_do_not_change_their_input() -> None:
    x = torch.tensor([-1.0, 1.0])
    assert out_of_place(lambda: nn.ReLU(inplace=True))(x).tolist() == [0, 1]
    assert x.tolist() == [-1, 1]
