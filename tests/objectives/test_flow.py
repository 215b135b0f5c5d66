"""Flow matching against Gaussian data, whose velocities are known, and against `torch.func`."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Generator, Tensor, nn
from torch.func import jvp as forward_mode

from fdsm.derivatives import Autodiff, FiniteDifference, Taylor
from fdsm.noise import ConstantNoise
from fdsm.objectives import FlowMatching, LogitNormalTimes, MeanFlow, UniformTimes

ignore_deprecation = pytest.mark.filterwarnings("ignore:.*torch.jit.script")
"""Forward mode of torch warns of its own use of it."""
MEAN, STD = torch.tensor([1.5, -0.5]), 0.6
"""Mean and deviation of Gaussian data."""


def std(t: Tensor) -> Tensor:
    """Return the deviation of $z_t$, shape `(B, 1)`."""
    return ((1 - t).square() * STD**2 + t.square()).sqrt()[:, None]


def centered(z: Tensor, t: Tensor) -> Tensor:
    return z - (1 - t)[:, None] * MEAN


def velocity(z: Tensor, t: Tensor) -> Tensor:
    r"""Return $E[e - x | z_t = z] = -m + \mathrm{Cov}(e - x, z) / \mathrm{Var}(z) (z - E z)$."""
    covariance = (t - (1 - t) * STD**2)[:, None]
    return covariance / std(t).square() * centered(z, t) - MEAN


def average_velocity(z: Tensor, r: Tensor, t: Tensor) -> Tensor:
    """Return $(z - z_r) / (t - r)$, where $z_r$ is as many deviations from its mean as $z$."""
    z_r = (1 - r)[:, None] * MEAN + std(r) / std(t) * centered(z, t)
    return (z - z_r) / (t - r)[:, None]


def times(n: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Return times $r < t$ that are not close to each other, nor to zero and one."""
    r = 0.1 + 0.3 * torch.rand(n, generator=generator)
    return r, r + 0.2 + 0.3 * torch.rand(n, generator=generator)


def data(n: int, generator: Generator) -> Tensor:
    return MEAN + STD * torch.randn(n, 2, generator=generator)


class Field(nn.Module):
    """A smooth network of a point, two times and conditions."""

    def __init__(self, features: int = 3, conditions: int = 0) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(features + 2 + conditions, 16), nn.Tanh(), nn.Linear(16, features)
        )

    def forward(self, z: Tensor, r: Tensor, t: Tensor, *cond: Tensor) -> Tensor:
        rows = torch.cat([z.flatten(1), *(c[:, None] for c in (r, t, *cond))], 1)
        value: Tensor = self.layers(rows).view(z.shape)
        return value


class Attention(nn.Module):
    """A field with fused attention between the coordinates."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(3, 12), nn.Linear(4, 1)

    def forward(self, z: Tensor, r: Tensor, t: Tensor) -> Tensor:
        tokens = torch.stack([z, *(c[:, None].expand_as(z) for c in (r, t))], 2)
        query, key, value = self.first(tokens)[:, None].chunk(3, 3)
        mixed = nn.functional.scaled_dot_product_attention(query, key, value)
        result: Tensor = self.last(mixed).squeeze(3).squeeze(1)
        return result


@pytest.mark.parametrize("t", [0.1, 0.5, 0.8])
def test_the_minimum_of_flow_matching_is_the_velocity_of_a_gaussian(
    t: float, generator: Generator
) -> None:
    """The loss is quadratic in a line for each time, so that one Newton step finds its minimum."""
    x, objective = data(200_000, generator), FlowMatching(ConstantNoise(t))

    def loss(line: Tensor) -> Tensor:
        draw = Generator().manual_seed(1)
        return objective(lambda z, t: line[0] * z + line[1:], x, generator=draw).mean()

    start = torch.zeros(3)
    slope = torch.autograd.functional.jacobian(loss, start)
    curvature = torch.autograd.functional.hessian(loss, start)
    minimum = -torch.linalg.solve(curvature, slope)
    at_zero, at_one = (velocity(torch.full((1, 2), z), torch.tensor([t]))[0] for z in (0.0, 1.0))
    expected = torch.cat([(at_one - at_zero)[:1], at_zero])
    torch.testing.assert_close(minimum, expected, rtol=0, atol=0.02)


def test_the_smallest_loss_of_flow_matching(generator: Generator) -> None:
    r"""It is the variance of $e - x$ given $z$, $s² / σ_t²$ per dimension; here at three times."""
    x, t = data(300_000, generator), torch.tensor([0.2, 0.5, 0.9]).repeat_interleave(100_000)
    noise = torch.randn(x.shape, generator=generator)
    losses = FlowMatching().at(velocity, x, noise, t).view(3, -1).mean(1)
    expected = STD**2 / std(t[::100_000]).squeeze(1).square()
    torch.testing.assert_close(losses, expected, rtol=0.02, atol=0)


@pytest.mark.parametrize("engine", [Taylor(), Autodiff(), FiniteDifference(accuracy=4)], ids=repr)
def test_the_average_velocity_of_a_gaussian_is_its_own_target(
    engine: Taylor | Autodiff | FiniteDifference, generator: Generator
) -> None:
    """The target is linear in the velocity, so this is its mean over examples through `z`."""
    r, t = times(50, generator)
    z = torch.randn(50, 2, generator=generator)
    target = MeanFlow(engine, step=0.01).target(average_velocity, z, velocity(z, t), r, t)
    atol = 1e-12 if isinstance(engine, Taylor | Autodiff) else 1e-6
    torch.testing.assert_close(target, average_velocity(z, r, t), rtol=0, atol=atol)
    one_step = z - (t - r)[:, None] * average_velocity(z, r, t)
    deviations = [centered(z, t) / std(t), centered(one_step, r) / std(r)]
    torch.testing.assert_close(*deviations)  # the step ends at the same quantile


def test_the_gradient_of_mean_flow_vanishes_at_the_average_velocity(generator: Generator) -> None:
    """Of a scale of the field and of a shift, within five standard errors."""
    slopes = []
    scale, shift = torch.ones(2, requires_grad=True), torch.zeros(2, requires_grad=True)
    field = lambda z, r, t: scale * average_velocity(z, r, t) + shift
    for _ in range(20):
        x, (r, t) = data(5000, generator), times(5000, generator)
        noise = torch.randn(x.shape, generator=generator)
        loss = MeanFlow().at(field, x, noise, r, t).mean()
        slopes.append(torch.cat(torch.autograd.grad(loss, (scale, shift))))
    sample = torch.stack(slopes)
    error = sample.std(0) / len(sample) ** 0.5
    assert (sample.mean(0).abs() < 5 * error).all()
    assert (error < 0.02).all()


@ignore_deprecation
@pytest.mark.parametrize("event", [(3,), (1, 3, 2)], ids=str)
@pytest.mark.parametrize("engine", [Taylor(), Autodiff()], ids=repr)
def test_mean_flow_is_algorithm_1_with_the_derivative_of_torch(
    engine: Taylor | Autodiff, event: tuple[int, ...], generator: Generator
) -> None:
    """Values, and gradients in which the target is constant."""
    model = Field(math.prod(event), conditions=1)
    x, noise = torch.randn(2, 5, *event, generator=generator)
    (r, t), label = times(5, generator), torch.randn(5, generator=generator)
    share = t.view(-1, *[1] * len(event))
    z, v = (1 - share) * x + share * noise, noise - x
    u, slope = forward_mode(
        lambda z, r, t: model(z, r, t, label), (z, r, t), (v, torch.zeros(5), torch.ones(5))
    )
    target = (v - (t - r).view_as(share) * slope).detach()
    torch.testing.assert_close(
        MeanFlow(engine).target(model, z, v, r, t, label), target, rtol=1e-12, atol=1e-12
    )
    expected = (u - target).flatten(1).square().mean(1)
    losses = MeanFlow(engine).at(model, x, noise, r, t, label)
    torch.testing.assert_close(losses, expected)
    parameters = list(model.parameters())
    torch.testing.assert_close(
        torch.autograd.grad(losses.sum(), parameters),
        torch.autograd.grad(expected.sum(), parameters),
    )


@ignore_deprecation
def test_fused_attention_where_forward_mode_raises(generator: Generator) -> None:
    model, (r, t) = Attention(), times(4, generator)
    z, v = torch.randn(2, 4, 3, generator=generator)
    with pytest.raises(NotImplementedError, match="forward AD"):
        forward_mode(model, (z, r, t), (v, torch.zeros(4), torch.ones(4)))
    h = 1e-5
    slope = (model(z + h * v, r, t + h) - model(z - h * v, r, t - h)) / (2 * h)
    target = MeanFlow(Taylor()).target(model, z, v, r, t)
    torch.testing.assert_close(target, v - (t - r)[:, None] * slope, rtol=1e-7, atol=1e-8)
    MeanFlow(Taylor()).at(model, z, z + v, r, t).sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


def test_the_bias_of_finite_differences_is_quadratic_in_the_step(generator: Generator) -> None:
    model, (r, t) = Field(), times(6, generator)
    z, v = torch.randn(2, 6, 3, generator=generator)
    exact = MeanFlow(Taylor()).target(model, z, v, r, t)
    differences = [MeanFlow(FiniteDifference(), step=h) for h in (0.02, 0.01)]
    errors = [(o.target(model, z, v, r, t) - exact).norm() for o in differences]
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.01)


def test_equal_times_are_flow_matching(generator: Generator) -> None:
    model, t = Field(), torch.rand(6, generator=generator)
    x, noise = torch.randn(2, 6, 3, generator=generator)
    torch.testing.assert_close(
        MeanFlow().at(model, x, noise, t, t),
        FlowMatching().at(lambda z, t: model(z, t, t), x, noise, t),
    )


def test_the_adaptive_weight_is_constant(generator: Generator) -> None:
    """Equation 22: the weighted loss and the gradient in which the weight is a number."""
    model, (r, t) = Field(), times(6, generator)
    x, noise = torch.randn(2, 6, 3, generator=generator)
    plain, adaptive = (
        MeanFlow(p=p, c=0.1).at(model, x, noise, r, t).unbind() for p in (0.0, 0.75)
    )
    parameters = list(model.parameters())
    for loss, weighted in zip(plain, adaptive, strict=True):
        weight = (3 * loss.item() + 0.1) ** -0.75
        slopes, expected = (
            nn.utils.parameters_to_vector(torch.autograd.grad(a, parameters, retain_graph=True))
            for a in (weighted, weight * loss)
        )
        assert weighted.item() == pytest.approx(weight * loss.item())
        torch.testing.assert_close(slopes, expected)


def drawn_times(objective: MeanFlow, generator: Generator) -> tuple[Tensor, Tensor]:
    """Return the times with which the objective calls its model."""
    drawn = []

    def model(z: Tensor, r: Tensor, t: Tensor) -> Tensor:
        drawn[:] = r, t
        return z

    objective(model, torch.zeros(50_000, 1), generator=generator)
    r, t = drawn
    return r, t


def test_mean_flow_draws_two_times_and_makes_most_of_them_equal(generator: Generator) -> None:
    """The larger of two uniform times has the mean 2/3, and their distance 1/3."""
    r, t = drawn_times(MeanFlow(times=UniformTimes()), generator)
    assert (r <= t).all()
    assert (r < t).double().mean() == pytest.approx(0.25, abs=0.01)
    assert t.mean() == pytest.approx(2 / 3, abs=0.01)
    assert (t - r)[r < t].mean() == pytest.approx(1 / 3, abs=0.01)
    r, t = drawn_times(MeanFlow(unequal=1.0), generator)
    assert (r < t).all()
    logits = torch.stack([r, t]).logit()
    assert logits.mean() == pytest.approx(-0.4, abs=0.02)
    assert logits.std() == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize("distribution", [UniformTimes(), LogitNormalTimes(1.0, 0.5)], ids=repr)
def test_quantiles_of_times(
    distribution: UniformTimes | LogitNormalTimes, generator: Generator
) -> None:
    t = distribution.sample(torch.zeros(100_000, 2), generator)
    normal = torch.distributions.Normal(1.0, 0.5)
    u = t if isinstance(distribution, UniformTimes) else normal.cdf(t.logit())
    levels = torch.tensor([0.1, 0.5, 0.9])
    torch.testing.assert_close(u.quantile(levels), levels, rtol=0, atol=0.01)


def test_wrong_settings_are_named() -> None:
    with pytest.raises(ValueError, match="unequal must be a share from 0 to 1, but got 25"):
        MeanFlow(unequal=25)
    for wrong in ({"p": -1.0}, {"c": 0.0}):
        with pytest.raises(ValueError, match="p must not be negative and c positive, but got p="):
            replace(MeanFlow(), **wrong)
    for mean, deviation in ((math.nan, 1.0), (0.0, 0.0)):
        with pytest.raises(ValueError, match="std a positive number, but got mean="):
            LogitNormalTimes(mean, deviation)
    x = torch.ones(4, 2)
    with pytest.raises(ValueError, match=r"noise .* must have that shape, but has \(4,\)"):
        FlowMatching().at(lambda z, t: z, x, torch.ones(4), torch.ones(4))
