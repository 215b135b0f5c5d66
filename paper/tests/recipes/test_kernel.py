"""Kernel families: engines agree, and metrics have their known values."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import cast

import pytest
import torch
from torch import Generator, Tensor
from torch.distributions import Independent, MultivariateNormal, Normal

from fdsm.derivatives import Autodiff, FiniteDifference, Taylor
from fdsm.models import DKEF, SlicedEquations
from fdsm.objectives import SSM
from fdsm.projections import Rademacher, Sphere
from fdsm.samplers import (
    GaussianMixtureProposal,
    importance_log_partition,
    importance_log_weights,
)
from fdsm.training import GradientStep
from paper.data import Dataset, GaussianDensity, Source, SyntheticData
from paper.recipes import KernelFamily, TrainingPlan
from paper.recipes.kernel import LocalGaussians, adapt_proposal, likelihood_from_both_ends

from .recipe_cases import fit_model, silent, splits

OBJECTIVES = {
    "SSM": SSM(Autodiff(), Rademacher()),
    "FD-SSM": SSM(FiniteDifference(), Sphere(0.1)),
    "Taylor-SSM": SSM(Taylor(), Rademacher()),
}


@pytest.fixture(autouse=True)
def _double(_float32: None) -> Iterator[None]:
    """Kernel families are solved in float64."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def family(name: str = "SSM", source: Source | None = None, inducing: int = 12) -> KernelFamily:
    source = source or SyntheticData(GaussianDensity((0.0, 0.0)))
    return KernelFamily(
        name, OBJECTIVES[name], source, inducing=inducing, plan=TrainingPlan(60, batch=200)
    )


def small(name: str) -> tuple[KernelFamily, DKEF, Dataset]:
    recipe = family(name)
    x = torch.randn(300, 3, generator=Generator().manual_seed(0))
    data = splits(x[:200], x[200:250], x[250:])
    torch.manual_seed(0)
    model = recipe.build(data.shape)
    assert isinstance(model, DKEF)
    recipe.before_training(model, data, Generator().manual_seed(0))
    return recipe, model, data


def loss_and_gradients(name: str) -> tuple[Tensor, dict[str, Tensor]]:
    recipe, model, data = small(name)
    step = recipe.step(model, data)
    assert isinstance(step, GradientStep)
    loss = step.update.loss(data.train, Generator().manual_seed(5), 0.0).mean()
    loss.backward()  # type: ignore[no-untyped-call]
    return loss, {name: cast(Tensor, p.grad) for name, p in model.named_parameters()}


def test_taylor_and_autodiff_have_the_same_loss_and_gradients() -> None:
    loss, gradients = loss_and_gradients("Taylor-SSM")
    expected, others = loss_and_gradients("SSM")
    torch.testing.assert_close(loss, expected)
    for name, gradient in gradients.items():
        torch.testing.assert_close(gradient, others[name], msg=name)


def test_taylor_and_autodiff_have_the_same_validation_loss() -> None:
    values = []
    for name in ("Taylor-SSM", "SSM"):
        recipe, model, data = small(name)
        values.append(recipe.validate(model, data, Generator().manual_seed(2))["sm_loss"])
    assert values[0] == pytest.approx(values[1], rel=1e-10)


def test_equations_summed_over_parts_have_the_solution_of_all_rows() -> None:
    """Validation solves on 200 rows in parts, and returns the loss of that density."""
    recipe, model, data = small("SSM")
    generator = Generator().manual_seed(3)
    rows = data.train[torch.randperm(200, generator=generator)]
    v = recipe.projection.sample(rows, generator)
    density = model.solve(rows, v, SlicedEquations())
    u = Rademacher().sample(data.validation, generator)
    assert isinstance(recipe.objective, SSM)
    expected = 3 * recipe.objective.at(density, data.validation, u).mean()
    found = recipe.validate(model, data, Generator().manual_seed(3))["sm_loss"]
    assert found == pytest.approx(expected.item(), rel=1e-10)


def test_family_without_kernels_has_the_likelihood_of_its_base_measure() -> None:
    """Then p is N(0, 4I), and the loss of a row is -d/4 + ‖x‖²/32."""
    recipe, model, data = small("FD-SSM")
    recipe = replace(recipe, partition_samples=20_000)
    model.alpha.fill_(1e-14)
    metrics = recipe.evaluate(model, data, Generator().manual_seed(0))
    squares = data.test.square().sum(1)
    truth = 1.5 * math.log(8 * math.pi) + squares.mean().item() / 8
    assert metrics["nll"].value == pytest.approx(truth, abs=1e-9)
    assert metrics["effective_sample_size"].value == pytest.approx(20_000)
    near = metrics["nll_near_data"]
    assert near.settings["partition_samples"] == 2000
    assert near.value == pytest.approx(truth, abs=0.1)
    assert (
        near.settings["effective_sample_size"] == metrics["effective_sample_size_near_data"].value
    )
    assert 400 < metrics["effective_sample_size_near_data"].value < 2000
    ends = metrics["nll_both_ends"]
    assert ends.value == pytest.approx(truth, abs=0.1)
    assert ends.settings["consistent"]
    losses = -3 / 4 + squares / 32
    assert metrics["exact_sm_loss"].value == pytest.approx(losses.mean().item())
    assert metrics["exact_sm_loss_median"].value == pytest.approx(losses.median().item(), abs=0.02)


def test_local_gaussians_are_a_density_with_the_moments_of_their_samples(
    generator: Generator,
) -> None:
    rows = torch.randn(60, 2, generator=generator) * torch.tensor([1.0, 3.0])
    near = LocalGaussians.of(rows, 1.0, neighbors=8)
    axis = torch.linspace(-20, 20, 201)
    density = near.log_prob(torch.cartesian_prod(axis, axis)).exp()
    assert density.sum().item() * 0.2**2 == pytest.approx(1, abs=5e-3)
    x = near.sample(50_000, generator)
    covariances = near.factors @ near.factors.mT
    expected = near.centers.T.cov(correction=0) + covariances.mean(0)
    torch.testing.assert_close(x.T.cov(), expected, rtol=0.03, atol=0.1)
    torch.testing.assert_close(x.mean(0), rows.mean(0), rtol=0, atol=0.1)


def test_local_gaussians_follow_their_formula(generator: Generator) -> None:
    rows = torch.randn(20, 3, generator=generator)
    near = LocalGaussians.of(rows, 0.5, neighbors=7, most=4)
    parts = MultivariateNormal(near.centers, scale_tril=near.factors)
    x = torch.randn(5, 3, generator=generator)
    log_parts = parts.log_prob(x[:, None])  # type: ignore[no-untyped-call]
    expected = log_parts.logsumexp(1) - math.log(4)
    torch.testing.assert_close(near.log_prob(x), expected)
    nearest = rows[(rows - rows[0]).norm(dim=1).argsort()[:7]] - rows[0]
    covariance = nearest.T @ nearest / 7
    covariance = 0.9 * covariance + 0.1 * covariance.trace() / 3 * torch.eye(3)
    torch.testing.assert_close(near.factors[0] @ near.factors[0].T, covariance / 4)


def test_local_gaussians_of_equal_rows_are_not_singular() -> None:
    near = LocalGaussians.of(torch.zeros(5, 2), 1.0)
    assert near.log_prob(torch.zeros(1, 2)).item() == pytest.approx(
        -math.log(2 * math.pi * 1e-13), rel=1e-6
    )


def test_adapted_proposal_finds_a_density_away_from_the_rows(generator: Generator) -> None:
    """The density is N(μ, Σ) with unequal variances, and the rows are elsewhere. Z is 1."""
    mean, scales = torch.tensor([1.5, 0.0, 0.0]), torch.tensor([0.05, 0.5, 1.0])
    normal = Independent(Normal(mean, scales), 1)
    rows = torch.randn(200, 3, generator=generator)
    broad = GaussianMixtureProposal(torch.zeros(1, 3), 2.0)
    sizes = []
    for rounds in (0, 2):
        proposal = adapt_proposal(
            normal.log_prob, rows, broad, pilot=2000, rounds=rounds, generator=generator
        )
        found = importance_log_partition(normal.log_prob, proposal, 4000, generator=generator)
        assert abs(found.value) < 4 * found.error
        sizes.append(found.effective_sample_size)
    assert sizes[1] > 5 * sizes[0]


def test_a_mode_that_the_proposal_misses_is_noticed_from_the_other_end(
    generator: Generator,
) -> None:
    """The density is N(0, I) + N(8, I), so log Z = log 2, and the proposal is N(0, I)."""
    proposal = GaussianMixtureProposal(torch.zeros(1, 2), 1.0)
    f = lambda x: torch.logaddexp(proposal.log_prob(x), proposal.log_prob(x - 8))
    rows = torch.randn(400, 2, generator=generator) + 8 * (torch.arange(400) % 2)[:, None]
    x = torch.zeros(2, 2)
    forward = importance_log_weights(f, proposal, proposal.sample(2000, generator))
    found = likelihood_from_both_ends(f, x, rows, proposal, forward, generator)
    assert found.value == pytest.approx(math.log(2) + math.log(2 * math.pi), abs=0.1)
    assert found.settings["forward"] == pytest.approx(0, abs=0.01)
    assert not found.settings["consistent"]
    assert found.error == pytest.approx(math.log(2) / 2, abs=0.1)


def test_trained_family_reaches_the_smallest_loss_of_a_gaussian() -> None:
    """For N(0, I) in two dimensions it is -1, and the entropy is log 2πe."""
    recipe = replace(
        family(source=SyntheticData(GaussianDensity((0.0, 0.0)), n=2000), inducing=30),
        penalty_steps=20,
        partition_samples=5_000,
        chain_steps=20,
    )
    model, data = fit_model(recipe, 60, 200)
    metrics = recipe.evaluate(model, data, Generator().manual_seed(0))
    assert metrics["exact_sm_loss"].value == pytest.approx(-1, abs=0.15)
    assert metrics["nll"].value == pytest.approx(math.log(2 * math.pi * math.e), abs=0.15)
    assert 250 < cast(float, metrics["nll"].settings["effective_sample_size"]) < 5_000
    assert metrics["nll_near_data"].value == pytest.approx(metrics["nll"].value, abs=0.05)
    samples = recipe.sample(model, torch.Size([2]), 400, Generator().manual_seed(0), silent)
    torch.testing.assert_close(samples.double().T.cov(), torch.eye(2), atol=0.5, rtol=0)


def test_inducing_points_start_at_different_training_rows(generator: Generator) -> None:
    recipe = family(source=SyntheticData(GaussianDensity((5.0, -5.0)), n=200), inducing=30)
    data = recipe.data.load()
    model = recipe.build(data.shape)
    assert isinstance(model, DKEF)
    recipe.before_training(model, data, generator)
    distances = torch.cdist(model.inducing, data.train.double()).min(1)
    assert distances.values.max() == 0
    assert len(distances.indices.unique()) == 30


def test_validation_rows_decide_the_validation_loss_and_the_penalty() -> None:
    recipe = replace(family(inducing=20), penalty_steps=5)
    train, held = (torch.randn(300, 2, generator=Generator().manual_seed(i)) for i in (0, 1))
    values = []
    for shift in (0.0, 1.0):
        data = splits(train, held + shift, held)
        torch.manual_seed(0)
        model = recipe.build(torch.Size([2]))
        assert isinstance(model, DKEF)
        recipe.before_training(model, data, Generator().manual_seed(0))
        values.append(recipe.validate(model, data, Generator().manual_seed(0))["sm_loss"])
    assert values[0] != values[1]
    before = model.log_penalty.item()
    recipe.after_training(model, data, Generator().manual_seed(0))
    assert abs(model.log_penalty.item() - before) > 1e-4


def test_training_loss_is_summed_over_dimensions(generator: Generator) -> None:
    """With flat kernels it is that of the base measure: -d/4 + ‖x‖²/32."""
    recipe = family(inducing=10)
    torch.manual_seed(0)
    model = recipe.build(torch.Size([2]))
    assert isinstance(model, DKEF)
    with torch.no_grad():
        model.features.log_lengthscales.fill_(12.0)
    step = recipe.step(model, cast(Dataset, None))
    assert isinstance(step, GradientStep)
    x = torch.randn(20_000, 2, generator=generator)
    losses = step.update.loss(x, generator, 0.0)
    expected = -0.5 + x[10_000:].square().sum(1).mean().item() / 32
    assert losses.mean().item() == pytest.approx(expected, abs=0.02)


def test_settings_that_cannot_work_are_refused(generator: Generator) -> None:
    with pytest.raises(ValueError, match=r"plan.batch must be at least 2"):
        replace(family(), plan=TrainingPlan(batch=1))
    with pytest.raises(ValueError, match=r"needs a table, but an event has shape \(1, 8, 8\)"):
        family().build(torch.Size([1, 8, 8]))
    recipe = family(source=SyntheticData(GaussianDensity((0.0, 0.0)), n=50), inducing=80)
    data = recipe.data.load()
    with pytest.raises(ValueError, match=r"80 inducing points .* there are 50. Set inducing=25"):
        recipe.before_training(recipe.build(data.shape), data, generator)
