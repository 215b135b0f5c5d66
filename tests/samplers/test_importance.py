"""Importance sampling against normalizers and effective sample sizes in closed form."""

import math

import pytest
import torch
from torch import Generator, Tensor
from torch.distributions import Independent, MultivariateNormal
from torch.distributions import Normal as TorchNormal

from fdsm.evaluation import fit_gaussian
from fdsm.samplers import (
    GaussianMixtureProposal,
    MixtureProposal,
    importance_log_partition,
    importance_log_weights,
)
from fdsm.typing import NormalizedDensity

from .sampler_cases import Normal, correlated


def normal(d: int, scale: float) -> GaussianMixtureProposal:
    return GaussianMixtureProposal(torch.zeros(1, d), scale)


def rows(generator: Generator) -> GaussianMixtureProposal:
    return GaussianMixtureProposal(correlated().sample(300, generator), 0.8)


@pytest.mark.parametrize("kind", ["normal", "rows", "both"])
def test_proposals_agree_on_a_correlated_normal(kind: str, generator: Generator) -> None:
    target, broad, close = correlated(), normal(2, 2.0), rows(generator)
    proposal: NormalizedDensity = {
        "normal": broad,
        "rows": close,
        "both": MixtureProposal((close, broad)),
    }[kind]
    found = importance_log_partition(target.log_density, proposal, 20_000, generator=generator)
    assert abs(found.value - target.log_partition) < 5 * found.error
    assert found.error < 0.02
    assert found.samples == 20_000


def test_effective_sample_size_in_closed_form(generator: Generator) -> None:
    r"""For N(0, t²) by N(0, s²) it is $(t \sqrt{2s² - t²} / s²)^d$ of the samples."""
    t, s, d, n = 0.7, 1.2, 5, 100_000
    target = Normal(torch.zeros(d), t**2 * torch.eye(d))
    found = importance_log_partition(target.log_density, normal(d, s), n, generator=generator)
    share = (t * math.sqrt(2 * s**2 - t**2) / s**2) ** d
    assert found.effective_sample_size / n == pytest.approx(share, rel=0.03)
    assert found.error == pytest.approx(math.sqrt((1 / share - 1) / n), rel=0.03)


def test_error_agrees_with_the_spread_of_repetitions(generator: Generator) -> None:
    target = correlated()
    estimates = [
        importance_log_partition(target.log_density, normal(2, 2.0), 500, generator=generator)
        for _ in range(300)
    ]
    scores = torch.tensor([(e.value - target.log_partition) / e.error for e in estimates])
    assert abs(scores.mean()) < 5 / math.sqrt(300) + 0.05
    assert scores.std().item() == pytest.approx(1, abs=5 / math.sqrt(600))


class Prepared:
    """A proposal with given samples, which records the sizes of its batches."""

    def __init__(self, x: Tensor) -> None:
        self.x, self.portions = x, list[int]()

    def sample(self, n: int, generator: Generator | None = None) -> Tensor:
        first = sum(self.portions)
        self.portions.append(n)
        return self.x[first : first + n]

    def log_prob(self, x: Tensor) -> Tensor:
        return normal(2, 1.0).log_prob(x)


@pytest.mark.parametrize("batch", [1, 7, 40, 1000])
@pytest.mark.parametrize("offset", [0.0, 1e4, -1e4])
def test_result_does_not_depend_on_the_batch_size(
    batch: int, offset: float, generator: Generator
) -> None:
    target, x = correlated(), torch.randn(100, 2, generator=generator)
    proposal = Prepared(x)
    f = lambda x: target.log_density(x) + offset
    found = importance_log_partition(f, proposal, 100, batch=batch)
    w = (target.log_density(x) - proposal.log_prob(x)).exp()
    assert found.value == pytest.approx(w.mean().log().item() + offset, abs=1e-8)
    assert found.error == pytest.approx((w.std() / 10 / w.mean()).item(), rel=1e-6)
    assert found.effective_sample_size == pytest.approx(
        (w.sum() ** 2 / w.square().sum()).item(), rel=1e-6
    )
    assert max(proposal.portions) <= batch
    assert sum(proposal.portions) == 100


def test_half_of_a_density_has_half_the_normalizing_constant(generator: Generator) -> None:
    half = lambda x: torch.where(x[:, 0] > 0, -x.square().sum(1) / 2, -torch.inf)
    found = importance_log_partition(half, normal(2, 1.0), 10_000, generator=generator)
    assert abs(found.value - math.log(math.pi)) < 5 * found.error
    assert found.effective_sample_size == pytest.approx(5000, rel=0.05)


def test_mixture_is_normalized_and_its_samples_follow_it(generator: Generator) -> None:
    centers, s = torch.tensor([[-1.0, 0.0], [2.0, 1.0], [2.0, -1.0]]), 0.5
    mixture = MixtureProposal((GaussianMixtureProposal(centers, s), normal(2, 1.0)))
    axis = torch.linspace(-6, 7, 301)
    mass = mixture.log_prob(torch.cartesian_prod(axis, axis)).exp().sum()
    assert (mass * (axis[1] - axis[0]) ** 2).item() == pytest.approx(1, abs=1e-6)
    n = 50_000
    x = mixture.sample(n, generator)
    mean = centers.mean(0) / 2
    spread = (centers.T @ centers / 3 + s**2 * torch.eye(2) + torch.eye(2)) / 2
    v = spread - mean[:, None] * mean
    assert ((x.mean(0) - mean).abs() < 5 * (v.diagonal() / n).sqrt()).all()
    torch.testing.assert_close(x.T.cov(), v, rtol=0, atol=0.06)


def test_proposals_support_images(generator: Generator) -> None:
    """N(0, I) without its normalizer on events of shape (1, 2, 2)."""
    q = GaussianMixtureProposal(torch.zeros(1, 1, 2, 2, dtype=torch.float32), 1.2)
    assert q.sample(3, generator).shape == (3, 1, 2, 2)
    assert q.sample(3, generator).dtype == torch.float32
    f = lambda x: -x.flatten(1).square().sum(1) / 2
    found = importance_log_partition(f, q, 5000, generator=generator)
    assert abs(found.value - 2 * math.log(2 * math.pi)) < 5 * found.error


def test_invalid_arguments_are_refused() -> None:
    q = normal(1, 1.0)
    with pytest.raises(ValueError, match="NaN, so their mean does not exist"):
        importance_log_partition(lambda x: x[:, 0].log(), q, 100)
    with pytest.raises(ValueError, match="n must be an integer of at least 2, but is 1"):
        importance_log_partition(lambda x: x[:, 0], q, 1)
    with pytest.raises(ValueError, match="batch must be"):
        importance_log_partition(lambda x: x[:, 0], q, 10, batch=0)
    with pytest.raises(
        ValueError, match=r"must return shape \(B,\) = \(10,\), but returned \(10, 1\)"
    ):
        importance_log_partition(lambda x: x, q, 10)
    with pytest.raises(ValueError, match="scale must be a positive number"):
        normal(1, 0.0)
    with pytest.raises(ValueError, match="at least one center"):
        GaussianMixtureProposal(torch.zeros(0, 2), 1.0)
    with pytest.raises(TypeError, match="floating-point"):
        GaussianMixtureProposal(torch.zeros(1, 2, dtype=torch.long), 1.0)
    with pytest.raises(ValueError, match="at least one proposal"):
        MixtureProposal(())


def test_log_weights_do_not_depend_on_the_batch(generator: Generator) -> None:
    f, x = lambda x: -x.abs().sum(1), torch.randn(10, 2, generator=generator)
    expected = f(x) - normal(2, 1.5).log_prob(x)
    for batch in (1, 3, 10, 100):
        found = importance_log_weights(f, normal(2, 1.5), x, batch=batch)
        torch.testing.assert_close(found, expected)
    with pytest.raises(ValueError, match="batch must be"):
        importance_log_weights(f, normal(2, 1.5), x, batch=0)


BROAD = MultivariateNormal(torch.zeros(2), torch.tensor([[4.0, 1.0], [1.0, 3.0]]))


@pytest.mark.parametrize("kind", ["torch", "fitted", "zuko", "mixture"])
def test_any_density_with_log_prob_and_sample_is_a_proposal(
    kind: str, generator: Generator
) -> None:
    """The estimate is right, repeats with the generator and leaves torch's own one alone."""
    target = correlated()
    if kind == "zuko":
        zuko = pytest.importorskip("zuko")
        proposal = zuko.flows.MAF(2, hidden_features=(8,))()
    else:
        fitted = fit_gaussian(BROAD.sample((2000,)))
        proposal = {"torch": BROAD, "fitted": fitted, "mixture": MixtureProposal((BROAD, fitted))}[
            kind
        ]
    state, again = torch.get_rng_state(), Generator().set_state(generator.get_state())
    estimate = importance_log_partition(target.log_density, proposal, 20_000, generator=generator)
    assert torch.equal(state, torch.get_rng_state())
    assert abs(estimate.value - target.log_partition) < 5 * estimate.error < 0.2
    repeated = importance_log_partition(target.log_density, proposal, 20_000, generator=again)
    assert repeated == estimate
    x = target.sample(5, generator)
    expected = target.log_density(x) - proposal.log_prob(x)
    torch.testing.assert_close(importance_log_weights(target.log_density, proposal, x), expected)


def test_what_is_no_proposal_is_refused() -> None:
    f = lambda x: x.sum(1)
    with pytest.raises(TypeError, match=r"`log_prob` and `sample`, .* but got function"):
        importance_log_partition(f, f, 10)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"Independent\(dist, 1\)"):
        importance_log_partition(f, TorchNormal(torch.zeros(2), 1.0), 10)
    wrapped = Independent(TorchNormal(torch.zeros(2), 1.0), 1)
    assert importance_log_partition(wrapped, wrapped, 10).value == 0
