"""Convolutions and their layers, with and without a batch."""

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional

from fdsm.derivatives import Autodiff, MissingRule, Taylor
from fdsm.derivatives.taylor.rules import convolution

from ..agreement import assert_agrees, assert_rule, names_of_rules
from .tensor_cases import SHAPE, Rule, constant, image, parameters

C, F = constant, functional
CASES: dict[str, tuple[Rule, ...]] = {
    "conv1d": (
        lambda x: F.conv1d(x, C(5, 3, 2), C(5)),
        lambda x: F.conv1d(x, C(5, 3, 3), None, padding="same", dilation=2),
        lambda x: F.conv1d(x, C(6, 1, 2), C(6), stride=2, padding=1, groups=3),
        lambda x: F.conv1d(x[0], C(5, 3, 2), bias=C(5)),
        lambda x: torch.conv1d(x.mT, C(5, 4, 1)),
    ),
    "conv2d": (
        lambda x: F.conv2d(x[:, None], C(5, 1, 2, 3), C(5), padding=(1, 0)),
        lambda x: F.conv2d(image(x, 2, 4, 5, 5), C(6, 2, 3, 3), C(6), 2, 1, 2, 2),
        lambda x: F.conv2d(x, C(4, 2, 2, 2), C(4)),
    ),
    "conv3d": (
        lambda x: F.conv3d(image(x, 2, 2, 3, 3, 3), C(3, 2, 2, 2, 2), C(3), padding=1),
        lambda x: F.conv3d(x[None], C(3, 1, 1, 2, 2), C(3)),
    ),
    "conv_transpose1d": (
        lambda x: F.conv_transpose1d(x, C(3, 5, 2), C(5), stride=2, output_padding=1),
        lambda x: F.conv_transpose1d(x[0], C(3, 5, 2), C(5)),
    ),
    "conv_transpose2d": (
        lambda x: F.conv_transpose2d(image(x, 2, 4, 3, 3), C(4, 2, 3, 3), C(4), 2, 1, 1, 2),
        lambda x: F.conv_transpose2d(x, C(2, 3, 2, 2)),
    ),
    "conv_transpose3d": (
        lambda x: F.conv_transpose3d(image(x, 1, 2, 2, 3, 2), C(2, 3, 2, 2, 2), C(3), dilation=2),
    ),
    "fold": (
        lambda x: F.fold(x.reshape(2, 4, 3), (2, 4), (2, 2)),
        lambda x: F.fold(x[0].reshape(4, 3), (2, 4), 2),
    ),
    "unfold": (
        lambda x: F.unfold(x[:, None], 2),
        lambda x: F.unfold(x, (2, 3), padding=1, stride=2, dilation=1),
    ),
}


def test_every_rule_has_a_case() -> None:
    assert names_of_rules(convolution) == set(CASES)


@pytest.mark.parametrize("f", parameters(CASES))
@pytest.mark.filterwarnings("ignore:Using padding='same'")
def test_agrees_with_autodiff(f: Rule) -> None:
    assert_rule(f, constant(*SHAPE))


def with_fixed_parameters(layer: nn.Module) -> nn.Module:
    """Return a layer with parameters that are the same every time."""
    generator = torch.Generator().manual_seed(1)
    for parameter in layer.double().parameters():
        nn.init.normal_(parameter, generator=generator)
    return layer


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (lambda: nn.Conv1d(4, 6, 3, padding=1, groups=2), (4, 5)),
        (lambda: nn.Conv1d(4, 4, 3, padding="same", padding_mode="circular"), (4, 5)),
        (lambda: nn.Conv2d(2, 3, 3, stride=2, padding=1, padding_mode="reflect"), (2, 5, 4)),
        (lambda: nn.Conv2d(2, 4, (3, 2), dilation=(1, 2), padding_mode="replicate"), (2, 5, 4)),
        (lambda: nn.Conv2d(3, 3, 3, padding=1, groups=3, bias=False), (3, 4, 4)),
        (lambda: nn.Conv3d(2, 2, 2, padding=1), (2, 3, 2, 3)),
        (lambda: nn.ConvTranspose1d(4, 2, 3, stride=2, output_padding=1), (4, 3)),
        (lambda: nn.ConvTranspose2d(4, 2, 3, stride=2, padding=1, groups=2), (4, 3, 3)),
        (lambda: nn.Bilinear(4, 4, 3), (4,)),
        (lambda: nn.Linear(4, 3), (2, 4)),
    ],
)
def test_layers_with_parameters(layer: Callable[[], nn.Module], shape: tuple[int, ...]) -> None:
    """Each is used twice, on series of degree one and two, with and without a batch."""
    f, x = with_fixed_parameters(layer()), constant(2, *shape)
    one = (lambda x: f(x, x.sin())) if isinstance(f, nn.Bilinear) else f
    both = lambda x: one(x) * one(x.sin()).cos()
    before = [p.detach().clone() for p in f.parameters()]
    assert_agrees(
        lambda x: both(x).flatten(1).sum(1), x, x, *f.parameters(), orders=(1, 2), directions=(2,)
    )
    assert_rule(both, x[0], *f.parameters())
    assert all(torch.equal(p, q) for p, q in zip(f.parameters(), before, strict=True))


def test_double_backward_through_layers() -> None:
    f = with_fixed_parameters(
        nn.Sequential(nn.Conv1d(2, 3, 2), nn.Tanh(), nn.Flatten(), nn.Linear(9, 1))
    )
    x, v = constant(2, 3, 2, 4)
    parameters, results = list(f.parameters()), []
    for engine in (Taylor(), Autodiff()):
        terms = engine.jet(lambda x: f(x)[:, 0], x, v, 2)
        first = torch.autograd.grad(
            terms[2].square().sum(), parameters, create_graph=True, materialize_grads=True
        )
        total = sum(g.sin().sum() for g in first)
        results.append((*first, *torch.autograd.grad(total, parameters, materialize_grads=True)))
    torch.testing.assert_close(*results, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: functional.conv1d(constant(1, 1, 3), x[:, None, :2]),
        lambda x: functional.conv1d(x[:, None], x[:, None, :2]),
        lambda x: functional.conv1d(x[:, None], constant(3, 1, 1), x[0]),
    ],
)
def test_weights_that_depend_on_the_input_are_refused(f: Rule) -> None:
    with pytest.raises(MissingRule, match="Taylor"):
        Taylor().jet(lambda x: f(x).reshape(2, -1).sum(1), torch.ones(2, 3), torch.ones(2, 3), 1)
