"""Random networks of all kinds of layers agree with autodiff."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from fdsm.derivatives import Autodiff
from fdsm.derivatives.taylor import Taylor
from tests.derivatives.taylor.agreement import assert_agrees

WIDTH, LENGTH = 4, 3


class Parameters:
    """Parameters of a network, created on first use."""

    def __init__(self) -> None:
        self.made: list[Tensor] = []
        self.used = 0

    def __call__(self, *shape: int) -> Tensor:
        if self.used == len(self.made):
            generator = torch.Generator().manual_seed(self.used)
            w = torch.randn(shape, generator=generator, dtype=torch.float64) / shape[-1] ** 0.5
            self.made.append(w.requires_grad_())
        self.used += 1
        return self.made[self.used - 1]


Layer = Callable[[Tensor, Parameters], Tensor]
"""From `(B, WIDTH, LENGTH)` to the same shape."""


def by(activation: Callable[[Tensor], Tensor]) -> Layer:
    return lambda x, w: activation(x)


def dense(x: Tensor, w: Parameters) -> Tensor:
    return functional.linear(x, w(LENGTH, LENGTH), w(LENGTH))


def mixed(x: Tensor, w: Parameters) -> Tensor:
    return w(WIDTH, WIDTH) @ x


def convolved(x: Tensor, w: Parameters) -> Tensor:
    return functional.conv1d(x, w(WIDTH, WIDTH, 3), w(WIDTH), padding=1)


def grouped(x: Tensor, w: Parameters) -> Tensor:
    padded = functional.pad(x, (1, 1), mode="circular")
    return functional.conv1d(padded, w(WIDTH, 1, 3), w(WIDTH), groups=WIDTH)


def residual(x: Tensor, w: Parameters) -> Tensor:
    return x + 0.5 * dense(x, w).tanh()


def in_place(x: Tensor, w: Parameters) -> Tensor:
    y = dense(x, w)
    y += x
    y[:, 0] = x[:, 1] * x[:, 2]
    return y.mul_(0.7)


def gated(x: Tensor, w: Parameters) -> Tensor:
    a, b = dense(x.repeat(1, 2, 1), w).chunk(2, dim=1)
    return a * b.sigmoid()


def quotient(x: Tensor, w: Parameters) -> Tensor:
    return x / (1.5 + w(WIDTH, 1).square() + x.square())


def normalized(x: Tensor, w: Parameters) -> Tensor:
    centered = x - x.mean((1, 2), keepdim=True)
    variance = centered.square().mean((1, 2), keepdim=True)
    return w(WIDTH, 1) * centered * (variance + 0.1).rsqrt()


def attended(x: Tensor, w: Parameters) -> Tensor:
    q, k, v = (w(WIDTH, WIDTH) @ x for _ in range(3))
    scores = torch.einsum("bct,bcs->bts", q, k) / 2
    weights = (scores - scores.detach().amax(-1, keepdim=True)).exp()
    weights = weights / weights.sum(-1, keepdim=True)
    return torch.einsum("bts,bcs->bct", weights, v)


def shuffled(x: Tensor, w: Parameters) -> Tensor:
    return x.reshape(len(x), LENGTH, WIDTH).transpose(1, 2).flip(1)


def halves(x: Tensor, w: Parameters) -> Tensor:
    a, b = x.split([1, WIDTH - 1], dim=1)
    return torch.cat([b.sin(), a * w(1, 1)], 1)


def masked(x: Tensor, w: Parameters) -> Tensor:
    return torch.where(x > 0.1, x.square() + 0.1 * x, x.exp() * w(WIDTH, 1))


def powers(x: Tensor, w: Parameters) -> Tensor:
    return (1 + x.square()) ** w(WIDTH, 1).tanh() + x**3 / 10


LAYERS: list[Layer] = [
    dense, mixed, convolved, grouped, residual, in_place, gated, quotient, normalized, attended,
    shuffled, halves, masked, powers,
    by(torch.tanh), by(functional.softplus), by(functional.silu), by(functional.gelu),
    by(functional.mish), by(torch.sin), by(lambda x: functional.gelu(x, approximate="tanh")),
    by(lambda x: torch.log1p(x.square())),
]  # fmt: skip
LISTS = st.lists(st.sampled_from(range(len(LAYERS))), min_size=1, max_size=5)
few = settings(max_examples=30, derandomize=True, deadline=None, database=None)


def network(layers: list[int]) -> tuple[Callable[[Tensor], Tensor], list[Tensor]]:
    """Return a network and its parameters."""
    w = Parameters()

    def f(x: Tensor) -> Tensor:
        w.used = 0
        for k in layers:
            x = LAYERS[k](x, w)
        return (x.square() / (1 + x.square())).sum((1, 2)) + x[:, 0, 0]

    f(points())
    return f, w.made


def points() -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(2, WIDTH, LENGTH, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("layer", range(len(LAYERS)))
def test_each_layer_twice(layer: int) -> None:
    f, parameters = network([layer, layer])
    x = points()
    assert_agrees(f, x, x, *parameters, orders=(1, 2), directions=(3,))


@given(LISTS)
@few
def test_random_networks(layers: list[int]) -> None:
    f, parameters = network(layers)
    assert_agrees(f, points(), *parameters, orders=(1, 2), directions=(3,))


@given(LISTS)
@settings(few, max_examples=12)
def test_high_orders(layers: list[int]) -> None:
    f, _ = network(layers[:3])
    x = points()[:1]
    v = x.flip(1) / 4
    for found, truth in zip(Taylor().jet(f, x, v, 6), Autodiff().jet(f, x, v, 6), strict=True):
        torch.testing.assert_close(found, truth, rtol=1e-8, atol=1e-8)


@given(LISTS)
@few
def test_gradients_of_gradients(layers: list[int]) -> None:
    """A function of the gradient with respect to `x` is differentiated by the parameters."""
    f, parameters = network(layers[:3])
    x, results = points().requires_grad_(), []
    v = x.detach().flip(1)
    for engine in (Taylor(), Autodiff()):
        value, slope, curvature = engine.jet(f, x, v, 2)
        (first,) = torch.autograd.grad((slope + curvature.sin()).sum(), x, create_graph=True)
        penalty = first.square().sum() + value.sum()
        results.append((
            first,
            *torch.autograd.grad(penalty, [x, *parameters], materialize_grads=True),
        ))
    for found, truth in zip(*results, strict=True):
        scale = max(1.0, truth.detach().abs().max().item())
        torch.testing.assert_close(found, truth, rtol=1e-10, atol=1e-10 * scale)


def test_nothing_is_recorded_where_gradients_are_off() -> None:
    f, _ = network([0, 4, 10, 14])
    x, v = points(), points().flip(0)
    with torch.no_grad():
        found = Taylor().jet(f, x, v, 2)
    assert not any(term.requires_grad for term in found)
    torch.testing.assert_close(found, tuple(y.detach() for y in Taylor().jet(f, x, v, 2)))
