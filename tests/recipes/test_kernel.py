"""Table 1: what its rows are, that engines agree, and that its numbers are what they say."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import Generator, Tensor
from torch.distributions import Independent, MultivariateNormal, Normal

from fdsm.data import Chain, Dataset, Table
from fdsm.evaluation.measurement import median_of
from fdsm.models import DKEF, SlicedEquations
from fdsm.objectives import SSM
from fdsm.paper.tables.table1 import CPU
from fdsm.projections import Rademacher
from fdsm.recipes.kernel import KernelFamily, LocalGaussians, adapt_proposal
from fdsm.samplers import GaussianMixtureProposal, importance_log_partition
from fdsm.serialize import to_json
from fdsm.training import GradientStep

ROWS = {row.name: row for row in CPU}


def small(way: str) -> tuple[KernelFamily, DKEF, Dataset]:
    recipe = replace(ROWS[f"RedWine {way}"], inducing=12)
    x = torch.randn(300, 3, generator=Generator().manual_seed(0), dtype=torch.float64)
    data = Dataset(x[:200], x[200:250], x[250:], Chain(()), {})
    torch.manual_seed(0)
    model = recipe.build(data.shape)
    assert isinstance(model, DKEF)
    recipe.before_training(model, data, Generator().manual_seed(0))
    return recipe, model, data


def loss_and_gradients(way: str) -> tuple[Tensor, dict[str, Tensor]]:
    recipe, model, data = small(way)
    step = recipe.step(model, data)
    assert isinstance(step, GradientStep)
    loss = step.loss(data.train, Generator().manual_seed(5), 0.0).mean()
    loss.backward()  # type: ignore[no-untyped-call]
    return loss, {name: cast(Tensor, p.grad) for name, p in model.named_parameters()}


def test_series_and_nested_gradients_train_alike() -> None:
    loss, gradients = loss_and_gradients("Taylor-SSM")
    expected, others = loss_and_gradients("SSM")
    torch.testing.assert_close(loss, expected)
    for name, gradient in gradients.items():
        torch.testing.assert_close(gradient, others[name], msg=name)


def test_series_and_nested_gradients_validate_alike() -> None:
    values = []
    for way in ("Taylor-SSM", "SSM"):
        recipe, model, data = small(way)
        values.append(recipe.validate(model, data, Generator().manual_seed(2))["sm_loss"])
    assert values[0] == pytest.approx(values[1], rel=1e-10)


def test_many_rows_are_solved_for_as_all_at_once() -> None:
    """Validation solves on 200 rows in parts, and takes the loss of the density so found."""
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


def test_a_family_without_kernels_has_the_likelihood_of_its_base() -> None:
    """Then $p = N(0, 4I)$, and the loss of every row is $-d/4 + ‖x‖²/32$."""
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
    losses = -3 / 4 + squares / 32
    assert metrics["exact_sm_loss"].value == pytest.approx(losses.mean().item())
    assert metrics["exact_sm_loss_median"].value == pytest.approx(losses.median().item(), abs=0.02)


def test_neighbourhoods_are_a_density_with_the_moments_of_their_samples(
    generator: Generator,
) -> None:
    rows = torch.randn(60, 2, generator=generator) * torch.tensor([1.0, 3.0])
    near = LocalGaussians.of(rows, 1.0, neighbours=8)
    axis = torch.linspace(-20, 20, 201)
    density = near.log_density(torch.cartesian_prod(axis, axis)).exp()
    assert density.sum().item() * 0.2**2 == pytest.approx(1, abs=5e-3)
    x = near.sample(50_000, generator)
    covariances = near.factors @ near.factors.mT
    expected = near.centres.T.cov(correction=0) + covariances.mean(0)
    torch.testing.assert_close(x.T.cov(), expected, rtol=0.03, atol=0.1)
    torch.testing.assert_close(x.mean(0), rows.mean(0), rtol=0, atol=0.1)


def test_neighbourhoods_are_those_of_the_formula(generator: Generator) -> None:
    rows = torch.randn(20, 3, generator=generator)
    near = LocalGaussians.of(rows, 0.5, neighbours=7, most=4)
    parts = MultivariateNormal(near.centres, scale_tril=near.factors)
    x = torch.randn(5, 3, generator=generator)
    log_parts = parts.log_prob(x[:, None])  # type: ignore[no-untyped-call]
    expected = log_parts.logsumexp(1) - math.log(4)
    torch.testing.assert_close(near.log_density(x), expected)
    nearest = rows[(rows - rows[0]).norm(dim=1).argsort()[:7]] - rows[0]
    covariance = nearest.T @ nearest / 7
    covariance = 0.9 * covariance + 0.1 * covariance.trace() / 3 * torch.eye(3)
    torch.testing.assert_close(near.factors[0] @ near.factors[0].T, covariance / 4)


def test_rows_that_coincide_have_neighbourhoods() -> None:
    near = LocalGaussians.of(torch.zeros(5, 2), 1.0)
    assert near.log_density(torch.zeros(1, 2)).item() == pytest.approx(
        -math.log(2 * math.pi * 1e-13), rel=1e-6
    )


def test_refinement_finds_what_rows_do_not_show(generator: Generator) -> None:
    """Of $N(μ, Σ)$ with $Σ$ far from round, from rows in the wrong place; $Z = 1$."""
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


def test_the_median_has_the_error_of_a_normal_sample(generator: Generator) -> None:
    r"""It is $\sqrt{π/2} σ/\sqrt n$, and a few outliers change neither."""
    x = 3 + 2 * torch.randn(40_000, generator=generator)
    x[:5] = 1e9
    found = median_of(x, scale="any")
    error = math.sqrt(math.pi / 2) * 2 / 200
    assert found.error == pytest.approx(error, rel=0.1)
    assert found.value == pytest.approx(3, abs=4 * error)
    assert found.settings == {"scale": "any", "rows": 40_000}
    assert median_of(x[:1]).error is None
    with pytest.raises(ValueError, match="one value per example"):
        median_of(x[None])


@pytest.mark.parametrize(("n", "inducing", "batch"), [(50, 20, 20), (2000, 200, 200)])
def test_a_table_of_ones_own_gets_a_plan_for_a_trial(
    n: int, inducing: int, batch: int, tmp_path: Path
) -> None:
    path, generator = tmp_path / "own.csv", Generator().manual_seed(0)
    values = torch.randn(n, 2, generator=generator).tolist()
    path.write_text("\n".join(f"{a},{b}" for a, b in values), encoding="utf-8")
    recipe = CPU[0].with_data(Table(path))
    described = cast(dict[str, Any], to_json(recipe))
    assert (described["inducing"], described["plan"]["batch"]) == (inducing, batch)
    assert described["plan"]["validate_every"] == 20
    data = recipe.data.load()
    assert inducing <= len(data.train)
    assert batch <= len(data.train)
