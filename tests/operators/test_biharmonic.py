"""The biharmonic operator against closed forms and nested gradients."""

import math

import pytest
import torch
from torch import Generator, nn

from fdsm.derivatives import Autodiff, FiniteDifference, Taylor
from fdsm.operators import biharmonic
from fdsm.typing import Derivative
from tests.operators.operator_cases import events, mixed, nested_laplacian


@pytest.mark.parametrize("shape", [(), (1,), (3,), (4,), (5,), (2, 1, 2)], ids=str)
@pytest.mark.parametrize("engine", [Taylor(), Autodiff()], ids=["taylor", "autodiff"])
def test_is_the_laplacian_of_the_laplacian(
    engine: Derivative, shape: tuple[int, ...], generator: Generator
) -> None:
    x = events(shape, generator)
    expected = nested_laplacian(nested_laplacian(mixed))(x).detach()
    torch.testing.assert_close(biharmonic(mixed, x, derivative=engine).detach(), expected)
    torch.testing.assert_close(biharmonic(mixed, x, chunk=3).detach(), expected)


def test_closed_forms(generator: Generator) -> None:
    x = events((5,), generator)
    a = torch.randn(5, generator=generator)
    exponential = a.square().sum() ** 2 * (x @ a).exp()
    torch.testing.assert_close(biharmonic(lambda x: (x @ a).exp(), x), exponential)
    d, p = 5, 6
    radial = p * (p + d - 2) * (p - 2) * (p + d - 4) * x.norm(dim=1) ** (p - 4)
    torch.testing.assert_close(biharmonic(lambda x: x.norm(dim=1) ** p, x), radial)
    biharmonic_function = lambda x: x.square().sum(1) * x[:, 0] * x[:, 1]
    torch.testing.assert_close(biharmonic(biharmonic_function, x), torch.zeros(4))


def test_differences(generator: Generator) -> None:
    x = events((2,), generator)
    f = lambda x: x.square().sum(1).square()
    actual = biharmonic(f, x, derivative=FiniteDifference())
    torch.testing.assert_close(actual, torch.full((4,), 64.0), rtol=1e-5, atol=0)


def test_random_directions_are_unbiased(generator: Generator) -> None:
    x = events((3,), generator, 2)
    expected = nested_laplacian(nested_laplacian(mixed))(x).detach()
    samples = biharmonic(mixed, x.repeat(4000, 1), directions=2, generator=generator)
    samples = samples.view(4000, 2)
    error = (samples.mean(0) - expected) / (samples.std(0) / math.sqrt(4000))
    assert error.abs().max() < 4


def test_gradients(generator: Generator) -> None:
    model = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 1), nn.Flatten(0))
    x = events((3,), generator).requires_grad_()
    wanted = [x, *list(model.parameters())[:-1]]
    nested = nested_laplacian(nested_laplacian(model))(x).square().sum()
    actual = biharmonic(model, x).square().sum()
    torch.testing.assert_close(
        torch.autograd.grad(actual, wanted), torch.autograd.grad(nested, wanted)
    )


def test_refusals(generator: Generator) -> None:
    x = events((3,), generator)
    with pytest.raises(ValueError, match=r"must return"):
        biharmonic(lambda x: x, x)
    with pytest.raises(ValueError, match="step must be a positive"):
        biharmonic(mixed, x, step=math.inf)
    with pytest.raises(ValueError, match="not finite"):
        biharmonic(mixed, x / 0)
