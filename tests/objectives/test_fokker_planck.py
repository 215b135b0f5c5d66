"""Residuals of the Fokker-Planck equation: zero for noisy data, and those of nested autograd."""

import pytest
import torch
from torch import Generator, Tensor, nn

from fdsm.derivatives import Autodiff, FiniteDifference, Taylor
from fdsm.objectives import FokkerPlanck, ScoreFokkerPlanck
from fdsm.projections import Sphere
from fdsm.typing import Derivative

from .mixture_cases import NoisyMixture, mean_and_error

engines = pytest.mark.parametrize("engine", [Taylor(), Autodiff()], ids=["taylor", "autodiff"])


@engines
@pytest.mark.parametrize("d", [2, 16])
@pytest.mark.parametrize("kind", [FokkerPlanck, ScoreFokkerPlanck])
def test_zero_for_noisy_data(
    kind: type[FokkerPlanck], d: int, engine: Derivative, generator: Generator
) -> None:
    model, n = NoisyMixture(d), 50
    f = model.score if kind is ScoreFokkerPlanck else model
    x, sigma = 3 * torch.randn(n, d, generator=generator), torch.logspace(-1, 1, n)
    size = d * sigma**2 * (sigma**2 + 0.16) ** -2 * (1 + x.square().sum(1))
    residual = kind(derivative=engine).residual(f, x, sigma)
    assert (residual.reshape(n, -1).abs().amax(1) < 1e-11 * size).all()
    assert kind(derivative=engine).at(f, x, sigma).max() < 1e-18


class Network(nn.Module):
    """A smooth network of points, a level and a condition."""

    def __init__(self, event: tuple[int, ...], score: bool) -> None:
        super().__init__()
        d = int(torch.tensor(event).prod())
        self.net = nn.Sequential(nn.Linear(d + 2, 16), nn.Tanh(), nn.Linear(16, d if score else 1))
        self.score = score

    def forward(self, x: Tensor, sigma: Tensor, c: Tensor) -> Tensor:
        y = self.net(torch.cat([x.flatten(1), sigma[:, None].log(), c[:, None]], 1))
        return y.view(x.shape) if self.score else y.squeeze(1)


def slow_loss(f: Network, x: Tensor, sigma: Tensor, c: Tensor) -> Tensor:
    """Return the loss of one row in terms of $t = σ²$, by nested gradients."""
    d, t = x.numel(), sigma.square()
    at = lambda y, t: f(y.view(1, *x.shape), t.sqrt()[None], c[None]).flatten()
    y = x.flatten()
    if not f.score:
        in_time = torch.func.jacrev(at, 1)(y, t)[0]
        slope = torch.func.jacrev(at, 0)(y, t)[0]
        hessian = torch.func.jacrev(torch.func.jacrev(at, 0), 0)(y, t)[0]
        residual = in_time - (hessian.trace() + slope @ slope) / 2
        return 2 * t**2 / d * residual**2
    source = lambda y: (torch.func.jacrev(at, 0)(y, t).trace() + at(y, t).square().sum()) / 2
    residual = torch.func.jacrev(at, 1)(y, t) - torch.func.jacrev(source)(y)
    return 4 * t**3 / d * residual.square().sum()


@engines
@pytest.mark.parametrize("event", [(3,), (2, 2)], ids=str)
@pytest.mark.parametrize("kind", [FokkerPlanck, ScoreFokkerPlanck])
def test_equals_nested_gradients(
    kind: type[FokkerPlanck], event: tuple[int, ...], engine: Derivative, generator: Generator
) -> None:
    f = Network(event, kind is ScoreFokkerPlanck)
    x = torch.randn(4, *event, generator=generator)
    sigma, c = 0.2 + torch.rand(2, 4, generator=generator)
    losses = kind(derivative=engine).at(f, x, sigma, c)
    expected = torch.stack([slow_loss(f, *row) for row in zip(x, sigma, c, strict=True)])
    torch.testing.assert_close(losses, expected)
    found, slopes = (
        torch.autograd.grad(each.sum(), list(f.parameters()), allow_unused=True)
        for each in (losses, expected)
    )
    for p, *each in zip(f.parameters(), found, slopes, strict=True):
        torch.testing.assert_close(*(torch.zeros_like(p) if g is None else g for g in each))


def test_finite_differences_converge(generator: Generator) -> None:
    f = Network((3,), False)
    x = torch.randn(4, 3, generator=generator)
    sigma, c = 0.2 + torch.rand(2, 4, generator=generator)
    engine = FiniteDifference(accuracy=6)
    found, exact = (
        FokkerPlanck(derivative=e).residual(f, x, sigma, c).detach() for e in (engine, Taylor())
    )
    torch.testing.assert_close(found, exact, rtol=1e-5, atol=1e-6)


def test_a_drift_of_the_level_is_seen_and_a_constant_is_not(generator: Generator) -> None:
    r"""A multiple of $\log σ$ adds its factor to the residual."""
    model = NoisyMixture(2)
    x, sigma = torch.randn(5, 2, generator=generator), torch.linspace(0.1, 2, 5)
    drifting = lambda x, sigma: model(x, sigma) + 0.3 * sigma.log() + 5
    residual = FokkerPlanck().residual(drifting, x, sigma)
    torch.testing.assert_close(residual, torch.full((5,), 0.3), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(FokkerPlanck().at(drifting, x, sigma), torch.full((5,), 0.09 / 4))


@pytest.mark.parametrize("kind", [FokkerPlanck, ScoreFokkerPlanck])
def test_random_directions_are_unbiased(kind: type[FokkerPlanck], generator: Generator) -> None:
    """The square of one estimate would be too large."""
    f = Network((3,), kind is ScoreFokkerPlanck)
    x = torch.randn(1, 3, generator=generator)
    sigma, c = 0.5 + torch.rand(2, 1, generator=generator)
    exact = kind().at(f, x, sigma, c).item()
    n = 20_000
    rows = x.expand(n, 3), sigma.expand(n), c.expand(n)
    with torch.no_grad():
        estimates = kind(directions=1, projection=Sphere(0.1)).at(f, *rows, generator=generator)
    mean, error = mean_and_error(estimates)
    assert abs(mean - exact) < 4.5 * error
    assert error < 0.1 * exact
