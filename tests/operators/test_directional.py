"""Derivatives along one direction, of any length and order."""

import pytest
import torch
from torch import Generator, nn

from fdsm.derivatives import Autodiff, FiniteDifference, Taylor, step_size
from fdsm.operators import directional_derivative, hvp, jet, jvp
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
    with pytest.raises(ValueError, match="order must be"):
        directional_derivative(lambda x: x.sum(1), x, v, 0)


@pytest.mark.parametrize("engine", [Taylor(), Autodiff(), FiniteDifference()], ids=str)
def test_jvp_along_a_path(engine: Derivative, generator: Generator) -> None:
    """Along $x(s) = x + s v$, $t(s) = t + s$ and $c(s) = c + s u$ of a known field."""
    x, v = torch.randn(2, 4, 3, generator=generator)
    t, (c, u) = torch.rand(4, generator=generator), torch.randn(2, 4, 1, 2, generator=generator)
    f = lambda x, t, label, c: t[:, None] ** 2 * x * label[:, None] + c[:, 0].sum(1, True) ** 2
    label, s = torch.arange(4), c[:, 0].sum(1, True)
    value, slope = jvp(
        f, x, v, t, label, c, cond_directions=(1.0, None, u), derivative=engine, step=1e-4
    )
    expected = t[:, None] ** 2 * label[:, None] * v + 2 * s * u[:, 0].sum(1, True)
    expected = expected + 2 * t[:, None] * x * label[:, None]
    torch.testing.assert_close(value, f(x, t, label, c), rtol=1e-7, atol=1e-7)
    torch.testing.assert_close(slope, expected, rtol=1e-7, atol=1e-7)
    _, only_time = jvp(
        f, x, None, t, label, c, cond_directions=(2, None, None), derivative=engine, step=1e-4
    )
    torch.testing.assert_close(
        only_time, 4 * t[:, None] * x * label[:, None], rtol=1e-7, atol=1e-7
    )


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
def test_jvp_is_that_of_torch(generator: Generator) -> None:
    """Values, and gradients in the parameters, the points and the directions."""
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
    f = lambda x, t: model(torch.cat([x, t[:, None]], 1))
    x, v = torch.randn(2, 5, 3, generator=generator).unbind()
    t, u = torch.randn(2, 5, generator=generator).unbind()
    inputs = [a.clone().requires_grad_() for a in (x, v, t, u)]
    v = inputs[1]
    wanted = [*inputs, *model.parameters()]
    expected = torch.func.jvp(f, (inputs[0], inputs[2]), (v, inputs[3]))
    for engine in (Taylor(), Autodiff()):
        found = jvp(f, inputs[0], v, inputs[2], cond_directions=(inputs[3],), derivative=engine)
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)
        gradients = [
            torch.autograd.grad(
                slope.pow(3).sum(), wanted, retain_graph=True, materialize_grads=True
            )
            for _, slope in (found, expected)
        ]
        torch.testing.assert_close(*gradients, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("engine", [Taylor(), Autodiff(), FiniteDifference()], ids=str)
def test_directions_of_length_zero(engine: Derivative, generator: Generator) -> None:
    x, v = torch.randn(2, 4, 3, generator=generator)
    v[1] = 0
    _, slope, curvature = jet(lambda x: x.pow(3), x, v, 2, derivative=engine, step=1e-3)
    torch.testing.assert_close(slope, 3 * x.square() * v, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(curvature, 6 * x * v.square(), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(slope[1], torch.zeros(3))


@pytest.mark.parametrize("engine", [Taylor(), Autodiff()], ids=str)
def test_jets_of_several_outputs(engine: Derivative, generator: Generator) -> None:
    x, v = torch.randn(2, 4, 3, generator=generator)
    a = torch.randn(2, 3, generator=generator)
    f = lambda x: (x @ a.T).sin()
    value, *terms = jet(f, x, v, 4, derivative=engine)
    torch.testing.assert_close(value, f(x))
    slope, u = v @ a.T, x @ a.T
    for k, (term, cycle) in enumerate(
        zip(terms, (u.cos(), -u.sin(), -u.cos(), u.sin()), strict=True), 1
    ):
        torch.testing.assert_close(term, slope**k * cycle, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("engine", [Taylor(), Autodiff(), FiniteDifference()], ids=str)
def test_hessian_vector_products(engine: Derivative, generator: Generator) -> None:
    x, v = torch.randn(2, 4, 3, generator=generator)
    scale = torch.tensor(1.5, requires_grad=True)
    f = lambda x, c: torch.stack([scale * x.prod(1) * c, (scale * x).pow(2).sum(1)], 1)
    c = torch.arange(4.0) + 1
    found = hvp(f, x, v, c, derivative=engine, step=1e-3)
    assert found.shape == (4, 2, 3)
    hessians = torch.zeros(4, 3, 3)
    for i, j, k in [(0, 1, 2), (1, 2, 0), (2, 0, 1)]:
        hessians[:, i, j] = hessians[:, j, i] = x[:, k]
    first = scale * c[:, None] * (hessians @ v[..., None])[..., 0]
    expected = torch.stack([first, 2 * scale**2 * v], 1)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    (gradient,) = torch.autograd.grad(found.sum(), scale)
    torch.testing.assert_close(
        gradient, (first / scale + 4 * scale * v).sum(), rtol=1e-7, atol=1e-7
    )
    scalar = hvp(lambda x, c: f(x, c)[:, 0], x, v, c, derivative=engine, step=1e-3)
    torch.testing.assert_close(scalar, found[:, 0])
    with torch.no_grad():
        assert not hvp(f, x, v, c, derivative=engine).requires_grad


def test_directions_that_do_not_fit(generator: Generator) -> None:
    x, v = torch.randn(2, 4, 3, generator=generator)
    t = torch.rand(4, generator=generator)
    f = lambda x, t: x * t[:, None]
    with pytest.raises(ValueError, match="each of the 1 conditions, but has 2"):
        jvp(f, x, v, t, cond_directions=(1.0, 1.0))
    with pytest.raises(ValueError, match="nothing has a direction"):
        jvp(f, x, None, t, cond_directions=(None,))
    with pytest.raises(
        ValueError, match=r"one number for all: use e.g. `torch.full\(\(4,\), t\)`"
    ):
        jvp(lambda x, t: x * t, x, v, 0.5, cond_directions=(1.0,))
    with pytest.raises(TypeError, match=r"type torch.int64 has no derivative"):
        jvp(f, x, v, torch.arange(4), cond_directions=(1.0,))
    with pytest.raises(ValueError, match=r"must have this shape, but has \(4, 1\)"):
        jvp(f, x, v, t, cond_directions=(t[:, None],))
    with pytest.raises(TypeError, match=r"must be torch.float64 on cpu"):
        jvp(f, x, v.float(), t)
    with pytest.raises(ValueError, match=r"\(4, 3\) must have this shape, but has \(4, 2\)"):
        jet(f, x, v[:, :2], 2, t)
