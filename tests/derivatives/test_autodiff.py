"""Autodiff is exact, shares its first gradient and keeps nothing it should not."""

import pytest
import torch
from torch import Generator, Tensor, nn

from fdsm.derivatives import Autodiff, Taylor, WrongGradientWarning, score_of
from tests.oracles import wiggle


@pytest.mark.parametrize("order", range(1, 7))
def test_exact_at_any_order(order: int, generator: Generator) -> None:
    f = wiggle(4)
    x, v = torch.randn(2, 6, 1, 2, 2, generator=generator)
    for k, term in enumerate(Autodiff().jet(f, x, v, order)):
        torch.testing.assert_close(term, f.derivative(x, v, k))


def test_sum_of_curvatures_along_the_basis_is_the_laplacian(generator: Generator) -> None:
    f = wiggle(4)
    x = torch.randn(6, 4, generator=generator)
    basis = torch.eye(4)[:, None].expand(4, 6, 4)
    slopes, laplacian = Autodiff().sliced(f, x, basis)
    hessians = [torch.autograd.functional.hessian(lambda x: f(x[None])[0], row) for row in x]
    torch.testing.assert_close(laplacian, torch.stack([h.trace() for h in hessians]))
    torch.testing.assert_close(slopes.T, score_of(f)(x))


class Backwards(torch.autograd.Function):
    """The identity, counting how often a gradient passes."""

    count = 0

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, g: Tensor) -> Tensor:
        Backwards.count += 1
        return g


@pytest.mark.parametrize("several", [1, 4])
def test_first_gradient_is_taken_once(several: int, generator: Generator) -> None:
    x, v = torch.randn(5, 3, generator=generator), torch.randn(several, 5, 3, generator=generator)
    calls: list[int] = []

    def f(x: Tensor) -> Tensor:
        calls.append(len(x))
        return Backwards.apply(x).pow(3).sum(1)

    with torch.no_grad():
        for _ in range(3):  # the first and second evaluation are inspected
            Backwards.count, calls = 0, []
            Autodiff().sliced(f, x, v)
    assert calls == [5]
    assert Backwards.count == 1 + several


def test_linear_functions_have_no_curvature() -> None:
    x, v = torch.ones(2, 3), torch.ones(2, 3)
    linear = Autodiff().jet(lambda x: 2 * x.sum(1), x, v, 3)
    assert [term.tolist() for term in linear] == [[6, 6], [6, 6], [0, 0], [0, 0]]


def test_models_without_gradients_are_refused() -> None:
    x = torch.ones(2, 3)
    frozen = torch.no_grad()(lambda x: x.square().sum(1))
    for call in (
        lambda: Autodiff().jet(frozen, x, x, 1),
        lambda: Autodiff().sliced(frozen, x, x[None]),
        lambda: Autodiff().quadratic(lambda x: torch.ones_like(x), x, x),
        lambda: score_of(frozen)(x),
    ):
        with pytest.raises(ValueError, match="evaluated without gradients"):
            call()
    with torch.inference_mode(), pytest.raises(RuntimeError, match="inference mode"):
        Autodiff().jet(lambda x: x.square().sum(1), x, x, 1)


def test_no_graph_where_gradients_are_off(generator: Generator) -> None:
    net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1), nn.Flatten(0))
    x, v = torch.randn(2, 5, 3, generator=generator)
    expected = Autodiff().jet(net, x, v, 2)
    with torch.no_grad():
        actual = Autodiff().jet(net, x, v, 2)
        score = score_of(net)(x)
    assert all(term.requires_grad for term in expected)
    assert not any(term.requires_grad for term in (*actual, score))
    torch.testing.assert_close(actual, tuple(term.detach() for term in expected))


def test_works_inside_autocast(generator: Generator) -> None:
    net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1), nn.Flatten(0)).float()
    x, v = torch.randn(2, 5, 3, generator=generator).float()
    exact = Autodiff().jet(net, x, v, 2)[2]
    with torch.autocast("cpu", torch.bfloat16):
        rough = Autodiff().jet(net, x, v, 2)[2]
    assert not torch.equal(rough, exact)
    assert (rough - exact).norm() < 0.1 * exact.norm()


@pytest.mark.parametrize("norm", [nn.LayerNorm(6, elementwise_affine=False), nn.InstanceNorm1d(1)])
def test_warns_of_norms_that_torch_differentiates_wrongly(
    norm: nn.Module, generator: Generator
) -> None:
    """With one channel, both centre each row and divide it by its standard deviation.

    If this fails because `Autodiff` is right, PyTorch has been repaired and the warning can go.
    """
    w = torch.randn(6, 6, generator=generator, requires_grad=True)
    x, v = torch.randn(2, 4, 6, generator=generator)

    def by_torch(x: Tensor) -> Tensor:
        return norm((x @ w)[:, None]).tanh().sum((1, 2))

    def by_hand(x: Tensor) -> Tensor:
        h = x @ w
        centred = h - h.mean(1, keepdim=True)
        return (centred / (centred.square().mean(1, keepdim=True) + 1e-5).sqrt()).tanh().sum(1)

    with pytest.warns(WrongGradientWarning, match=r"Norm.* wrongly.*Taylor\(\)"):
        *_, wrong = Autodiff().jet(by_torch, x, v, 2)
    with pytest.warns(WrongGradientWarning):
        Autodiff().sliced(by_torch, x, v[None])
    *_, right = Autodiff().jet(by_hand, x, v, 2)
    *_, taylor = Taylor().jet(by_torch, x, v, 2)
    torch.testing.assert_close(wrong, right)
    torch.testing.assert_close(taylor, right)
    slopes = [torch.autograd.grad(y.sum(), w)[0] for y in (wrong, taylor, right)]
    torch.testing.assert_close(slopes[1], slopes[2])
    assert (slopes[0] - slopes[2]).norm() > 1e-3 * slopes[2].norm()
    with torch.no_grad():
        Autodiff().jet(by_torch, x, v, 2)  # nothing to train, nothing to warn of
    Autodiff().jet(by_torch, x, v, 1)
