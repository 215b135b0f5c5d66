"""Energy-based models: validation, metrics and samples for known densities."""

from dataclasses import dataclass, replace

import pytest
import torch
from torch import Generator, Tensor, nn

from fdsm.derivatives import Autodiff, score_of
from fdsm.objectives import SSMVR, ViaScore
from fdsm.projections import Gaussian
from fdsm.samplers import Temperatures
from paper.data import Chain, Dataset, GaussianDensity, GaussianMixtureDensity, SyntheticData
from paper.recipes import HeldOut, ShuffledFeatures, TemperedSampling, ValidationMetric

from .recipe_cases import silent, splits, tiny

GAUSSIAN = SyntheticData(GaussianDensity((0.0, 0.0)), n=1000)
SSMVR_LOSS = ViaScore(SSMVR(Autodiff(), Gaussian()))


class Normal(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return -x.square().sum(1) / 2


def three_splits() -> dict[str, Tensor]:
    return {
        name: torch.randn(100, 2, generator=Generator().manual_seed(i))
        for i, name in enumerate(("train", "validation", "test"))
    }


def test_first_validation_metric_is_the_objective() -> None:
    """It decides when to stop. Without a common metric it is the only one."""
    recipe = replace(tiny, validation_rows=6)
    data, model = splits(**three_splits()), tiny.build(torch.Size([2]))
    found = recipe.validate(model, data, Generator().manual_seed(3))
    x = data.validation[:6]
    generator = Generator().manual_seed(3)
    assert found == {"loss": recipe.objective(model, x, generator=generator).mean().item()}
    recipe = replace(recipe, validation_metric=ValidationMetric("ssmvr", SSMVR_LOSS))
    assert list(recipe.validate(model, data, Generator())) == ["loss", "ssmvr"]


def test_common_validation_metric_does_not_depend_on_the_objective() -> None:
    """It takes its random numbers before the objective does."""
    data, model = splits(**three_splits()), tiny.build(torch.Size([2]))
    recipe = replace(tiny, validation_metric=ValidationMetric("ssmvr", SSMVR_LOSS))
    found = recipe.validate(model, data, Generator().manual_seed(3))["ssmvr"]
    losses = SSMVR(Autodiff(), Gaussian())(
        score_of(model), data.validation, generator=Generator().manual_seed(3)
    )
    assert found == pytest.approx(losses.mean().item(), rel=1e-5)


@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_each_split_is_used_for_its_purpose(split: str) -> None:
    """Changing the other rows changes neither the validation nor the exact loss."""
    recipe = replace(tiny, sm_eval_rows=50, ood_sources=())
    model, rows = recipe.build(torch.Size([2])), three_splits()

    def numbers(data: Dataset) -> tuple[float, float]:
        seeded = [Generator().manual_seed(0) for _ in range(2)]
        validated = recipe.validate(model, data, seeded[0])["loss"]
        return validated, recipe.evaluate(model, data, seeded[1])["exact_sm_loss"].value

    before = numbers(splits(**rows))
    after = numbers(splits(**{**rows, split: rows[split] + 3}))
    assert (before[0] != after[0]) == (split == "validation")
    assert (before[1] != after[1]) == (split == "test")


def test_true_density_has_no_fisher_divergence_and_its_samples_are_right() -> None:
    mixture = GaussianMixtureDensity(((-2.0, 0.0), (2.0, 0.0)), (0.3, 0.3))

    class Truth(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return mixture.log_density(x)

    tempering = TemperedSampling(
        Temperatures(100, 500, 0, 10.0), 0.1, 1e-3, spread=1.0, center=0.0
    )
    recipe = replace(tiny, data=SyntheticData(mixture, n=1000), tempering=tempering)
    data, generator = recipe.data.load(), Generator().manual_seed(0)
    metrics = recipe.evaluate(Truth(), data, generator)
    assert metrics["fisher"].value == pytest.approx(0, abs=1e-8)
    x = recipe.sample(Truth(), torch.Size([2]), 500, generator, silent)
    assert x[:, 0].abs().mean().item() == pytest.approx(2, abs=0.1)
    assert (x[:, 0] > 0).float().mean().item() == pytest.approx(0.5, abs=0.15)


def test_chains_start_around_the_given_center(
    monkeypatch: pytest.MonkeyPatch, generator: Generator
) -> None:
    monkeypatch.setattr(
        "paper.recipes.ebm.tempered_langevin", lambda score, start, *_, **__: start
    )
    recipe = replace(tiny, tempering=replace(tiny.tempering, center=0.5, spread=2.0))
    start = recipe.sample(Normal(), torch.Size([2]), 20_000, generator, silent)
    torch.testing.assert_close(start.mean(0), torch.full((2,), 0.5), atol=0.06, rtol=0)
    torch.testing.assert_close(start.std(0), torch.full((2,), 2.0), atol=0.06, rtol=0)


@dataclass(frozen=True)
class Far:
    name: str = "far"

    def rows(self, data: Dataset, generator: Generator) -> Tensor:
        return data.test + 10


def test_rows_far_from_the_data_have_an_auc_of_one() -> None:
    """If in- and out-of-distribution rows were exchanged, it would be zero."""
    recipe = replace(
        tiny, data=GAUSSIAN, ood_sources=(Far(), HeldOut("same", 50)), ood_rows=50, sm_eval_rows=50
    )
    metrics = recipe.evaluate(Normal(), recipe.data.load(), Generator().manual_seed(0))
    assert metrics["ood_auc_far"].value == pytest.approx(1, abs=0.02)
    assert metrics["ood_auc_same"].value == pytest.approx(0.5, abs=0.2)
    assert metrics["exact_sm_loss"].value == pytest.approx(-1, abs=0.4)


def test_shuffled_features_keep_the_marginals_and_remove_the_correlation(
    generator: Generator,
) -> None:
    x = torch.randn(100, 1, generator=generator) * torch.tensor([1.0, 2.0])
    data = Dataset(x, x, x, Chain(()), {})
    shuffled = ShuffledFeatures().rows(data, generator)
    assert torch.equal(shuffled.sort(0).values, x.sort(0).values)
    assert abs(shuffled.T.corrcoef()[0, 1].item()) < 0.4


def test_other_data_are_not_compared_with_those_of_the_paper() -> None:
    row = replace(tiny, ood_sources=(HeldOut("further", 10),))
    assert row.with_data(tiny.data).ood_sources == (ShuffledFeatures(),)
