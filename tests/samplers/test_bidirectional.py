"""Normalizing constants from samples of the proposal and of the target."""

import math
import warnings

import pytest
import torch
from torch import Generator, Tensor
from torch.distributions import Categorical, Independent, MixtureSameFamily, Normal, StudentT

from fdsm.samplers import (
    GaussianMixtureProposal,
    LogPartitionWarning,
    ais,
    bidirectional_log_partition,
    hmc,
    importance_log_weights,
    sigmoid_schedule,
)

from .sampler_cases import correlated, standard_normal

STANDARD = Normal(0.0, 1.0)


def two_modes(distance: float, share: float) -> MixtureSameFamily:
    """Unit normals at zero and at `distance`, the second with a share of the mass."""
    return MixtureSameFamily(
        Categorical(torch.tensor([1 - share, share])), Normal(torch.tensor([0, distance]), 1.0)
    )


def test_equal_weights_are_the_constant_without_error() -> None:
    estimate = bidirectional_log_partition(torch.full((5,), 2.5), torch.full((3,), 2.5))
    assert estimate.value == pytest.approx(2.5, abs=1e-12)
    assert estimate.error == pytest.approx(0, abs=1e-6)
    assert estimate.consistent


@pytest.mark.parametrize(("n", "m"), [(400, 400), (1000, 100), (50, 2000)])
def test_acceptance_ratio_of_a_missed_half_is_exact(n: int, m: int) -> None:
    r"""All weights of $q$ are 1 and half of the target has $q = 0$: $Z = 2$, known from $m$ rows.

    The number $k$ of rows that $q$ covers is binomial, $Z = m / k$, so its relative variance is
    $1/m$.
    """
    reverse = torch.cat([torch.zeros(m // 2), torch.full((m // 2,), torch.inf)])
    with pytest.warns(LogPartitionWarning, match=r"disagree: 0 ± .*alone and 0\.6931 ±"):
        estimate = bidirectional_log_partition(torch.zeros(n), reverse)
    assert estimate.value == pytest.approx(math.log(2), abs=1e-12)
    assert estimate.error == pytest.approx(math.hypot(m**-0.5, math.log(2) / 2), rel=1e-6)
    assert estimate.forward.value == 0
    assert estimate.reverse.value == pytest.approx(math.log(2))
    assert not estimate.consistent


@pytest.mark.parametrize(("n", "m"), [(500, 500), (2000, 200)])
def test_errors_are_honest_and_agreement_is_the_rule(n: int, m: int, generator: Generator) -> None:
    """200 estimates for a correlated normal from a wider proposal, with known log Z."""
    target = correlated()
    q = GaussianMixtureProposal(torch.zeros(1, 2), 2.0)
    weigh = lambda x, count: importance_log_weights(target.log_density, q, x).view(200, count)
    forward = weigh(q.sample(200 * n, generator), n)
    reverse = weigh(target.sample(200 * m, generator), m)
    estimates = [bidirectional_log_partition(*pair) for pair in zip(forward, reverse, strict=True)]
    scores = torch.tensor([(e.value - target.log_partition) / e.error for e in estimates])
    assert abs(scores.mean()) < 5 / math.sqrt(200)
    assert 0.7 < scores.std() < 1.1  # half of the gap makes the error larger
    below, above = (
        torch.tensor([getattr(e, name).value for e in estimates]).mean()
        for name in ("forward", "reverse")
    )
    assert below < target.log_partition + 0.01
    assert above > target.log_partition + 0.01


def test_annealing_in_both_directions_agrees_with_the_known_constant(generator: Generator) -> None:
    target = correlated()
    run = lambda first, last, x: ais(
        first, last, x, temperatures=sigmoid_schedule(20), leapfrog=3, step_size=0.3, adapt=None,
        generator=generator,
    ).log_weights  # fmt: skip
    forward = run(standard_normal, target.log_density, torch.randn(1000, 2, generator=generator))
    reverse = -run(target.log_density, standard_normal, target.sample(1000, generator))
    estimate = bidirectional_log_partition(forward, reverse)
    assert abs(estimate.value - target.log_partition) < 4 * estimate.error < 0.1
    assert estimate.verdict.startswith("The estimates of log Z agree within their errors: 1.")
    assert forward.mean() < target.log_partition < reverse.mean()


def narrow_spike(share: float) -> MixtureSameFamily:
    scales = torch.tensor([[1.0] * 5, [0.01] * 5])
    components = Independent(Normal(torch.zeros(2, 5), scales), 1)
    return MixtureSameFamily(Categorical(torch.tensor([1 - share, share])), components)


MISSED = {
    "mode": (two_modes(8.0, 0.5), STANDARD, math.log(2)),
    "largest mode": (two_modes(8.0, 0.9), STANDARD, math.log(10)),
    "far mode": (two_modes(40.0, 0.5), STANDARD, math.log(2)),
    "spike": (narrow_spike(0.7), Independent(Normal(torch.zeros(5), 1.0), 1), -math.log(0.3)),
}
"""A target of torch, a proposal, and the least error of the proposal alone."""


@pytest.mark.parametrize("name", MISSED)
def test_regions_that_the_proposal_misses_are_noticed(name: str) -> None:
    target, proposal, least = MISSED[name]
    x, samples = proposal.sample((2000,)), target.sample((2000,))
    forward, reverse = (target.log_prob(a) - proposal.log_prob(a) for a in (x, samples))
    with pytest.warns(LogPartitionWarning, match="the proposal misses a part of the target"):
        estimate = bidirectional_log_partition(forward, reverse)
    assert estimate.forward.value < -0.95 * least
    assert least > 5 * estimate.forward.error
    assert abs(estimate.value) < min(3 * estimate.error, 0.3)


def test_heavy_tails_do_not_harm_the_estimate_from_both_ends() -> None:
    """Cauchy's distribution and a normal proposal, whose weights have no variance."""
    target, alone, both, noticed = StudentT(1.0), 0, 0, 0
    for _ in range(50):
        x, samples = torch.randn(2000), target.sample((2000,))
        forward, reverse = (target.log_prob(a) - STANDARD.log_prob(a) for a in (x, samples))
        with warnings.catch_warnings(action="ignore", category=LogPartitionWarning):
            estimate = bidirectional_log_partition(forward, reverse)
        alone += int(abs(estimate.forward.value) > 3 * estimate.forward.error)
        both += abs(estimate.value) > 3 * estimate.error
        noticed += not estimate.consistent
    assert both == 0
    assert alone > 25
    assert noticed > 25


def test_samples_that_miss_a_mode_are_noticed(generator: Generator) -> None:
    target, proposal = two_modes(8.0, 0.5), Normal(0.0, 6.0)
    x, samples = 6 * torch.randn(5000, generator=generator), torch.randn(500, generator=generator)
    forward, reverse = (target.log_prob(a) - proposal.log_prob(a) for a in (x, samples))
    with pytest.warns(LogPartitionWarning, match="are not samples of it"):
        estimate = bidirectional_log_partition(forward, reverse)
    assert abs(estimate.forward.value) < 4 * estimate.forward.error < 0.2
    assert abs(estimate.value) <= 2.5 * estimate.error


def test_rows_moved_by_hmc_are_samples_of_the_target(generator: Generator) -> None:
    """The rows are twice as wide as the target, $N(0, I)$ in two dimensions without normalizer."""
    f = lambda x: -x.square().sum(1) / 2
    rows = 2 * torch.randn(1000, 2, generator=generator)
    q = GaussianMixtureProposal(torch.zeros(1, 2), 1.5)
    forward = importance_log_weights(f, q, q.sample(5000, generator))
    with pytest.warns(LogPartitionWarning):
        bidirectional_log_partition(forward, importance_log_weights(f, q, rows))
    moved = hmc(f, rows, 10, burn_in=10, generator=generator).samples
    estimate = bidirectional_log_partition(forward, importance_log_weights(f, q, moved))
    assert abs(estimate.value - math.log(2 * math.pi)) < 4 * estimate.error < 0.1


def test_samples_without_overlap_have_a_large_error() -> None:
    estimate = bidirectional_log_partition(torch.full((100,), -30.0), torch.full((100,), 30.0))
    assert -30 <= estimate.value <= 30
    assert estimate.error > 30


def test_half_of_a_density_has_half_the_constant(generator: Generator) -> None:
    half = lambda x: torch.where(x > 0, STANDARD.log_prob(x), -torch.inf)
    x = torch.randn(4000, generator=generator)
    forward, reverse = (half(a) - STANDARD.log_prob(a) for a in (x, x.abs()))
    estimate = bidirectional_log_partition(forward, reverse)
    assert estimate.value == pytest.approx(-math.log(2), abs=4 * estimate.error)
    assert estimate.error < 0.03


def test_rounding_is_not_a_disagreement() -> None:
    rounded = lambda n: (torch.randn(n) * 1e-7 + 300).float()
    with warnings.catch_warnings(action="error"):
        estimate = bidirectional_log_partition(rounded(1000), rounded(50))
    assert estimate.value == pytest.approx(300)


@pytest.mark.parametrize(
    ("forward", "reverse", "message"),
    [
        (torch.zeros(3, 2), torch.zeros(3), r"forward must be a vector .* shape \(3, 2\)"),
        (torch.zeros(3), torch.zeros(1), r"reverse must be a vector .* shape \(1,\)"),
        (torch.tensor([0.0, torch.nan]), torch.zeros(3), "1 of 2 weights are infinite or NaN"),
        (torch.zeros(3), torch.tensor([0.0, -torch.inf]), "1 of 2 weights are infinite or NaN"),
        (
            torch.full((2,), -torch.inf),
            torch.full((2,), torch.inf),
            "all weights are zero or infinite",
        ),
    ],
)
def test_unusable_weights_are_refused(forward: Tensor, reverse: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        bidirectional_log_partition(forward, reverse)
