"""The biharmonic operator against closed forms and nested gradients."""

import importlib
import math
from collections.abc import Callable

import pytest
import torch
from torch import Generator, Tensor, nn

from fdsm.derivatives import Autodiff, FiniteDifference, MissingRule, Taylor
from fdsm.derivatives.taylor import Jet
from fdsm.operators import biharmonic, coordinates, laplacian
from fdsm.operators.coordinates import bytes_per_coefficient
from fdsm.typing import Derivative
from tests.operators.operator_cases import events, mixed, nested_laplacian

module = importlib.import_module("fdsm.operators.biharmonic")


@pytest.mark.parametrize("shape", [(), (1,), (3,), (4,), (5,), (2, 1, 2)], ids=str)
@pytest.mark.parametrize("engine", [Taylor(), Autodiff()], ids=["taylor", "autodiff"])
def test_is_the_laplacian_of_the_laplacian(
    engine: Derivative, shape: tuple[int, ...], generator: Generator
) -> None:
    x = events(shape, generator)
    expected = nested_laplacian(nested_laplacian(mixed))(x).detach()
    torch.testing.assert_close(biharmonic(mixed, x, derivative=engine).detach(), expected)
    along = biharmonic(mixed, x, derivative=engine, chunk=3).detach()
    torch.testing.assert_close(along, expected)


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
    square = x.square().sum(1)
    gaussian = (square**2 - 2 * (d + 2) * square + d * (d + 2)) * (-square / 2).exp()
    found = biharmonic(lambda x: (-x.square().sum(1) / 2).exp(), x)
    torch.testing.assert_close(found, gaussian)
    quartic = 24 * x.new_ones(4) * d + 8 * d * (d - 1)
    powers = lambda x: x.pow(4).sum(1) + x.square().sum(1).square() - x.pow(4).sum(1)
    torch.testing.assert_close(biharmonic(powers, x), quartic)


class Attention(nn.Module):
    """Attention of the coordinates to each other, with a residual and a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Linear(1, 4)
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.norm, self.last = nn.LayerNorm(4), nn.Linear(4, 1)

    def forward(self, x: Tensor) -> Tensor:
        h = self.embedding(x[..., None])
        attended: Tensor = self.last(self.norm(h + self.attention(h, h, h)[0]))
        return attended.sum((1, 2))


class Images(nn.Module):
    """A convolutional network."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 3, 2), nn.GELU(), nn.GroupNorm(1, 3), nn.Conv2d(3, 1, 2), nn.SiLU(),
            nn.Flatten(0),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        energies: Tensor = self.layers(x.view(-1, 1, 3, 3) if x.ndim == 2 else x)
        return energies


class Score(nn.Module):
    """The squared norm of a gradient that the model takes itself."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 4), nn.Softplus(), nn.Linear(4, 1))

    def forward(self, x: Tensor) -> Tensor:
        with torch.enable_grad():
            x = x.requires_grad_() if x.is_leaf and not x.requires_grad else x
            (score,) = torch.autograd.grad(self.layers(x).sum(), x, create_graph=True)
        return score.square().sum(1)


W = torch.linspace(-1, 1, 12, dtype=torch.float64).view(4, 3).sin()
FUNCTIONS: dict[str, tuple[Callable[[Tensor], Tensor], tuple[int, ...]]] = {
    "products and quotients": (lambda x: x.prod(1) / (2 + x.square().sum(1)), (3,)),
    "softmax": (lambda x: (x @ W.T).softmax(1).square().sum(1), (3,)),
    "logsumexp": (lambda x: (x @ W.T).logsumexp(1) * x[:, 0], (3,)),
    "norm": (lambda x: (x @ W.T).norm(dim=1) + torch.cdist(x[:, None], W).sum((1, 2)), (3,)),
    "einsum": (lambda x: torch.einsum("bi,ki,bj,kj->b", x, W, x.sin(), W), (3,)),
    "bmm": (lambda x: torch.bmm(x.tanh(), x.mT @ x).sum((1, 2)), (2, 2)),
    "powers": (lambda x: (x.square() + 1).pow(1.5).sum(1).log() * x.exp().sum(1).sqrt(), (3,)),
    "determinant": (lambda x: torch.logdet(x @ x.mT + torch.eye(2)), (2, 2)),
}  # fmt: skip
NETWORKS: dict[str, tuple[type[nn.Module], tuple[int, ...]]] = {
    "attention": (Attention, (3,)),
    "convolution": (Images, (1, 3, 3)),
}


def assert_one_series_suffices(f: Callable[[Tensor], Tensor], x: Tensor) -> None:
    """One series gives what series along all directions give, and its gradients.

    Errors are relative to the largest gradient. Some gradients are exactly zero, such as that of
    the keys' bias in attention, and what remains of them is rounding of the others.
    """
    inputs = [x, *f.parameters()] if isinstance(f, nn.Module) else [x]
    results = []
    for chunk in (None, 1000):
        y = biharmonic(f, x, derivative=Taylor(), chunk=chunk)
        loss = y.square().sum()
        gradients = torch.autograd.grad(loss, inputs, materialize_grads=True)
        results.append((y, torch.cat([g.flatten() for g in gradients])))
    (y, gradient), (expected_y, expected_gradient) = results
    torch.testing.assert_close(y, expected_y, rtol=1e-10, atol=1e-10)
    tolerance = 1e-11 * float(expected_gradient.abs().max())
    torch.testing.assert_close(gradient, expected_gradient, rtol=0, atol=tolerance)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str, generator: Generator) -> None:
    f, shape = FUNCTIONS[name]
    assert_one_series_suffices(f, events(shape, generator).requires_grad_())


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", NETWORKS)
def test_networks(name: str, seed: int, generator: Generator) -> None:
    network, shape = NETWORKS[name]
    torch.manual_seed(seed)
    assert_one_series_suffices(network(), events(shape, generator).requires_grad_())


def test_gradients_inside_the_model(generator: Generator) -> None:
    f, x = Score(), events((3,), generator)
    torch.testing.assert_close(biharmonic(f, x), biharmonic(f, x, derivative=Autodiff()))


def test_conditions_stay_with_their_rows(generator: Generator) -> None:
    x, c = events((3,), generator), torch.randn(4, generator=generator)
    f = lambda x, c: (c[:, None] * x).sum(1).exp()
    torch.testing.assert_close(biharmonic(f, x, c), 9 * c**4 * f(x, c))


def test_inference_mode(generator: Generator) -> None:
    model = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 1), nn.Flatten(0))
    x = events((3,), generator)
    expected = biharmonic(model, x).detach(), laplacian(model, x).detach()
    with torch.inference_mode():
        found = biharmonic(model, x.clone()), laplacian(model, x.clone())
    torch.testing.assert_close(found, expected)


def test_one_evaluation(generator: Generator) -> None:
    calls = []
    f = lambda x: calls.append(len(x)) or mixed(x)
    biharmonic(f, events((5,), generator))
    assert calls == [4]


def test_functions_without_rules(generator: Generator) -> None:
    """A rule for one direction is used, and without any rule the fallback."""
    x = events((2,), generator)
    f = lambda x: torch.mvlgamma(1 + x.square().sum(1), 1)
    expected = biharmonic(lambda x: torch.lgamma(1 + x.square().sum(1)), x)
    torch.testing.assert_close(biharmonic(f, x), expected)
    with pytest.raises(MissingRule, match="mvlgamma"):
        biharmonic(f, x, derivative=Taylor())

    def along_one(x: Tensor) -> Tensor:
        if isinstance(x, Jet) and x.truncation.directions > 1:
            raise MissingRule("several directions")
        return x.square().sum(1) ** 3

    torch.testing.assert_close(
        biharmonic(along_one, x, derivative=Taylor()), 576 * x.square().sum(1)
    )


@pytest.mark.parametrize("keep", [False, True])
def test_chunks_of_rows(keep: bool, monkeypatch: pytest.MonkeyPatch, generator: Generator) -> None:
    model = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 1), nn.Flatten(0))
    x, rows = events((3,), generator), []
    model.register_forward_pre_hook(lambda _, args: rows.append(len(args[0])))
    expected = biharmonic(model, x)
    grads = torch.autograd.grad(expected.sum(), model[0].weight)
    monkeypatch.setattr(coordinates, "MIN_CHUNK_ROWS", 1)
    size = bytes_per_coefficient(model, x, keep) * 15  # of 14, rounded up to a multiple of d + 2
    monkeypatch.setattr(coordinates, "MEMORY" if keep else "CACHE", 2 * size)
    rows.clear()
    with torch.set_grad_enabled(keep):
        found = biharmonic(model, x)
        assert rows == [2, 2]
        torch.testing.assert_close(found, expected)
        if keep:
            torch.testing.assert_close(torch.autograd.grad(found.sum(), model[0].weight), grads)
            assert rows == [2] * 4


def test_series_that_do_not_fit_into_memory(
    monkeypatch: pytest.MonkeyPatch, generator: Generator
) -> None:
    x, degrees = events((3,), generator), []
    f = lambda x: degrees.append(x.truncation.directions) or mixed(x)
    size = bytes_per_coefficient(f, x, True) * (1 + 3 + 6 + 3 + 1)
    results = []
    for most in (size, size - 1):
        monkeypatch.setattr(module, "MOST", most)
        results.append(biharmonic(f, x))
    assert degrees == [3, 1]
    torch.testing.assert_close(*results)


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
    with pytest.raises(ValueError, match=r"must return one row"):
        biharmonic(lambda x: x.square().sum(), x)
    with pytest.raises(ValueError, match="step must be a positive"):
        biharmonic(mixed, x, step=math.inf)
    with pytest.raises(ValueError, match="not finite"):
        biharmonic(mixed, x / 0)
