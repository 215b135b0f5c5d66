"""Curvature passed back through layers: exact where it should be, unbiased, or biased as known."""

import pytest
import torch
from torch import Generator, Tensor, nn
from torch.nn.utils.parametrizations import spectral_norm

from fdsm.derivatives import score_of
from fdsm.objectives import SM, ApproximateBackprop, CurvaturePropagation
from fdsm.typing import is_additive_coupling


class Coupling(nn.Module):
    """A network of one half is added to the other. `first`: whether the first half is kept."""

    def __init__(self, d: int, first: bool, width: int = 8) -> None:
        super().__init__()
        self.first = first
        self.shift = nn.Sequential(
            nn.Linear(d // 2, width), nn.Softplus(), nn.Linear(width, d // 2)
        )

    def split(self, x: Tensor) -> tuple[Tensor, Tensor]:
        a, b = x.chunk(2, 1)
        return (a, b) if self.first else (b, a)

    def merge(self, kept: Tensor, shifted: Tensor) -> Tensor:
        return torch.cat([kept, shifted] if self.first else [shifted, kept], 1)

    def forward(self, x: Tensor) -> Tensor:
        kept, shifted = self.split(x)
        return self.merge(kept, shifted + self.shift(kept))


class Scale(nn.Module):
    elementwise = True

    def __init__(self, d: int) -> None:
        super().__init__()
        self.log_scale = nn.Parameter(0.3 * torch.randn(d))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.log_scale.exp()


class StandardNormal(nn.Module):
    elementwise = True

    def forward(self, x: Tensor) -> Tensor:
        return -x.square() / 2


def nice(d: int = 6) -> nn.Sequential:
    couplings = [Coupling(d, first) for first in (True, False, True, False)]
    return nn.Sequential(*couplings, Scale(d), StandardNormal())


def mlp(depth: int) -> nn.Sequential:
    hidden = [layer for _ in range(depth - 1) for layer in (nn.Linear(12, 12), nn.SiLU())]
    return nn.Sequential(nn.Linear(6, 12), nn.Softplus(), *hidden, nn.Linear(12, 1))


def convolutional() -> nn.Sequential:
    return nn.Sequential(
        nn.Unflatten(1, (1, 2, 3)), nn.Conv2d(1, 4, 2), nn.Tanh(), nn.Flatten(), nn.Linear(8, 1)
    )


def total(layers: nn.Sequential) -> nn.Module:
    class Total(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return layers(x).flatten(1).sum(1)

    return Total()


def parameter_gradient(loss: Tensor, layers: nn.Sequential) -> Tensor:
    gradients = torch.autograd.grad(
        loss, list(layers.parameters()), allow_unused=True, materialize_grads=True
    )
    return torch.cat([g.flatten() for g in gradients])


@pytest.mark.parametrize("make", [lambda: mlp(1), convolutional], ids=["mlp", "convolutional"])
def test_approximate_backprop_is_exact_for_one_hidden_layer(
    make: type, generator: Generator
) -> None:
    layers, x = make(), torch.randn(5, 6, generator=generator)
    approximate, exact = ApproximateBackprop()(layers, x), SM()(total(layers), x)
    torch.testing.assert_close(approximate, exact)
    torch.testing.assert_close(
        parameter_gradient(approximate.mean(), layers), parameter_gradient(exact.mean(), layers)
    )


@pytest.mark.parametrize("make", [lambda: mlp(3), nice], ids=["mlp", "nice"])
def test_approximate_backprop_is_biased_for_deep_networks(
    make: type, generator: Generator
) -> None:
    layers, x = make(), torch.randn(5, 6, generator=generator)
    approximate, exact = ApproximateBackprop()(layers, x), SM()(total(layers), x)
    assert 1e-4 < (approximate - exact).norm() / exact.norm() < 0.5


def test_approximate_backprop_ignores_only_off_diagonal_terms(generator: Generator) -> None:
    """Two hidden layers by hand: `h = Σ W1² (g φ'' + φ'² Σ W2² (…))`."""
    layers, x = mlp(2), torch.randn(5, 6, generator=generator)
    first, act1, second, act2, last = layers
    a1 = first(x).detach().requires_grad_()
    a2 = second(act1(a1)).detach().requires_grad_()

    def derivatives(act: nn.Module, a: Tensor) -> tuple[Tensor, Tensor]:
        (slope,) = torch.autograd.grad(act(a).sum(), a, create_graph=True)
        return slope, torch.autograd.grad(slope.sum(), a)[0]

    (s1, b1), (s2, b2) = derivatives(act1, a1), derivatives(act2, a2)
    g2 = last.weight * s2
    h2 = last.weight * b2
    g1 = (g2 @ second.weight) * s1
    h1 = (g2 @ second.weight) * b1 + (h2 @ second.weight**2) * s1**2
    g, h = g1 @ first.weight, h1 @ first.weight**2
    expected = (h.sum(1) + g.square().sum(1) / 2) / 6
    torch.testing.assert_close(ApproximateBackprop()(layers, x), expected)


@pytest.mark.parametrize(
    "make", [lambda: mlp(3), nice, convolutional], ids=["mlp", "nice", "convolutional"]
)
def test_curvature_propagation_is_unbiased_at_any_depth(make: type, generator: Generator) -> None:
    layers, x = make(), torch.randn(4, 6, generator=generator)
    exact = SM()(total(layers), x)
    losses, gradients = [], []
    for _ in range(100):
        loss = CurvaturePropagation()(layers, x.repeat(100, 1), generator=generator)
        losses.append(loss.detach().view(100, 4).mean(0))
        gradients.append(parameter_gradient(loss.mean(), layers))
    for sample, truth in (
        (torch.stack(losses), exact),
        (torch.stack(gradients), parameter_gradient(exact.mean(), layers)),
    ):
        error = (sample.mean(0) - truth) / (sample.std(0) / len(sample) ** 0.5 + 1e-12)
        assert error.abs().max() < 5
        assert error.norm() < 1.5 * error.numel() ** 0.5


class Negative(nn.Module):
    elementwise = True

    def forward(self, x: Tensor) -> Tensor:
        return -x


@pytest.mark.parametrize("make", [lambda: mlp(3), nice], ids=["mlp", "nice"])
def test_gradient_is_exact_at_any_depth(make: type, generator: Generator) -> None:
    """Negating the density flips the curvature, so the two losses add up to `‖g‖²/d`.

    The published code used the rules of one half of a coupling for both: 25 % off.
    """
    layers, x = make(), torch.randn(5, 6, generator=generator)
    both = ApproximateBackprop()(layers, x) + ApproximateBackprop()([layers, Negative()], x)
    expected = score_of(total(layers))(x).square().sum(1) / 6
    torch.testing.assert_close(both, expected)


def test_couplings_are_recognized_by_their_attributes() -> None:
    assert [is_additive_coupling(layer) for layer in nice()] == [True] * 4 + [False] * 2


class Residual(nn.Sequential):
    def forward(self, x: Tensor) -> Tensor:
        return x + super().forward(x)


class NotElementwise(nn.Module):
    elementwise = False

    def forward(self, x: Tensor) -> Tensor:
        return x.cumsum(1)


def test_no_graph_is_kept_without_gradients() -> None:
    with torch.no_grad():
        assert not ApproximateBackprop()(mlp(2), torch.ones(2, 6)).requires_grad


@pytest.mark.parametrize(
    "layer",
    [
        nn.AvgPool1d(2),
        nn.Softmax(1),
        nn.ReLU(),
        NotElementwise(),
        Residual(nn.Linear(6, 6)),
        spectral_norm(nn.Linear(6, 6)),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_layers_without_a_rule_are_refused(layer: nn.Module) -> None:
    for layers in (
        ([layer.double()], layer) if isinstance(layer, nn.Sequential) else ([layer.double()],)
    ):
        with pytest.raises(TypeError, match=f"of {type(layer).__name__}.*elementwise = True"):
            CurvaturePropagation()(layers, torch.ones(2, 6))
