"""SUMO on a linear model with known marginal and posterior."""

from pathlib import Path

import pytest
import torch
from torch import Generator
from torch.distributions import MultivariateNormal, kl_divergence

from fdsm.derivatives import score_of
from fdsm.evaluation import relative_fisher_divergence
from fdsm.objectives import SUMO
from fdsm.objectives.latent import draw_terms, log_likelihood
from fdsm.training import Adam, CosineSchedule
from paper.run_store import RunStore
from paper.studies.sumo import (
    CPU,
    FD_SSM,
    Excess,
    LinearGaussian,
    SUMOBound,
    divergence,
    independent_excess,
    relative_fisher,
)


def model(scale: float = 1.0) -> LinearGaussian:
    loadings = scale * torch.tensor([[1.0, 0.2], [-0.5, 0.8], [0.3, 0.4]])
    return LinearGaussian(loadings, torch.tensor([0.1, -0.4, 0.2]), 0.6)


def normal(model: LinearGaussian) -> MultivariateNormal:
    return MultivariateNormal(model.b.detach(), model.covariance().detach())


def excess(model: LinearGaussian, x: torch.Tensor, generator: Generator) -> torch.Tensor:
    bound = SUMO((2,), Excess(FD_SSM, model.log_density))
    return bound(model.log_weight, x, generator=generator).detach()


def test_marginal_agrees_with_torch_and_with_its_samples(generator: Generator) -> None:
    x = model().sample(100_000, generator)
    torch.testing.assert_close(model().log_density(x[:9]), normal(model()).log_prob(x[:9]))
    torch.testing.assert_close(x.T.cov(), model().covariance(), rtol=0, atol=0.03)
    torch.testing.assert_close(x.mean(0), model().b, rtol=0, atol=0.02)


def test_weights_average_to_the_marginal(generator: Generator) -> None:
    wrong = model().set_encoder(0.8, 1.3)
    x = torch.tensor([[0.5, -1.0, 0.3]])
    noise = torch.randn(200_000, 2, generator=generator)
    ratios = (wrong.log_weight(x.expand(len(noise), 3), noise) - wrong.log_density(x)).exp()
    assert abs(ratios.mean() - 1) < 5 * ratios.std() / len(ratios) ** 0.5
    assert ratios.std() > 0.1


def test_bound_equals_the_loss_for_the_posterior(generator: Generator) -> None:
    x = model().sample(50, generator)
    noise = torch.randn(50, 2, generator=generator)
    right = model().set_encoder()
    torch.testing.assert_close(right.log_weight(x, noise), right.log_density(x))
    torch.testing.assert_close(excess(right, x, generator), torch.zeros(50), rtol=0, atol=1e-8)


def test_gradients_of_bound_and_loss_agree_at_the_posterior(generator: Generator) -> None:
    """The excess is never negative and vanishes there, so its mean gradient is zero."""
    right, gradients = model().set_encoder(), []
    for _ in range(30):
        x = right.sample(200, generator)
        bound = SUMO((2,), Excess(FD_SSM, right.log_density))
        loss = bound(right.log_weight, x, generator=generator).mean()
        parts = torch.autograd.grad(loss, list(right.parameters()))
        gradients.append(torch.cat([g.flatten() for g in parts]))
    sample = torch.stack(gradients)
    errors = sample.std(0) / len(sample) ** 0.5
    assert (sample.mean(0).abs() < 5 * errors + 1e-9).all()
    assert errors.max() < 0.2


def test_an_encoder_that_is_too_wide_costs_nothing(generator: Generator) -> None:
    wide = model().set_encoder(1.0, 1.5)
    found = excess(wide, wide.sample(500, generator), generator)
    torch.testing.assert_close(found, torch.zeros(500), rtol=0, atol=1e-8)


@pytest.mark.parametrize(("gain", "width"), [(0.8, 1.5), (0.6, 1.2)])
def test_bound_exceeds_the_loss_for_a_wrong_mean(
    gain: float, width: float, generator: Generator
) -> None:
    wrong = model().set_encoder(gain, width)
    found = excess(wrong, wrong.sample(5000, generator), generator)
    assert found.mean() > 3 * found.std() / len(found) ** 0.5 > 0


def test_independent_draws_add_the_variance_of_sumo(generator: Generator) -> None:
    wrong, step = model().set_encoder(1.0, 1.3), 0.1
    x = wrong.sample(20_000, generator)
    with torch.no_grad():
        apart = independent_excess(wrong, x, step, 20, generator)
        estimates = []
        for _ in range(2):
            terms = draw_terms(x, 20, generator)
            noise = torch.randn(len(x), 21, 2, generator=generator)
            estimates.append(log_likelihood(wrong.log_weight)(x, noise, terms))
    variances = (estimates[0] - estimates[1]).square() / (8 * step**2)
    error = (apart.var() + variances.var()).sqrt() / len(x) ** 0.5
    assert error < 0.2 * variances.mean()
    assert abs(apart.mean() - variances.mean()) < 5 * error


def test_divergences_agree_with_torch_and_with_samples(generator: Generator) -> None:
    truth, other = model(), model(1.4)
    with torch.no_grad():
        other.b.add_(0.3)
    expected = kl_divergence(normal(truth), normal(other)).item()
    assert divergence(truth, other) == pytest.approx(expected)
    assert divergence(truth, truth) == pytest.approx(0, abs=1e-12)
    scores = [score_of(m.log_density) for m in (other, truth)]
    measured = relative_fisher_divergence(*scores, truth.sample(50_000, generator))
    assert measured.error is not None
    assert abs(relative_fisher(truth, other) - measured.value) < 5 * measured.error


def test_study_on_a_small_scale() -> None:
    study = SUMOBound(
        terms=(1, 10),
        gains=(0.8,),
        steps=(0.1,),
        rows=2000,
        optimizer=Adam(0.05, clip=10.0, schedule=CosineSchedule()),
        iterations=250,
        trainings=1,
    )
    result = study.run(RunStore(Path()), 0, lambda numbers: numbers)
    numbers = result.numbers
    assert numbers["excess, posterior"].value == pytest.approx(0, abs=1e-8)
    assert numbers["excess, too wide"].value == pytest.approx(0, abs=1e-8)
    assert numbers["excess, shrunk by 30 %"].value > numbers["excess, shrunk by 10 %"].value > 0
    for name in ("MLE", "FD-SSM", "FD-SSM by SUMO"):
        assert numbers[f"divergence, {name}"].value < 0.2
    trained = result.panels[-1].lines[-1]
    assert trained.x == (50, 100, 150, 200, 250)
    assert trained.y[-1] == numbers["divergence, FD-SSM by SUMO"].value < trained.y[0]
    precision = torch.linalg.inv(CPU._truth().covariance())
    assert numbers["loss, exact"].value == pytest.approx(-precision.trace().item() / 8)
