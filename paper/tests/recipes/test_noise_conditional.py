"""Noise-conditional energy models: densities and samples at known noise levels."""

from dataclasses import replace

import pytest
import torch
from torch import Generator, Tensor, nn

from fdsm.evaluation import mean_of, sm_losses
from fdsm.models import NoiseScaled
from fdsm.noise import Geometric
from fdsm.objectives import Annealed, AnnealedDSM, ViaScore
from fdsm.training import Adam, CosineSchedule
from paper.data import (
    Chain,
    Dataset,
    GaussianMixtureDensity,
    Identity,
    SyntheticData,
)
from paper.recipes import NoiseConditionalEBM, NoiseConditionalScore, TrainingPlan
from paper.recipes.networks import Network

from .recipe_cases import fit_model, silent, splits

LEVELS = Geometric(3.0, 0.3, 10)
MIXTURE = GaussianMixtureDensity(((-0.9, 0.0), (0.9, 0.0)), (0.43, 1.0))
NOISY = GaussianMixtureDensity(
    MIXTURE.means, tuple((scale**2 + LEVELS.last**2) ** 0.5 for scale in MIXTURE.scales)
)
"""The mixture with the noise of the smallest level."""


class Zero(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return 0 * x.flatten(1).sum(1)


class Constant:
    """The settings of a network without a correction of the Gaussian term."""

    def build(self, shape: torch.Size) -> nn.Module:
        return NoiseScaled(Zero())


class Small:
    """The settings of a small network."""

    def build(self, shape: torch.Size) -> nn.Module:
        return NoiseScaled(
            nn.Sequential(
                nn.Linear(shape[0], 32), nn.SiLU(), nn.Linear(32, 32), nn.SiLU(),
                nn.Linear(32, 1), nn.Flatten(0),
            )
        )  # fmt: skip


def recipe(network: Network, iterations: int = 1500) -> NoiseConditionalEBM:
    return NoiseConditionalEBM(
        "noise",
        ViaScore(AnnealedDSM(LEVELS)),
        SyntheticData(MIXTURE, n=10_000, transform=Identity()),
        network,
        LEVELS,
        Adam(5e-3, (0.9, 0.99), clip=10.0, schedule=CosineSchedule()),
        plan=TrainingPlan(iterations, 256),
    )


@pytest.mark.parametrize("sigma", [0.1, 0.3, 1.0])
def test_samples_of_noisy_standard_normal_data_are_the_means_of_clean_data(
    sigma: float, generator: Generator
) -> None:
    """The last step divides samples of N(0, (1 + σ²) I) by 1 + σ²."""
    one = replace(recipe(Constant()), levels=Geometric(3.0, sigma, 5), sampling_levels=400)
    samples = one.sample(NoiseScaled(Zero()), torch.Size([2]), 4000, generator, silent)
    torch.testing.assert_close(samples.mean(0), torch.zeros(2), atol=0.08, rtol=0)
    expected = torch.eye(2) / (1 + sigma**2)
    torch.testing.assert_close(samples.T.cov(), expected, atol=0.09, rtol=0)


def test_samples_of_a_score_have_the_moments_of_its_data(generator: Generator) -> None:
    """The score of N(0, 0.2² I) with noise, without the last denoising, ends at σ = 0.1."""
    one = NoiseConditionalScore(
        "score", Annealed(), SyntheticData(MIXTURE), levels=Geometric(3.0, 0.1, 5),
        sampling_levels=400,
    )  # fmt: skip

    class Exact(nn.Module):
        def forward(self, x: Tensor, sigma: Tensor) -> Tensor:
            return -x / (0.04 + sigma.square())[:, None]

    samples = one.sample(Exact(), torch.Size([2]), 4000, generator, silent)
    expected = torch.eye(2) * 0.04**2 / (0.04 + 0.01)  # the last step multiplies by 0.04 / 0.05
    torch.testing.assert_close(samples.T.cov(), expected, atol=0.003, rtol=0)


def test_chains_start_at_the_density_of_the_largest_level(
    monkeypatch: pytest.MonkeyPatch, generator: Generator
) -> None:
    monkeypatch.setattr(
        "paper.recipes.noise_conditional.ancestral_sampling", lambda score, start, *_, **__: start
    )
    start = recipe(Constant()).sample(Zero(), torch.Size([2]), 20_000, generator, silent)
    torch.testing.assert_close(start.T.cov(), 10 * torch.eye(2), atol=0.4, rtol=0)  # 1 + 3²


@pytest.fixture(scope="module")
def trained() -> tuple[NoiseConditionalEBM, nn.Module, Dataset]:
    torch.set_default_dtype(torch.float32)
    one = recipe(Small())
    return one, *fit_model(one, one.plan.iterations, one.plan.batch)


def test_trained_model_has_the_loss_of_the_true_noisy_density(
    trained: tuple[NoiseConditionalEBM, nn.Module, Dataset],
) -> None:
    one, model, _ = trained
    x = NOISY.sample(4000, Generator().manual_seed(9))
    f = one.log_density(model)
    difference = mean_of(sm_losses(f, x) - sm_losses(NOISY.log_density, x))
    normal = mean_of(
        sm_losses(lambda y: -y.square().sum(1) / 2.18, x) - sm_losses(NOISY.log_density, x)
    )
    assert difference.error is not None
    assert -3 * difference.error <= difference.value < 0.15
    assert normal.value > 0.5  # the Gaussian that the network corrects
    assert one.noise_std == LEVELS.last
    assert not one.is_normalized


def test_samples_of_a_trained_model_have_the_moments_of_the_data(
    trained: tuple[NoiseConditionalEBM, nn.Module, Dataset],
) -> None:
    one, model, data = trained
    samples = one.sample(model, torch.Size([2]), 3000, Generator().manual_seed(0), silent)
    torch.testing.assert_close(samples.mean(0), data.train.mean(0), atol=0.12, rtol=0)
    torch.testing.assert_close(samples.T.cov(), data.train.T.cov(), atol=0.15, rtol=0)
    left = samples[samples[:, 0] < -0.9]
    right = samples[samples[:, 0] > 0.9]
    assert left[:, 1].std() < 0.7 * right[:, 1].std()  # 0.43 and 1


def test_validation_repeats_few_rows_with_other_noise(generator: Generator) -> None:
    """The mean over many noisy copies is close to that over many rows."""
    one = replace(recipe(Constant()), validation_rows=4000)
    model = NoiseScaled(Zero())
    x = torch.zeros(1, 2)
    found = one.validate(model, splits(x, x, x), generator)
    assert list(found) == ["loss"]
    many = x.expand(4000, 2)
    again = one.validate(model, splits(many, many, many), Generator().manual_seed(0))
    assert found["loss"] == pytest.approx(again["loss"], abs=0.05)
    first = replace(one, validation_rows=2).validate(model, splits(many, many, many), generator)
    assert first != found


def test_evaluation_is_left_to_the_comparison_with_references() -> None:
    one, x = recipe(Constant()), torch.zeros(3, 2)
    data = Dataset(x, x, x, Chain(()), {})
    assert one.evaluate(NoiseScaled(Zero()), data, Generator()) == {}
