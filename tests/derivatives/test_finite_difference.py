"""Finite differences converge at the promised rate, from the promised number of evaluations."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Generator, Tensor, nn

from fdsm.derivatives import Autodiff, FiniteDifference
from tests.oracles import wiggle


class Counted:
    """A callable that records the rows of every call."""

    def __init__(self, f: Callable[..., Tensor]) -> None:
        self.f, self.rows = f, []

    def __call__(self, x: Tensor, *cond: Tensor) -> Tensor:
        self.rows.append(len(x))
        return self.f(x, *cond)


def unit(shape: tuple[int, ...], generator: Generator) -> Tensor:
    v = torch.randn(shape, generator=generator)
    return v / v.flatten(1).norm(dim=1).view(-1, *[1] * (v.ndim - 1))


def rate(steps: list[float], errors: list[float]) -> float:
    return float(np.polyfit(np.log(steps), np.log(errors), 1)[0])


@pytest.mark.parametrize("accuracy", [2, 4, 6])
@pytest.mark.parametrize("order", range(1, 9))
@pytest.mark.parametrize("parallel", [True, False])
def test_order_of_convergence(
    order: int, accuracy: int, parallel: bool, generator: Generator
) -> None:
    f, engine = wiggle(), FiniteDifference(parallel, accuracy)
    x, v = torch.randn(6, 3, generator=generator), unit((6, 3), generator)
    exact = f.derivative(x, v, order)
    steps = [0.8 / 2 ** (k / 2) for k in range(4)]
    errors = []
    for h in steps:
        approximate = engine.jet(f, x, h * v, order)[order] / h**order
        errors.append((approximate - exact).norm().item())
    assert rate(steps, errors) == pytest.approx(accuracy, abs=0.2)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_jet_holds_all_lower_orders(order: int, generator: Generator) -> None:
    f = wiggle()
    x, v = torch.randn(6, 3, generator=generator), unit((6, 3), generator)
    jet = FiniteDifference(accuracy=6).jet(f, x, 0.02 * v, order)
    assert len(jet) == order + 1
    for k, term in enumerate(jet):
        torch.testing.assert_close(
            term / 0.02**k,
            f.derivative(x, v, k) + (f.offset if k == 0 else 0),
            rtol=1e-5,
            atol=1e-5,
        )


def test_sliced_is_the_jet_along_every_direction(generator: Generator) -> None:
    f = wiggle(12)
    x = torch.randn(5, 3, 2, 2, generator=generator)
    v = 0.1 * torch.randn(4, 5, 3, 2, 2, generator=generator)
    for engine in (FiniteDifference(), FiniteDifference(accuracy=4), Autodiff()):
        jets = [engine.jet(f, x, u, 2) for u in v]
        slopes, curvature = engine.sliced(f, x, v)
        torch.testing.assert_close(slopes, torch.stack([jet[1] for jet in jets]))
        torch.testing.assert_close(curvature, sum(jet[2] for jet in jets))


@pytest.mark.parametrize("engine", [FiniteDifference(accuracy=6), Autodiff()])
def test_quadratic_form_of_a_jacobian_that_is_not_symmetric(
    engine: FiniteDifference | Autodiff, generator: Generator
) -> None:
    matrix = torch.randn(3, 3, generator=generator)
    x, v = torch.randn(2, 5, 3, generator=generator)
    score = lambda x: (x @ matrix.T).tanh()
    s, curvature = engine.quadratic(score, x, 1e-2 * v)
    slope = 1 - score(x).square()
    expected = torch.einsum("bi,bi,ij,bj->b", v, slope, matrix, v)
    torch.testing.assert_close(s, score(x), rtol=0, atol=1e-7)
    torch.testing.assert_close(curvature / 1e-4, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("chunk", [None, 1, 4, 1000])
@pytest.mark.parametrize("parallel", [True, False])
def test_ways_of_evaluating_agree(parallel: bool, chunk: int | None, generator: Generator) -> None:
    net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1), nn.Flatten(0))
    x, v = torch.randn(2, 5, 3, generator=generator)
    engines = FiniteDifference(), FiniteDifference(parallel, chunk=chunk)
    results = []
    for engine in engines:
        slopes, curvature = engine.sliced(net, x, v[None])
        loss = (slopes.sum(0) + curvature.square()).sum()
        results.append((slopes, curvature, *torch.autograd.grad(loss, list(net.parameters()))))
    torch.testing.assert_close(*results, rtol=1e-10, atol=1e-10)


def rows_of_third_call(call: Callable[[Counted], object], f: Callable[..., Tensor]) -> list[int]:
    """Return the rows per call of the model; the first and second evaluation are inspected."""
    counted = Counted(f)
    for _ in range(3):
        counted.rows = []
        call(counted)
    return counted.rows


@pytest.mark.parametrize("several", [1, 3])
def test_number_of_evaluations(several: int, generator: Generator) -> None:
    x, v = torch.randn(2, 5, 3, generator=generator)
    square, score = lambda x: x.square().sum(1), lambda x: -x
    directions = v.expand(several, 5, 3)
    for order, points in ((1, 2), (2, 3), (5, 6)):
        jet = lambda f, order=order: FiniteDifference().jet(f, x, v, order)
        one_by_one = lambda f, order=order: FiniteDifference(False).jet(f, x, v, order)
        assert rows_of_third_call(jet, square) == [5 * points]
        assert rows_of_third_call(one_by_one, square) == [5] * points
    for engine, expected in (
        (FiniteDifference(), [5 * (1 + 2 * several)]),
        (FiniteDifference(parallel=False), [5] * (1 + 2 * several)),
    ):
        sliced = lambda f, engine=engine: engine.sliced(f, x, directions)
        assert rows_of_third_call(sliced, square) == expected
    quadratic = lambda f: FiniteDifference().quadratic(f, x, v)
    assert rows_of_third_call(quadratic, score) == [10]


def test_inspections_double_their_distance(generator: Generator) -> None:
    x, v = torch.randn(2, 5, 3, generator=generator)
    f, calls = Counted(lambda x: x.square().sum(1)), []
    for _ in range(40):
        f.rows = []
        FiniteDifference().jet(f, x, v, 2)
        calls.append(len(f.rows))
    assert [k + 1 for k, count in enumerate(calls) if count > 1] == [1, 2, 4, 8, 16, 32]


def test_chunks_bound_the_rows_of_a_call(generator: Generator) -> None:
    f = Counted(lambda x: x.square().sum(1))
    x, v = torch.randn(2, 5, 3, generator=generator)
    with torch.no_grad():
        FiniteDifference(chunk=4).jet(f, x, v, 2)
        assert f.rows[-4:] == [4, 4, 4, 3]
        assert max(f.rows) == 5  # an inspection takes the batch itself
        third = rows_of_third_call(lambda f: FiniteDifference(chunk=4).jet(f, x, v, 2), f.f)
    assert third == [4, 4, 4, 3]


def saved_bytes(result: Callable[[], Tensor], net: nn.Module) -> int:
    """Return the bytes that a result saves for backward, without the weights of a network."""
    weights = {p.data_ptr() for p in net.parameters()}
    kept: dict[int, int] = {}

    def pack(t: Tensor) -> Tensor:
        if t.data_ptr() not in weights:
            kept[t.data_ptr()] = t.numel() * t.element_size()
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        assert result().requires_grad
    return sum(kept.values())


def test_chunks_bound_what_the_backward_pass_keeps(generator: Generator) -> None:
    net = nn.Sequential(nn.Linear(3, 256), nn.Tanh(), nn.Linear(256, 1), nn.Flatten(0))
    x, v = torch.randn(2, 64, 3, generator=generator)
    v = 0.1 * v
    whole = saved_bytes(lambda: FiniteDifference().jet(net, x, v, 2)[2], net)
    chunked = saved_bytes(lambda: FiniteDifference(chunk=16).jet(net, x, v, 2)[2], net)
    assert whole > 3 * 64 * 256 * 8
    assert chunked < whole / 20


def test_three_times_the_memory_of_a_value_and_less_than_nested_autograd(
    generator: Generator,
) -> None:
    net = nn.Sequential(
        nn.Linear(3, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 1), nn.Flatten(0)
    )
    x, v = torch.randn(2, 1, 50, 3, generator=generator)
    x, v = x[0], v / 10
    value = saved_bytes(lambda: net(x), net)
    difference = saved_bytes(lambda: FiniteDifference().sliced(net, x, v)[1], net)
    nested = saved_bytes(lambda: Autodiff().sliced(net, x, v)[1], net)
    assert difference == 3 * value + 2 * 3 * 8  # the weights of the values
    assert difference < 0.67 * nested


@pytest.mark.parametrize("engine", [FiniteDifference(), FiniteDifference(parallel=False)], ids=str)
def test_models_may_write_into_their_input(engine: FiniteDifference, generator: Generator) -> None:
    weight = torch.ones(3, requires_grad=True)
    x, v = torch.randn(5, 3, generator=generator), torch.full((2, 5, 3), 0.1)
    _, curvature = engine.sliced(lambda x: (weight * x.mul_(2)).square().sum(1), x, v)
    curvature.sum().backward()  # Σ_v 8 w² v²
    torch.testing.assert_close(weight.grad, torch.full((3,), 2 * 5 * 8 * 2 * 0.01))


@pytest.mark.parametrize("directions", [1, 2])
def test_points_have_the_memory_layout_of_the_data(directions: int, generator: Generator) -> None:
    x = torch.randn(2, 3, 4, 5, generator=generator).to(memory_format=torch.channels_last)
    layouts: list[bool] = []

    def f(x: Tensor) -> Tensor:
        layouts.append(x.is_contiguous(memory_format=torch.channels_last))
        return x.square().sum((1, 2, 3))

    FiniteDifference().sliced(f, x, 0.1 * torch.ones(directions, 2, 3, 4, 5))
    assert layouts[-1]


def test_chunks_can_be_differentiated_again(generator: Generator) -> None:
    net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1), nn.Flatten(0))
    x, v = torch.randn(2, 5, 3, generator=generator)
    results = []
    for chunk in (None, 4):
        leaf = x.clone().requires_grad_()
        curvature = FiniteDifference(chunk=chunk).jet(net, leaf, v, 2)[2].sum()
        (first,) = torch.autograd.grad(curvature, leaf, create_graph=True)
        (second,) = torch.autograd.grad(first.square().sum(), net[0].weight, retain_graph=True)
        results.append((first, second, torch.autograd.grad(curvature, net[0].weight)[0]))
    torch.testing.assert_close(*results, rtol=1e-9, atol=1e-9)


def test_condition_follows_its_row(generator: Generator) -> None:
    x, v = torch.randn(2, 5, 3, generator=generator)
    level = torch.arange(1.0, 6.0)[:, None]
    score = lambda x, level: -x / level
    density = lambda x, level: -(x.square() / level).sum(1) / 2
    expected = -(v.square() / level).sum(1)
    for engine in (FiniteDifference(), FiniteDifference(False), FiniteDifference(chunk=2)):
        torch.testing.assert_close(engine.quadratic(score, x, v, level)[1], expected)
        torch.testing.assert_close(engine.jet(density, x, v, 2, level)[2], expected)
        torch.testing.assert_close(engine.sliced(density, x, v[None], level)[1], expected)


def test_caller_keeps_its_tensors(generator: Generator) -> None:
    x, v = torch.randn(2, 5, 3, generator=generator)
    net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1), nn.Flatten(0))
    v = 0.1 * v
    before = x.clone(), v.clone()
    for engine in (FiniteDifference(), Autodiff()):
        engine.sliced(net, x, v[None])[1].sum().backward()
        engine.jet(net, x, v, 3)[3].sum().backward()
        engine.quadratic(lambda x: x.sin(), x, v)
    assert torch.equal(x, before[0])
    assert torch.equal(v, before[1])
    assert (x.grad_fn, x.grad, x.requires_grad) == (None, None, False)
    assert x._version == v._version == 0


def test_gradient_reaches_data_that_ask_for_it(generator: Generator) -> None:
    x, v = torch.randn(2, 5, 3, generator=generator)
    gradients = []
    for engine in (FiniteDifference(accuracy=6), Autodiff()):
        leaf = x.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(
            engine.jet(wiggle(), 2 * leaf, 0.1 * v, 2)[2].sum(), leaf
        )
        gradients.append(gradient)
    torch.testing.assert_close(*gradients, rtol=1e-3, atol=1e-6)
