"""Annealed importance sampling against normalizers in closed form, in 16 dimensions."""

import math
from itertools import pairwise

import pytest
import torch
from torch import Generator, Tensor

from fdsm.samplers import ais, latent_log_likelihood_ais, log_mean_exp, sigmoid_schedule

from .sampler_cases import Normal, standard_normal

D = 16


def wide() -> Normal:
    """A correlated normal with variances from 0.2 to 2."""
    turn, _ = torch.linalg.qr(torch.randn(D, D, generator=Generator().manual_seed(1)))
    covariance = turn @ torch.diag(torch.logspace(math.log10(0.2), math.log10(2), D)) @ turn.T
    return Normal(torch.linspace(-0.8, 0.8, D), (covariance + covariance.T) / 2)


def pair(x: Tensor) -> Tensor:
    """$5 N(x; c, s²I) + 2 N(x; -c, s²I)$ with ‖c‖ = 2.5 s, so that Z = 7."""
    s = 0.6
    c = torch.full((D,), 2.5 * s / math.sqrt(D))
    normal = lambda y: standard_normal(y / s) - D * math.log(s)
    parts = torch.stack([math.log(5) + normal(x - c), math.log(2) + normal(x + c)])
    return parts.logsumexp(0)


def test_normalizing_constant_of_a_correlated_normal(generator: Generator) -> None:
    target, x = wide(), torch.randn(300, D, generator=generator)
    found = ais(
        standard_normal, target.log_density, x, temperatures=sigmoid_schedule(120),
        step_size=0.2, generator=generator,
    )  # fmt: skip
    estimate = found.log_partition
    assert abs(estimate.value - target.log_partition) < 0.1
    assert abs(estimate.value - target.log_partition) < 5 * estimate.error < 0.25
    assert 0.5 < found.acceptance.mean() < 0.9
    plain = log_mean_exp(target.log_density(x) - standard_normal(x))
    assert plain.effective_sample_size < 15  # it is not an easy one


def test_normalizing_constant_of_a_mixture(generator: Generator) -> None:
    x = torch.randn(800, D, generator=generator)
    found = ais(
        standard_normal, pair, x, temperatures=sigmoid_schedule(100), step_size=0.2,
        generator=generator,
    )  # fmt: skip
    estimate = found.log_partition
    assert abs(estimate.value - math.log(7)) < 0.1
    weights = (found.log_weights - found.log_weights.max()).exp()
    share = (weights * (found.samples.sum(1) > 0)).sum() / weights.sum()
    effective = estimate.effective_sample_size.item()
    assert abs(share - 5 / 7) < 5 * math.sqrt(10 / 49 / effective)  # 2.5 s apart: 0.6 % overlap


def test_two_temperatures_are_importance_sampling(generator: Generator) -> None:
    x = torch.randn(10, D, generator=generator)
    found = ais(standard_normal, pair, x, temperatures=(0.0, 1.0), generator=generator)
    torch.testing.assert_close(found.log_weights, pair(x) - standard_normal(x))


def test_weights_are_computed_before_the_move() -> None:
    """With steps too small to move, the weights telescope to the plain ones at the start."""
    x = torch.randn(10, D)
    found = ais(standard_normal, pair, x, temperatures=(0.0, 0.3, 1.0), step_size=1e-4)
    torch.testing.assert_close(found.log_weights, pair(x) - standard_normal(x), rtol=0, atol=0.1)
    assert (found.samples - x).abs().max() < 0.01


def test_the_mean_weight_is_unbiased_for_few_temperatures(generator: Generator) -> None:
    """$E[w] = Z = (2π/10)^{1/2}$ with three moves whose steps do not adapt."""
    target = lambda x: -10 * (x - 1).square().sum(1) / 2
    x = torch.randn(20_000, 1, generator=generator)
    found = ais(
        standard_normal, target, x, temperatures=(0.0, 0.1, 0.4, 1.0), leapfrog=2, step_size=0.4,
        jitter=0.0, adapt=None, generator=generator,
    )  # fmt: skip
    weights = found.log_weights.exp()
    exact = math.sqrt(2 * math.pi / 10)
    assert abs(weights.mean() - exact) < 5 * weights.std() / math.sqrt(len(x))
    assert weights.std() / math.sqrt(len(x)) < 0.02 * exact
    assert torch.equal(found.step_sizes, torch.full((20_000,), 0.4))


def test_forward_and_reverse_estimates_bound_the_true_value(generator: Generator) -> None:
    target, few = wide(), sigmoid_schedule(30)
    prior = standard_normal
    below = ais(
        prior, target.log_density, torch.randn(200, D, generator=generator), temperatures=few,
        step_size=0.1, generator=generator,
    ).log_weights  # fmt: skip
    above = -ais(
        target.log_density, prior, target.sample(200, generator), temperatures=few,
        step_size=0.1, generator=generator,
    ).log_weights  # fmt: skip
    gaps = target.log_partition - below.mean(), above.mean() - target.log_partition
    for gap, weights in zip(gaps, (below, above), strict=True):
        assert 5 * weights.std() / math.sqrt(200) < gap < 5


def test_weights_are_zero_where_the_target_is_zero(generator: Generator) -> None:
    """Half of a standard normal without its normalizer."""
    half = lambda x: torch.where(x[:, 0] > 0, -x.square().sum(1) / 2, -torch.inf)
    x = torch.randn(4000, 2, generator=generator)
    found = ais(
        standard_normal, half, x, temperatures=(0.0, 0.5, 1.0), step_size=0.3, generator=generator
    )
    assert torch.equal(found.log_weights == -torch.inf, x[:, 0] <= 0)
    estimate = found.log_partition
    assert abs(estimate.value - math.log(math.pi)) < 5 * estimate.error
    assert found.samples.isfinite().all()


def test_likelihood_of_a_linear_decoder(generator: Generator) -> None:
    """$x = Wz + b + sn$ is $N(b, WW^T + s²I)$."""
    w, b = torch.randn(5, 3, generator=generator), torch.randn(5, generator=generator)
    s = 0.7
    truth = Normal(b, w @ w.T + s**2 * torch.eye(5))
    x = b + torch.linspace(-2, 3, 4)[:, None]
    decoder = lambda x, z: standard_normal((x - z @ w.T - b) / s) - 5 * math.log(s)
    found = latent_log_likelihood_ais(
        decoder, x, (3,), chains=150, temperatures=sigmoid_schedule(70), step_size=0.2,
        generator=generator,
    )  # fmt: skip
    exact = truth.log_density(x) - truth.log_partition
    assert exact.max() - exact.min() > 1  # rows that must not be confused
    assert found.value.shape == found.error.shape == found.effective_sample_size.shape == (4,)
    assert ((found.value - exact).abs() < 5 * found.error).all()
    assert found.error.max() < 0.1


def test_simulated_data_bound_the_likelihood_from_both_sides(generator: Generator) -> None:
    """$x = Wz + sn$. The latents that generated the data are samples of $p(z|x)$."""
    w, s = 2 * torch.randn(6, 4, generator=generator), 0.3
    truth = Normal(torch.zeros(6), w @ w.T + s**2 * torch.eye(6))
    z = torch.randn(100, 4, generator=generator)
    x = z @ w.T + s * torch.randn(100, 6, generator=generator)
    decoder = lambda x, z: standard_normal((x - z @ w.T) / s) - 6 * math.log(s)
    exact = (truth.log_density(x) - truth.log_partition).mean()
    run = lambda count, posterior: latent_log_likelihood_ais(
        decoder, x, (4,), chains=4, temperatures=sigmoid_schedule(count), leapfrog=5,
        step_size=0.1, posterior=posterior, generator=generator,
    ).value.mean()  # fmt: skip
    gaps = {}
    for count in (20, 120):
        low, high = run(count, None), run(count, z)
        assert low < exact < high
        gaps[count] = high - low
    assert gaps[20] > 2 * gaps[120]
    assert gaps[120] < 4
    with pytest.raises(ValueError, match=r"shape \(100, 4\), one latent per .* shape \(4,\)"):
        latent_log_likelihood_ais(decoder, x, (4,), posterior=z[0])


def test_latents_and_data_may_have_any_shape(generator: Generator) -> None:
    """Of shape (1, 2, 2) for x and (2, 2) for z, $p(x) = N(x; 0, 2I)$."""
    decoder = lambda x, z: standard_normal(x.flatten(1) - z.flatten(1))
    x = torch.randn(2, 1, 2, 2, generator=generator)
    found = latent_log_likelihood_ais(
        decoder, x, (2, 2), temperatures=sigmoid_schedule(60), step_size=0.2, generator=generator
    )
    exact = standard_normal(x.flatten(1) / math.sqrt(2)) - 2 * math.log(2)
    assert ((found.value - exact).abs() < 5 * found.error).all()


def test_sigmoid_schedule_of_the_paper() -> None:
    """$(σ(t) - σ(-4)) / (σ(4) - σ(-4))$ at 1000 equal distances from -4 to 4."""
    betas = sigmoid_schedule()
    sigmoid = lambda t: 1 / (1 + math.exp(-t))
    assert len(betas) == 1000
    assert (betas[0], betas[-1]) == (0, 1)
    t = -4 + 8 * 250 / 999
    expected = (sigmoid(t) - sigmoid(-4)) / (sigmoid(4) - sigmoid(-4))
    assert betas[250] == pytest.approx(expected, rel=1e-12)
    assert all(a < b for a, b in pairwise(betas))


@pytest.mark.parametrize(
    "betas", [(), (1.0,), (0.0, 0.5), (0.1, 1.0), (0.0, 0.7, 0.3, 1.0), (0.0, 0.5, 0.5, 1.0)]
)
def test_temperatures_must_increase_from_zero_to_one(betas: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="increase from exactly 0 to exactly 1"):
        ais(standard_normal, standard_normal, torch.zeros(1, 1), temperatures=betas)


def test_invalid_arguments_are_refused() -> None:
    x, wrong = torch.zeros(2, 1), lambda x: x.log().sum(1)
    with pytest.raises(ValueError, match="the prior is not finite at `x`"):
        ais(wrong, standard_normal, x)
    with pytest.raises(ValueError, match="target is infinite or NaN"):
        ais(standard_normal, lambda x: -wrong(x), x)
    with pytest.raises(ValueError, match="chains must be"):
        latent_log_likelihood_ais(lambda x, z: z.sum(1), x, (1,), chains=0)
    with pytest.raises(ValueError, match="count must be an integer of at least 2"):
        sigmoid_schedule(1)
