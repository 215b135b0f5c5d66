"""Langevin dynamics compared with its exact discrete-time moments."""

import math
import warnings
from collections.abc import Callable

import pytest
import torch
from torch import Generator, Tensor

from fdsm.derivatives import score_of
from fdsm.noise import Geometric
from fdsm.samplers import (
    DivergenceWarning,
    Temperatures,
    annealed_langevin,
    langevin,
    tempered_langevin,
)
from fdsm.samplers.langevin import score_lipschitz

from .sampler_cases import assert_moments, correlated

N = 20_000


def replayed(seed: int, *shape: int) -> list[Tensor]:
    draw = Generator().manual_seed(seed)
    return [torch.randn(shape[1:], generator=draw) for _ in range(shape[0])]


def test_two_steps_computed_by_hand() -> None:
    """From 1 with score -3x, a = 0.1 and T = 4: x ← 0.7 x + √0.8 z."""
    z = replayed(3, 2, 1, 1)
    draw = Generator().manual_seed(3)
    x = langevin(lambda x: -3 * x, torch.ones(1, 1), 2, 0.1, temperature=4.0, generator=draw)
    by_hand = 0.7 * (0.7 + math.sqrt(0.8) * z[0]) + math.sqrt(0.8) * z[1]
    torch.testing.assert_close(x, by_hand)


def test_zero_temperature_is_gradient_ascent() -> None:
    x = langevin(lambda x: 2 - x, torch.tensor([[4.0]]), 3, 0.5, temperature=0.0)
    assert x.item() == pytest.approx(2 + 2 * 0.5**3, abs=1e-12)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_stationary_variance_is_that_of_the_discrete_chain(
    temperature: float, generator: Generator
) -> None:
    """$C = (I-aP) C (I-aP) + 2aT I$ is solved by $C = T (P - aP²/2)^{-1}$."""
    target, a = correlated(), 0.2
    p = target.precision
    biased = temperature * torch.linalg.inv(p - a * p @ p / 2)
    assert (biased / temperature - target.covariance).abs().max() > 0.1  # the bias is visible
    start = torch.zeros(N, 2)
    x = langevin(target.score, start, 80, a, temperature=temperature, generator=generator)
    assert_moments(x, target.mean, biased)


def test_small_steps_sample_the_density(generator: Generator) -> None:
    """At a = 0.005 the bias is 1.1 %, half a standard error of this many chains."""
    target = correlated()
    start = target.sample(4000, generator)
    x = langevin(score_of(target.log_density), start, 100, 0.005, generator=generator)
    assert_moments(x, target.mean, target.covariance)


@pytest.mark.parametrize(("scale", "spread"), [(1e-3, 1.0), (1.0, 0.0), (1e3, 0.0)])
def test_default_step_has_the_right_stationary_variance(
    scale: float, spread: float, generator: Generator
) -> None:
    """With a = 0.1 / L the variance is too large by 1 / (1 - 0.05) along the stiffest axis."""
    target = correlated()
    cov = scale**2 * target.covariance
    precision = torch.linalg.inv(cov)
    score = lambda x: -x @ precision
    start = spread * scale * torch.randn(N, 2, generator=generator)
    x = langevin(score, start, 400, generator=generator)
    a = 0.1 / torch.linalg.eigvalsh(precision).max()
    biased = torch.linalg.inv(precision - a * precision @ precision / 2)
    assert ((biased - cov).diagonal() / cov.diagonal()).max() < 0.053
    assert_moments(x, torch.zeros(2), biased)


def test_default_step_of_a_curved_density_is_stable(generator: Generator) -> None:
    """For -x⁴/4 the curvature at x = 2 is 12; the variance is 2 Γ(3/4) / Γ(1/4) = 0.676."""
    x = langevin(lambda x: -(x**3), torch.full((N, 1), 2.0), 800, generator=generator)
    assert x.var().item() == pytest.approx(0.676, rel=0.05)


def test_lipschitz_constant_is_the_largest_curvature(generator: Generator) -> None:
    precisions = torch.logspace(-2, 2, 20)
    found = score_lipschitz(lambda x: -precisions * x, torch.zeros(50, 20), generator)
    assert found == pytest.approx(100, rel=1e-3)


@pytest.mark.parametrize("score", [torch.ones_like, lambda x: x / 0])
def test_a_score_without_curvature_has_no_default_step(score: Callable[[Tensor], Tensor]) -> None:
    with pytest.raises(ValueError, match="Pass `step_size`"):
        langevin(score, torch.zeros(3, 2), 1)


def test_annealing_computed_by_hand() -> None:
    """Two levels, two steps each: a_1 = 0.01 · 4 = 0.04 and a_2 = 0.01, then the denoising."""
    z = replayed(5, 4, 1, 1)
    seen = []

    def score(x: Tensor, sigma: Tensor) -> Tensor:
        seen.append(sigma)
        return -x / sigma[:, None]

    x = torch.ones(1, 1)
    for a, sigma, noise in [(0.04, 1.0, z[0]), (0.04, 1.0, z[1]), (0.01, 0.5, z[2])]:
        x = x * (1 - a / sigma) + math.sqrt(2 * a) * noise
    x = x * (1 - 0.01 / 0.5) + math.sqrt(0.02) * z[3]

    def sampled(denoise: bool) -> Tensor:
        draw = Generator().manual_seed(5)
        return annealed_langevin(
            score, torch.ones(1, 1), (1.0, 0.5), steps=2, step_size=0.01, denoise=denoise,
            generator=draw,
        )  # fmt: skip

    torch.testing.assert_close(sampled(False), x)
    torch.testing.assert_close(torch.cat(seen), torch.tensor([1.0, 1.0, 0.5, 0.5]))
    torch.testing.assert_close(sampled(True), x + 0.25 * (-x / 0.5))


def test_annealing_has_the_moments_of_the_discrete_chain(generator: Generator) -> None:
    """For data N(0, ¼): m ← (1 - a_i/v_i) m and V ← (1 - a_i/v_i)² V + 2 a_i, v_i = ¼ + σ_i²."""
    levels, steps, a = Geometric(1.0, 0.1, 4).levels, 7, 1e-3
    score = lambda x, sigma: -x / (0.25 + sigma.square())[:, None]
    mean, variance = 3.0, 0.0
    for sigma in levels:
        step = a * (sigma / levels[-1]) ** 2
        for _ in range(steps):
            decay = 1 - step / (0.25 + sigma**2)
            mean, variance = decay * mean, decay**2 * variance + 2 * step
    x = torch.full((N, 1), 3.0)
    x = annealed_langevin(score, x, levels, steps=steps, step_size=a, generator=generator)
    assert_moments(x, torch.tensor([mean]), torch.tensor([[variance]]))


def blurred_pair(x: Tensor, sigma: Tensor) -> Tensor:
    """The score of 0.8 N(-4, 0.3²) + 0.2 N(4, 0.3²), blurred."""
    variance = (0.09 + sigma.square())[:, None]
    centers, shares = torch.tensor([-4.0, 4.0]), torch.tensor([0.8, 0.2])
    odds = (shares.log() - (x - centers).square() / (2 * variance)).softmax(1)
    return ((odds @ centers)[:, None] - x) / variance


def test_annealing_finds_the_weights_of_distant_modes(generator: Generator) -> None:
    """Chains start at the rarer mode; without annealing they stay there."""
    levels, start = Geometric(8.0, 0.1, 15).levels, torch.full((4000, 1), 4.0)
    x = annealed_langevin(
        blurred_pair, start, levels, steps=100, step_size=1e-3, generator=generator
    )
    share = (x > 0).double().mean().item()
    assert abs(share - 0.2) < 5 * math.sqrt(0.2 * 0.8 / 4000)
    least = lambda x: blurred_pair(x, x.new_full((len(x),), 0.1))
    stuck = langevin(least, start[:100], 1500, 1e-3, generator=generator)
    assert (stuck > 0).all()


def test_temperatures_of_the_paper() -> None:
    values = Temperatures().values
    assert len(values) == 2700
    assert set(values[:501]) == {100.0}
    assert values[1000] == pytest.approx(100 - 99 * 500 / 1999)
    assert values[2499:2501] == (1, 1)
    assert values[2600] == pytest.approx(1 - 100 / 199)
    assert values[-1] == 0
    assert list(values) == sorted(values, reverse=True)


def test_tempering_computed_by_hand() -> None:
    """With e = 0.2 the score counts 0.02 and the noise 0.2 √T; σ₀ = 0.5 denoises by 0.25."""
    z = replayed(7, 3, 1, 1)
    x = torch.ones(1, 1)
    for temperature, noise in zip([9.0, 1.0, 0.0], z, strict=True):
        x = x + 0.02 * (-3 * x) + math.sqrt(temperature) * 0.2 * noise
    schedule, draw = Temperatures(hold=1, anneal=0, cool=2, hottest=9.0), Generator()
    found = tempered_langevin(
        lambda x: -3 * x, torch.ones(1, 1), schedule, step=0.2, sigma=0.5,
        generator=draw.manual_seed(7),
    )  # fmt: skip
    torch.testing.assert_close(found, x + 0.25 * (-3 * x))


def test_sampler_of_the_paper_has_the_moments_of_the_discrete_chain(generator: Generator) -> None:
    """On N(0.5, s²): V ← (1-a/s²)² V + 2aT with a = 0.02²/2, and (1 - 0.01/s²)² at last."""
    s2, a, variance = 0.04, 0.0002, 1.0
    for temperature in Temperatures().values:
        variance = (1 - a / s2) ** 2 * variance + 2 * a * temperature
    variance *= (1 - 0.01 / s2) ** 2
    start = 0.5 + torch.randn(4000, 1, generator=generator)
    x = tempered_langevin(lambda x: (0.5 - x) / s2, start, generator=generator)
    assert_moments(x, torch.tensor([0.5]), torch.tensor([[variance]]))


def test_tempering_crosses_between_modes(generator: Generator) -> None:
    """From one mode of a ring to all eight. At a constant temperature chains stay at one mode."""
    angles = torch.arange(8) * torch.pi / 4
    means = 2 * torch.stack([angles.cos(), angles.sin()], 1)
    log_density = lambda x: torch.logsumexp(-torch.cdist(x, means).square() / (2 * 0.2**2), 1)
    score, start = score_of(log_density), means[:1].repeat(500, 1)
    schedule = Temperatures(hold=100, anneal=600, cool=50, hottest=50.0)
    x = tempered_langevin(score, start, schedule, step=0.1, generator=generator)
    modes = torch.cdist(x, means).argmin(1).bincount(minlength=8) / len(x)
    assert (modes > 0.05).all()
    stuck = langevin(score, start, 750, 0.005, generator=generator)
    assert (torch.cdist(stuck, means).argmin(1) == 0).double().mean() > 0.8


def test_divergence_warning_counts_the_chains() -> None:
    x = torch.tensor([[0.0], [1.0], [2.0]])
    with pytest.warns(DivergenceWarning, match="2 of 3 chains"):
        langevin(lambda x: -1000 * x, x, 200, 1.0, temperature=0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        langevin(lambda x: -1000 * x, x, 200, 0.0019, temperature=0.0)


@pytest.mark.parametrize(
    ("levels", "message"),
    [
        ((0.1, 1.0), "must decrease"),
        ((1.0, 0.0), "positive"),
        ((), "at least one"),
    ],
)
def test_invalid_levels_are_refused(levels: tuple[float, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        annealed_langevin(lambda x, sigma: -x, torch.zeros(1, 1), levels)


def test_invalid_schedules_are_refused() -> None:
    with pytest.raises(ValueError, match="hold must be an integer of at least 0, but is -1"):
        Temperatures(hold=-1)
    with pytest.raises(ValueError, match="steps must be"):
        Temperatures(0, 0, 0)
    with pytest.raises(ValueError, match="hottest must be a positive"):
        Temperatures(hottest=0.0)
    with pytest.raises(ValueError, match="temperature must be finite and not negative"):
        langevin(lambda x: -x, torch.zeros(1, 1), 1, 0.1, temperature=-1.0)
