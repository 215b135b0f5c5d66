"""Flows: a trained flow has the likelihood and the samples of the data."""

import math

import pytest
import torch
from torch import Generator

from fdsm.objectives import DSM, MLE, ApproximateBackprop, CurvaturePropagation
from fdsm.training import Adam, GradientStep
from fdsm.typing import Objective
from paper.data import GaussianDensity, SyntheticData
from paper.recipes import Flow

from .recipe_cases import fit_model, silent, splits

TARGET = GaussianDensity((1.0, -1.0), ((1.0, 0.8), (0.8, 1.0)))


def flow(objective: Objective) -> Flow:
    return Flow(
        "flow", objective, SyntheticData(TARGET, n=4000), hidden=16, depth=1, optimizer=Adam(1e-2)
    )


def test_maximum_likelihood_reaches_the_entropy_of_a_gaussian() -> None:
    recipe = flow(MLE())
    model, data = fit_model(recipe, 300, 256)
    generator = Generator().manual_seed(0)
    metrics = recipe.evaluate(model, data, generator)
    truth = -TARGET.log_density(data.test).mean().item()
    assert metrics["nll"].value == pytest.approx(truth, abs=0.05)
    assert recipe.validate(model, data, generator)["nll"] == pytest.approx(
        -TARGET.log_density(data.validation).mean().item(), abs=0.05
    )
    samples = recipe.sample(model, torch.Size([2]), 4000, generator, silent)
    torch.testing.assert_close(samples.mean(0), torch.tensor([1.0, -1.0]), atol=0.15, rtol=0)
    expected = torch.tensor([[1.0, 0.8], [0.8, 1.0]])
    torch.testing.assert_close(samples.T.cov(), expected, atol=0.15, rtol=0)


def test_log_density_is_normalized() -> None:
    recipe = flow(MLE())
    torch.manual_seed(0)
    f = recipe.log_density(recipe.build(torch.Size([2])))
    axis = torch.linspace(-15, 15, 301)
    with torch.no_grad():
        mass = f(torch.cartesian_prod(axis, axis)).exp().sum() * 0.1**2
    assert recipe.is_normalized
    assert mass.item() == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize(
    "objective", [MLE(), DSM(0.1), ApproximateBackprop(), CurvaturePropagation()], ids=repr
)
def test_step_minimizes_the_objective_of_the_model(
    objective: Objective, generator: Generator
) -> None:
    recipe = flow(objective)
    torch.manual_seed(0)
    model = recipe.build(torch.Size([2]))
    x = torch.randn(8, 2, generator=generator)
    step = recipe.step(model, splits(x, x, x))
    assert isinstance(step, GradientStep)
    losses = step.update.loss(x, Generator().manual_seed(1), 0.0)
    layerwise = isinstance(objective, (ApproximateBackprop, CurvaturePropagation))
    f = model.density_layers if layerwise else model
    torch.testing.assert_close(losses, objective(f, x, generator=Generator().manual_seed(1)))
    assert all(math.isfinite(loss) for loss in losses.tolist())
