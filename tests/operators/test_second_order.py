"""The operators against closed forms, autograd and their own expectation."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Generator, Tensor, nn
from torch.distributions import Independent, Normal

import fdsm
from fdsm.derivatives import Autodiff, FiniteDifference, Taylor
from fdsm.operators import divergence, hessian_diagonal, laplacian
from fdsm.projections import Gaussian, Rademacher, Sphere
from fdsm.typing import Derivative, LogDensity, Projection
from tests.operators.operator_cases import (
    SHAPES,
    events,
    field,
    hessian,
    jacobian,
    mixed,
    nested_laplacian,
)

ENGINES = {
    "default": None,
    "taylor": Taylor(),
    "autodiff": Autodiff(),
    "differences": FiniteDifference(accuracy=6),
}
engines = pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES.keys())
shapes = pytest.mark.parametrize("shape", SHAPES, ids=str)


def options(engine: Derivative | None) -> dict[str, Derivative]:
    return {} if engine is None else {"derivative": engine}


def tolerance(engine: Derivative | None) -> float:
    return 1e-4 if isinstance(engine, FiniteDifference) else 1e-10


def close(actual: Tensor, expected: Tensor, engine: Derivative | None) -> None:
    assert actual.shape == expected.shape
    torch.testing.assert_close(actual, expected, rtol=tolerance(engine), atol=tolerance(engine))


@engines
@shapes
def test_operators_are_those_of_autograd(
    engine: Derivative | None, shape: tuple[int, ...], generator: Generator
) -> None:
    x = events(shape, generator)
    matrix = hessian(mixed, x)
    close(laplacian(mixed, x, **options(engine)), matrix.diagonal(0, 1, 2).sum(1), engine)
    diagonal = matrix.diagonal(0, 1, 2).view(x.shape)
    close(hessian_diagonal(mixed, x, **options(engine)), diagonal, engine)
    trace = jacobian(field, x).diagonal(0, 1, 2).sum(1)
    close(divergence(field, x, **options(engine)), trace, engine)


def test_closed_forms(generator: Generator) -> None:
    x = events((5,), generator)
    a = torch.randn(5, generator=generator)
    exact = {
        "exponential": (lambda x: (x @ a).exp(), a.square().sum() * (x @ a).exp()),
        "cubes": (lambda x: x.pow(3).sum(1), 6 * x.sum(1)),
        "Gaussian": (lambda x: -x.square().sum(1) / 2, torch.full((4,), -5.0)),
        "harmonic": (lambda x: x[:, 0].exp() * x[:, 1].cos(), torch.zeros(4)),
        "length to the power p": (lambda x: x.norm(dim=1) ** 3, 3 * 6 * x.norm(dim=1)),
    }
    for f, expected in exact.values():
        torch.testing.assert_close(laplacian(f, x), expected)
    torch.testing.assert_close(divergence(lambda x: x @ torch.diag(a), x), a.sum().expand(4))
    torch.testing.assert_close(divergence(lambda x: x.roll(1, 1), x), torch.zeros(4))
    normal = Independent(Normal(torch.zeros(5), torch.full((5,), 2.0)), 1)
    torch.testing.assert_close(hessian_diagonal(normal, x), torch.full((4, 5), -0.25))


@pytest.mark.parametrize(
    "weights",
    [
        torch.tensor([0.5, 2.0, 3.0]),
        torch.tensor([1.0, 1.0, -4.0]),
        torch.tensor([0.0, -1.0, 0.0]),
        torch.zeros(3),
        torch.tensor([[1.0, 2.0, 3.0], [-1.0, 0.0, 3.0], [0.0, 0.0, 0.0], [-2.0, -1.0, 4.0]]),
        torch.tensor(2.0),
    ],
    ids=["positive", "wave", "one", "none", "by-example", "scalar"],
)
@pytest.mark.parametrize("engine", [None, Autodiff()], ids=["taylor", "autodiff"])
def test_weights(weights: Tensor, engine: Derivative | None, generator: Generator) -> None:
    x = events((3,), generator)
    weights = weights.double()
    expected = (weights * hessian(mixed, x).diagonal(0, 1, 2)).sum(1)
    torch.testing.assert_close(laplacian(mixed, x, weights=weights, **options(engine)), expected)
    mean = laplacian(mixed, x, weights=weights, directions=4000, generator=generator)
    error = (mean - expected).abs() / (expected.abs() + weights.abs().sum() + 0.1)
    assert error.max() < 0.3


def test_coordinates_of_weight_zero_are_left_out(generator: Generator) -> None:
    x = events((6,), generator)
    rows: list[int] = []

    class Counting(Taylor):
        def sliced(
            self, f: LogDensity, x: Tensor, v: Tensor, *cond: Tensor
        ) -> tuple[Tensor, Tensor]:
            rows.append(len(v))
            return super().sliced(f, x, v, *cond)

    weights = torch.tensor([1.0, 0.0, 0.0, -2.0, -3.0, 0.0])
    laplacian(mixed, x, weights=weights, derivative=Counting())
    assert rows == [1, 2]


@pytest.mark.parametrize("projection", [Rademacher(0.1), Sphere(2.0), Gaussian()], ids=str)
def test_stochastic_forms_are_unbiased(projection: Projection, generator: Generator) -> None:
    x = events((3,), generator, 2).repeat(2000, 1)
    drawn = {"directions": 2, "projection": projection, "generator": generator}
    truth = hessian(mixed, x[:2]).diagonal(0, 1, 2)
    trace = jacobian(field, x[:2]).diagonal(0, 1, 2).sum(1)
    for estimates, expected in (
        (laplacian(mixed, x, **drawn), truth.sum(1)),
        (divergence(field, x, **drawn), trace),
        (hessian_diagonal(mixed, x, **drawn), truth),
    ):
        samples = estimates.view(2000, *expected.shape)
        error = (samples.mean(0) - expected) / (samples.std(0) / math.sqrt(2000) + 1e-9)
        assert error.abs().max() < 4.5


def test_variance_of_random_signs_is_that_of_hutchinson(generator: Generator) -> None:
    a = torch.randn(3, 3, generator=generator)
    a = a + a.T
    x = torch.zeros(20_000, 3)
    f = lambda x: ((x @ a) * x).sum(1) / 2
    variance = 2 * (a.square().sum() - a.diagonal().square().sum())
    for n in (1, 4):
        estimates = laplacian(f, x, directions=n, generator=generator)
        torch.testing.assert_close(estimates.var(), variance / n, rtol=0.05, atol=0)
    diagonal = hessian_diagonal(lambda x: x.pow(2).sum(1), x[:5], directions=1)
    torch.testing.assert_close(diagonal, torch.full((5, 3), 2.0))


@pytest.mark.parametrize("chunk", [1, 4, None])
def test_chunks_and_conditions_change_nothing(chunk: int | None, generator: Generator) -> None:
    x, c = events((2, 3), generator), torch.rand(4, 1, 1, generator=generator)
    f = lambda x, c: mixed(c * x)
    s = lambda x, c: field(c * x)
    diagonal = hessian(f, x, c).diagonal(0, 1, 2)
    torch.testing.assert_close(laplacian(f, x, c, chunk=chunk), diagonal.sum(1))
    torch.testing.assert_close(hessian_diagonal(f, x, c, chunk=chunk), diagonal.view(x.shape))
    torch.testing.assert_close(
        divergence(s, x, c, chunk=chunk), divergence(s, x, c, derivative=Autodiff())
    )


def network() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1), nn.Flatten(0))


@pytest.mark.parametrize("chunk", [2, None])
def test_gradients_of_parameters_and_points(chunk: int | None, generator: Generator) -> None:
    model, x = network(), events((3,), generator).requires_grad_()
    wanted = [x, *list(model.parameters())[:-1]]
    expected = torch.autograd.grad(nested_laplacian(model)(x).square().sum(), wanted)
    actual = laplacian(model, x, chunk=chunk).square().sum()
    torch.testing.assert_close(torch.autograd.grad(actual, wanted), expected)
    diagonal = hessian_diagonal(model, x, chunk=chunk).sum(1).square().sum()
    torch.testing.assert_close(torch.autograd.grad(diagonal, wanted), expected)


def test_stochastic_diagonal_trains(generator: Generator) -> None:
    scale = torch.tensor(2.0, requires_grad=True)
    x = events((3,), generator)
    estimate = hessian_diagonal(lambda x: scale * x.pow(3).sum(1), x, directions=1)
    torch.testing.assert_close(torch.autograd.grad(estimate.sum(), scale)[0], 6 * x.sum())
    with torch.no_grad():
        assert not hessian_diagonal(network(), x, directions=2).requires_grad


def test_residual_of_a_physics_informed_network_trains(generator: Generator) -> None:
    """The heat equation: time is the last coordinate, and has no second derivative in it."""
    model, points = network(), events((3,), generator, 16)
    space = torch.tensor([1.0, 1.0, 0.0])
    time = torch.tensor([0.0, 0.0, 1.0]).expand_as(points)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    losses = []
    for _ in range(20):
        rate = fdsm.directional_derivative(model, points, time, 1)
        loss = (rate - fdsm.laplacian(model, points, weights=space)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2


class Outside(nn.Module):
    """A model from outside, with a function that has no Taylor rule."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(3, 5)

    def forward(self, x: Tensor) -> Tensor:
        return torch.mvlgamma(self.cell(x) + 3, 2).sum(1)


def test_models_without_rules_use_autograd(generator: Generator) -> None:
    x = events((3,), generator)
    model = Outside().eval()
    torch.testing.assert_close(laplacian(model, x), laplacian(model, x, derivative=Autodiff()))


@pytest.mark.parametrize("operator", [laplacian, hessian_diagonal, divergence])
def test_refusals(operator: Callable[..., Tensor], generator: Generator) -> None:
    x = events((3,), generator)
    with pytest.raises(ValueError, match=r"must return"):
        operator(lambda x: x[:2], x)
    with pytest.raises(ValueError, match="not finite"):
        operator(mixed, x / 0)
    with pytest.raises(TypeError, match="floating-point"):
        operator(mixed, x.long())
    with pytest.raises(ValueError, match="chunks must be positive"):
        operator(mixed, x, chunk=0)
    with pytest.raises(ValueError, match="step must be a positive"):
        operator(mixed, x, step=0.0)
    with pytest.raises(ValueError, match="at least one direction"):
        operator(mixed, x, directions=0)
