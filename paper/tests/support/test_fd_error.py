"""Errors of finite differences against closed forms."""

import math

import pytest
import torch

from paper.support.fd_error import (
    FDErrors,
    error_model,
    exact_derivatives,
    relative_error,
    relative_errors,
)

from .derivative_cases import Wave, derivative, points


def test_exact_derivatives_are_the_closed_form(generator: torch.Generator) -> None:
    x, v = points(5, generator)
    exact = exact_derivatives(Wave(), x, v, 10)
    for order in range(11):
        torch.testing.assert_close(exact[order], derivative(x, v, order))


@pytest.mark.parametrize("order", range(1, 9))
def test_errors_are_of_second_order_in_the_step(order: int, generator: torch.Generator) -> None:
    x, v = points(5, generator)
    exact = torch.stack([derivative(x, v, k) for k in range(order + 1)])
    longer, shorter = relative_errors(Wave(), x, v, exact, [0.4, 0.2])
    assert math.log2(longer / shorter) == pytest.approx(2, abs=0.1)


def test_the_error_is_the_relative_root_mean_square() -> None:
    exact = torch.tensor([3.0, 4.0])
    assert relative_error(exact + torch.tensor([0.3, -0.4]), exact) == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("order", "a", "c"),
    [(1, 1 / 6, 1), (2, 1 / 12, 4), (3, 1 / 4, 3), (4, 1 / 6, 16), (5, 1 / 3, 10), (6, 1 / 4, 64)],
)
def test_the_error_model_has_the_known_coefficients(order: int, a: float, c: float) -> None:
    sizes = torch.arange(2.0, 11.0)[:, None]  # of the derivatives of orders 0 to 8
    model = error_model(sizes, order, torch.float32)
    assert model.truncation == pytest.approx(a * (order + 4) / (order + 2))
    assert model.rounding == pytest.approx(c * 2**-24 * 2 / (order + 2))
    nearby = [model.error(model.best_step * factor) for factor in (0.99, 1, 1.01)]
    assert nearby[1] == min(nearby)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_errors_are_as_predicted_where_truncation_dominates(
    order: int, generator: torch.Generator
) -> None:
    x, v = points(64, generator)
    exact = exact_derivatives(Wave(), x, v, order + 2)
    (error,) = relative_errors(Wave(), x, v, exact[: order + 1], [0.05])
    assert error == pytest.approx(error_model(exact, order, x.dtype).error(0.05), rel=0.01)


def test_orders_within_one_per_cent_end_at_the_first_larger_error() -> None:
    steps, float32 = [0.1, 0.2], [[0.1, 0.001], [0.02, math.nan], [0.005, 0.1]]
    found = FDErrors(steps, torch.ones(6, 1), float32, float32, [0.3] * 3, [1e-6, 0.01, 1e-4])
    numbers = found.numbers()
    assert numbers["orders within 1 %, float64"].value == 3
    assert numbers["orders within 1 %, float32"].value == 1
    assert numbers["largest error, float64"].value == pytest.approx(0.01)
    assert numbers["orders within 1 %, float32"].settings["steps"] == [0.2, 0.1, 0.1]
