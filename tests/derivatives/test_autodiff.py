"""Autodiff is exact, shares its first gradient and keeps nothing it should not."""

from collections.abc import Callable

import pytest
import torch
from torch import Generator, Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import CheckpointError, checkpoint

from fdsm.derivatives import Autodiff, Taylor, WrongGradientWarning, score_of
from fdsm.evaluation import exact_sm_loss_of_score
from fdsm.objectives import DSM, SM, SSM, SSMVR, SlicedDSM, ViaScore
from fdsm.typing import Objective
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
        with pytest.raises(ValueError, match=r"evaluated without gradients"):
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


def standardized(h: Tensor) -> Tensor:
    centered = h - h.mean(-1, keepdim=True)
    return centered / (centered.square().mean(-1, keepdim=True) + 1e-5).sqrt()


def in_channels(h: Tensor) -> Tensor:
    """Standardize each of two halves."""
    return standardized(h.view(-1, 2, 3)).flatten(1)


NORMS = {
    "LayerNorm": (nn.LayerNorm(6).double(), standardized),
    "LayerNorm without weights": (nn.LayerNorm(6, elementwise_affine=False), standardized),
    "layer_norm": (lambda h: functional.layer_norm(h, (6,)), standardized),
    "torch.layer_norm": (lambda h: torch.layer_norm(h, (6,)), standardized),
    "InstanceNorm1d": (lambda h: nn.InstanceNorm1d(2)(h.view(-1, 2, 3)).flatten(1), in_channels),
    "InstanceNorm1d, tracking": (
        lambda h: nn.InstanceNorm1d(2, track_running_stats=True)(h.view(-1, 2, 3)).flatten(1),
        in_channels,
    ),
    "instance_norm": (
        lambda h: functional.instance_norm(h.view(-1, 2, 3), weight=torch.ones(2)).flatten(1),
        in_channels,
    ),
    "GroupNorm": (nn.GroupNorm(2, 6).double(), in_channels),
}


@pytest.mark.parametrize("name", NORMS)
def test_gradients_through_norms_are_right(name: str, generator: Generator) -> None:
    """PyTorch's own third derivatives through these norms are wrong (or refused, from 2.15)."""
    norm, by_hand = NORMS[name]
    w = torch.randn(6, 6, generator=generator, requires_grad=True)
    x, v = torch.randn(2, 4, 6, generator=generator)
    results = []
    for normalize in (norm, by_hand):
        density = lambda x, normalize=normalize: normalize(x @ w).tanh().sum(1)
        losses = (
            Autodiff().jet(density, x, v, 2)[2],
            SSM(Autodiff()).at(density, x, v),
            ViaScore(SSMVR(Autodiff()))(density, x, generator=Generator().manual_seed(1)),
            SSMVR(Autodiff()).at(score_of(density), x, v),
        )
        gradients = [torch.autograd.grad(loss.sum(), w, retain_graph=True)[0] for loss in losses]
        results.append((*losses, *gradients))
    torch.testing.assert_close(*results, rtol=1e-10, atol=1e-10)


def test_running_statistics_of_a_decomposed_norm_are_updated(generator: Generator) -> None:
    norms = [nn.InstanceNorm1d(2, track_running_stats=True) for _ in range(2)]
    x, v = torch.randn(2, 4, 6, generator=generator)
    Autodiff().jet(lambda x: norms[0](x.view(-1, 2, 3)).tanh().sum((1, 2)), x, v, 2)
    norms[1](x.view(-1, 2, 3))
    torch.testing.assert_close(norms[0].running_mean, norms[1].running_mean)
    torch.testing.assert_close(norms[0].running_var, norms[1].running_var)


@pytest.mark.filterwarnings("ignore:`torch.jit")
def test_warns_once_of_a_scripted_norm(generator: Generator) -> None:
    net = nn.Sequential(
        nn.Linear(6, 6), nn.LayerNorm(6), nn.Tanh(), nn.Linear(6, 1), nn.Flatten(0)
    )
    x, v = torch.randn(2, 4, 6, generator=generator)
    for f in (torch.jit.script(net), torch.jit.trace(net, x)):
        for _ in range(3):
            f(x).sum().backward()  # later graphs show only that there is a script
        with pytest.warns(
            WrongGradientWarning, match=r"layer or instance norm.*Taylor\(\).*once per"
        ):
            Autodiff().jet(f, x, v, 2)
        Autodiff().sliced(f, x, v[None])
        with torch.no_grad():
            Autodiff().jet(f, x, v, 2)
    scripted = torch.jit.script(net)
    Autodiff().jet(scripted, x, v, 1)  # first derivatives and their gradients are right


def test_checkpointed_norms_are_right_or_refused(generator: Generator) -> None:
    net = nn.Sequential(
        nn.Linear(6, 6), nn.LayerNorm(6), nn.Tanh(), nn.Linear(6, 1), nn.Flatten(0)
    )
    x, v = torch.randn(2, 4, 6, generator=generator)
    expected = torch.autograd.grad(Autodiff().jet(net, x, v, 2)[2].sum(), net[0].weight)
    with pytest.raises(CheckpointError, match="different number of tensors"):
        torch.autograd.grad(
            Autodiff().jet(lambda x: checkpoint(net, x, use_reentrant=False), x, v, 2)[2].sum(),
            net[0].weight,
        )
    assert expected[0].norm() > 0


def detached_score(net: nn.Module) -> Callable[[Tensor], Tensor]:
    def score(x: Tensor) -> Tensor:
        z = x.detach().requires_grad_()
        return torch.autograd.grad(net(z).sum(), z, create_graph=True)[0]

    return score


@pytest.mark.parametrize("gradients", [True, False])
def test_models_that_detach_their_input_are_refused(gradients: bool, generator: Generator) -> None:
    net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1), nn.Flatten(0))
    detached, score = lambda x: net(x.detach()), detached_score(net)
    x, v = torch.randn(2, 5, 3, generator=generator)
    with torch.set_grad_enabled(gradients):
        for call in (
            lambda: Autodiff().jet(detached, x, v, 1),
            lambda: Autodiff().jet(detached, x, v, 2),
            lambda: Autodiff().sliced(detached, x, v[None]),
            lambda: Autodiff().quadratic(score, x, v),
            lambda: score_of(detached)(x),
            lambda: DSM(0.1)(detached, x, generator=generator),
            lambda: SSM(Autodiff())(detached, x, generator=generator),
            lambda: SM(Autodiff())(detached, x),
            lambda: exact_sm_loss_of_score(score, x),
        ):
            with pytest.raises(ValueError, match=r"does not depend on its input.*detach\(\)"):
                call()


class Unrecorded(torch.autograd.Function):
    """The cube, whose backward pass is not recorded."""

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, g: Tensor) -> Tensor:
        with torch.no_grad():
            return 3 * ctx.saved_tensors[0] ** 2 * g


class Recorded(Unrecorded):
    """The cube, whose backward pass is recorded."""

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, g: Tensor) -> Tensor:
        return 3 * ctx.saved_tensors[0] ** 2 * g


class Leaky(Unrecorded):
    """A leaky ReLU, with a kink at zero."""

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return torch.where(x > 0, x, 0.1 * x)

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, g: Tensor) -> Tensor:
        return torch.where(ctx.saved_tensors[0] > 0, g, 0.1 * g)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("offset", [0.0, 1000.0])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_backward_passes_that_are_not_recorded_are_refused(
    dtype: torch.dtype, offset: float, scale: float, generator: Generator
) -> None:
    torch.set_default_dtype(dtype)
    x, v = (t.to(dtype) for t in torch.randn(2, 16, 3, generator=generator))

    def density(cube: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        w = torch.ones((), requires_grad=True)
        return lambda x: cube(w * x / scale).sum(1) + offset

    bad, good, kinked = (density(c.apply) for c in (Unrecorded, Recorded, Leaky))
    for call in (
        lambda f: Autodiff().jet(f, scale * x, v, 1),
        lambda f: Autodiff().jet(f, scale * x, v, 2),
        lambda f: Autodiff().sliced(f, scale * x, v[None]),
        lambda f: score_of(f)(scale * x),
    ):
        for _ in range(3):
            with pytest.raises(RuntimeError, match="backward pass that autograd does not record"):
                call(bad)
        call(good)
        call(kinked)
    expected = 6 * x * v.square() / scale**2
    torch.testing.assert_close(
        Autodiff().jet(good, scale * x, v, 2)[2].detach(), expected.sum(1), rtol=1e-3, atol=0
    )


class FusedAttention(nn.Module):
    """A density with fused attention between the coordinates."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(1, 4), nn.Linear(4, 1)

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x[..., None])[:, None]
        mixed = nn.functional.scaled_dot_product_attention(h, h, h)
        return self.last(mixed.tanh()).sum((1, 2, 3))


COMPILED = lambda: torch.compile(
    nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1), nn.Flatten(0)), backend="aot_eager"
)


@pytest.mark.filterwarnings("ignore")  # of the compiler
@pytest.mark.parametrize("build", [FusedAttention, COMPILED], ids=["attention", "compiled"])
@pytest.mark.parametrize("objective", [SSM(Autodiff()), SlicedDSM(0.1, Autodiff()), DSM(0.1)])
def test_models_without_a_double_backward(
    objective: Objective, build: Callable[[], nn.Module], generator: Generator
) -> None:
    """The error says what to do, at each attempt, and that works."""
    torch.compiler.reset()
    x, model = torch.randn(4, 3, generator=generator), build()
    for _ in range(3):
        with pytest.raises(RuntimeError, match=r"use Taylor\(\)"):
            objective(model, x).mean().backward()
    SSM(Taylor())(model, x).mean().backward()
    assert (
        model.get_parameter("first.weight" if build is FusedAttention else "0.weight").grad
        is not None
    )
