"""Derivatives along one direction, of any length and order."""

import pytest
import torch
from torch import Generator

from fdsm.derivatives import Autodiff, FiniteDifference, Taylor, step_size
from fdsm.operators import directional_derivative
from fdsm.typing import Derivative
from tests.oracles import wiggle


@pytest.mark.parametrize("order", range(1, 7))
@pytest.mark.parametrize("engine", [Taylor(), Autodiff()], ids=["taylor", "autodiff"])
def test_any_order_and_length(engine: Derivative, order: int, generator: Generator) -> None:
    f = wiggle()
    x, v = torch.randn(2, 32, 3, generator=generator)
    expected = f.derivative(x, 50 * v, order)
    actual = directional_derivative(f, x, 50 * v, order, derivative=engine)
    torch.testing.assert_close(actual, expected)
    torch.testing.assert_close(directional_derivative(f, x, 50 * v, order), expected)


@pytest.mark.parametrize("order", range(1, 7))
def test_differences_with_a_measured_step(order: int, generator: Generator) -> None:
    f = wiggle()
    x, v = torch.randn(2, 32, 3, generator=generator)
    expected = f.derivative(x, 50 * v, order)
    step = step_size(f, x, v, order)
    engine = FiniteDifference()
    actual = directional_derivative(f, x, 50 * v, order, derivative=engine, step=step)
    tolerance = [1e-9, 1e-7, 1e-5, 1e-4, 1e-3, 1e-2][order - 1]
    assert (actual - expected).norm() < tolerance * expected.norm()


def test_a_given_step_trains(generator: Generator) -> None:
    scale = torch.tensor(1.5, requires_grad=True)
    x, v = torch.randn(2, 4, 3, generator=generator)
    f = lambda x: scale * x.square().sum(1)
    second = directional_derivative(f, x, v, 2, derivative=FiniteDifference(), step=0.3)
    torch.testing.assert_close(second, 3 * v.square().sum(1))
    (gradient,) = torch.autograd.grad(second.sum(), scale)
    torch.testing.assert_close(gradient, 2 * v.square().sum())
    with pytest.raises(ValueError, match="step must be a positive"):
        directional_derivative(f, x, v, 2, step=0.0)


def test_conditions_and_refusals(generator: Generator) -> None:
    x, v = torch.randn(2, 4, 3, generator=generator)
    c = torch.arange(4.0)
    first = directional_derivative(lambda x, c: c * x.sum(1), x, v, 1, c)
    torch.testing.assert_close(first, c * v.sum(1))
    with pytest.raises(ValueError, match="length zero"):
        directional_derivative(lambda x: x.sum(1), x, 0 * v, 1)
    with pytest.raises(ValueError, match="order must be"):
        directional_derivative(lambda x: x.sum(1), x, v, 0)
