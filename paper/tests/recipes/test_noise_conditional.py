"""Noise-conditional energy models: densities and samples at known noise levels."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Generator, Tensor, nn

from fdsm.derivatives import as_log_density, score_of
from fdsm.evaluation import mean_of, sm_losses
from fdsm.models import AtNoiseLevel, MeanOfMembers, NoiseScaled, OneMember
from fdsm.noise import Geometric
from fdsm.objectives import AnnealedDSM, ViaScore
from fdsm.training import Adam, CosineSchedule, fit
from paper.data import (
    Chain,
    Dataset,
    FillMissing,
    GaussianDensity,
    GaussianMixtureDensity,
    Identity,
    SyntheticData,
)
from paper.recipes import ConditionalMLP, CrossFittedEBM, NoiseConditionalEBM, TrainingPlan
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
    one = recipe(ConditionalMLP((32, 32)))
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
    assert difference.value <= 0.03 + 2 * difference.error
    assert difference.value >= -3 * difference.error
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


def test_trained_scaled_network_beats_the_gaussian() -> None:
    class Small:
        def build(self, shape: torch.Size) -> nn.Module:
            hidden = nn.Linear(shape[0], 32)
            return NoiseScaled(
                nn.Sequential(
                    hidden,
                    nn.SiLU(),
                    nn.Linear(32, 32),
                    nn.SiLU(),
                    nn.Linear(32, 1),
                    nn.Flatten(0),
                )
            )

    one = recipe(Small(), 600)
    model, data = fit_model(one, 600, 256)
    x = NOISY.sample(3000, Generator().manual_seed(9))
    gap = mean_of(sm_losses(one.log_density(model), x) - sm_losses(NOISY.log_density, x))
    normal = mean_of(
        sm_losses(one.log_density(NoiseScaled(Zero())), x) - sm_losses(NOISY.log_density, x)
    )
    assert -0.05 < gap.value < normal.value / 2
    samples = one.sample(model, torch.Size([2]), 2000, Generator().manual_seed(0), silent)
    torch.testing.assert_close(samples.mean(0), data.train.mean(0), atol=0.25, rtol=0)
    torch.testing.assert_close(samples.T.cov(), data.train.T.cov(), atol=0.4, rtol=0)


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


class NormalEnsemble(nn.Module):
    """Members that all have the log-density of noisy normal data of a given precision."""

    def __init__(self, precision: float = 1.0) -> None:
        super().__init__()
        self.precision = nn.Parameter(torch.tensor(precision))
        self.seen: list[Tensor] = []

    def forward(self, x: Tensor, sigma: Tensor) -> Tensor:
        self.seen.append(sigma)
        return -self.precision * x.square().sum(-1) / (2 * (1 + sigma.square()))


def cross_fitted(n: int = 2000, iterations: int = 400) -> CrossFittedEBM:
    normal = GaussianDensity((0.0, 0.0), ((1.0, 0.0), (0.0, 1.0)))
    return CrossFittedEBM(
        "cross",
        SyntheticData(normal, n=n, transform=Identity()),
        width=32,
        levels=Geometric(2.0, 0.1, 60),
        plan=TrainingPlan(iterations, 128),
    )


def numbered(n: int) -> Dataset:
    """Rows that hold their own number."""
    x = torch.arange(float(n))[:, None]
    return splits(x, x[:0], x[:0])


def test_folds_are_random_and_of_equal_size() -> None:
    one = cross_fitted()
    folds = one.fold_of_rows(1002)
    assert torch.equal(folds, one.fold_of_rows(1002))
    assert sorted(folds.bincount().tolist()) == [250, 250, 251, 251]
    assert (folds[:-1] == folds[1:]).double().mean().item() == pytest.approx(0.25, abs=0.05)


def test_member_never_sees_the_rows_of_its_own_fold(generator: Generator) -> None:
    one = cross_fitted()
    folds = one.fold_of_rows(60)
    batches = one.batches(numbered(60), 0, "cpu")
    seen: list[set[int]] = [set() for _ in range(4)]
    for iteration in range(40):
        batch = batches(iteration, generator)
        assert batch.shape == (4, 45, 1)
        for k in range(4):
            seen[k] |= set(batch[k, :, 0].long().tolist())
    for k in range(4):
        assert seen[k] == set((folds != k).nonzero().flatten().tolist())


def test_batch_depends_on_the_seed_and_the_iteration_only() -> None:
    one, data = cross_fitted(), numbered(60)
    batches = [one.batches(data, seed, "cpu") for seed in (0, 0, 1)]
    first, again, other = (batch(7, Generator().manual_seed(i)) for i, batch in enumerate(batches))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert not torch.equal(first, batches[0](8, Generator()))


def test_missing_cells_of_a_batch_have_the_values_of_donors_in_the_same_fold(
    generator: Generator,
) -> None:
    """Row 0 lacks its second cell. So no member sees the rows that it does not learn from."""
    x = torch.stack([torch.arange(40.0), 100 + torch.arange(40.0)], 1)
    x[0, 1] = torch.nan
    transform = Chain((Identity(), FillMissing())).fit(x)
    data = Dataset(x, x[:0], x[:0], transform, {})
    batches = cross_fitted().batches(data, 0, "cpu")
    rows = torch.cat([batches(i, generator).flatten(0, 1) for i in range(60)])
    assert not rows.isnan().any()
    filled = rows[rows[:, 0] == 0, 1]
    folds = cross_fitted().fold_of_rows(40)
    donors = (folds == folds[0]).nonzero().flatten()[1:6]
    assert set(filled.tolist()) == set((100.0 + donors).tolist())
    others = rows[rows[:, 0] > 0]
    assert torch.equal(others[:, 1], others[:, 0] + 100)


def test_loss_of_the_true_density_has_a_closed_form(generator: Generator) -> None:
    """The residual has the variance 1/(1 + σ²), and log σ is uniform between two levels."""
    one = cross_fitted()
    x = torch.randn(4, 50_000, 2, generator=generator)
    losses = one.losses(NormalEnsemble(), x, generator, create_graph=False)
    assert losses.shape == (4, 50_000)
    high, low = math.log(one.levels.first), math.log(one.levels.last)
    integral = lambda u: u - math.log1p(math.exp(2 * u)) / 2
    expected = (integral(high) - integral(low)) / (high - low) / 2
    assert losses.mean().item() == pytest.approx(expected, abs=0.003)
    for precision in (0.8, 1.2):
        wrong = one.losses(NormalEnsemble(precision), x, generator, create_graph=False)
        assert wrong.mean() > losses.mean() + 0.003


def test_loss_is_that_of_denoising_score_matching(
    monkeypatch: pytest.MonkeyPatch, generator: Generator
) -> None:
    """With given noise and levels, row by row: ½ ‖σ s(x + σε, σ) + ε‖² / D."""
    one = replace(cross_fitted(), levels=Geometric(0.5, 0.5 - 1e-7, 2))
    noise = torch.randn(4, 6, 3, generator=generator)
    monkeypatch.setattr("paper.recipes.noise_conditional.randn_like", lambda *_: noise)
    x = torch.randn(4, 6, 3, generator=generator)
    torch.manual_seed(0)
    model = one.build(torch.Size([3]))
    found = one.losses(model, x, generator, create_graph=False)
    for k in range(4):
        f = AtNoiseLevel(OneMember(model, 4, k), 0.5)
        score = score_of(f)(x[k] + 0.5 * noise[k])
        expected = (0.5 * score + noise[k]).square().sum(1) / 6
        torch.testing.assert_close(found[k], expected, rtol=1e-4, atol=1e-5)


def test_each_row_of_a_batch_has_its_own_part_of_the_noise_levels(generator: Generator) -> None:
    one, model = cross_fitted(), NormalEnsemble()
    one.losses(model, torch.zeros(4, 10, 2), generator)
    (sigma,) = model.seen
    share = (sigma / 0.1).log() / math.log(20)
    assert torch.equal((10 * share).floor(), torch.arange(10.0).expand(4, 10))
    assert share[0, 0] != share[1, 0]


def test_gradient_reaches_all_members_and_none_in_validation(generator: Generator) -> None:
    one = cross_fitted()
    model = one.build(torch.Size([2]))
    x = torch.randn(4, 8, 2, generator=generator)
    one.losses(model, x, generator).mean().backward()  # type: ignore[no-untyped-call]
    weight = model.rows.weight.grad
    assert weight is not None
    assert (weight.abs().amax((1, 2)) > 0).all()
    assert not one.losses(model, x, generator, create_graph=False).requires_grad


def test_validation_uses_the_rows_that_each_member_has_not_seen() -> None:
    one = cross_fitted()
    rows = one.held_out_inputs(numbered(62), 500)
    assert rows.shape == (4, 15, 1)
    folds = one.fold_of_rows(62)
    for k in range(4):
        assert (folds[rows[k, :, 0].long()] == k).all()
    assert one.held_out_inputs(numbered(62), 3).shape == (4, 3, 1)


def test_validation_is_the_mean_loss_of_repeated_rows(generator: Generator) -> None:
    """Eight rows at zero are repeated to 500 for each member. Their loss has a closed form."""
    one = cross_fitted()
    data = splits(torch.zeros(8, 2), torch.zeros(0, 2), torch.zeros(0, 2))
    model = NormalEnsemble()
    (name, value), *_ = one.validate(model, data, generator).items()
    assert name == "loss"
    assert model.seen[0].shape == (4, 500)
    # At x = 0 the residual is ε / (1 + σ²).
    levels = torch.linspace(math.log(0.1), math.log(2.0), 10_001).exp()
    expected = (1 + levels.square()).pow(-2).mean().item() / 2
    assert value == pytest.approx(expected, abs=0.03)
    again = one.validate(NormalEnsemble(), data, Generator().manual_seed(0))
    assert again == {"loss": value}


@pytest.fixture(scope="module")
def ensemble() -> tuple[CrossFittedEBM, nn.Module, Dataset]:
    torch.set_default_dtype(torch.float32)
    torch.manual_seed(0)
    one, generator = cross_fitted(), Generator().manual_seed(0)
    data = one.data.load()
    model = one.build(data.shape)
    batches = one.batches(data, 0, "cpu")
    fit(one.step(model, data), batches, one.plan.iterations, generator=generator)
    return one, model, data


@pytest.mark.parametrize("sigma", [0.2, 0.5, 1.5])
def test_trained_ensemble_has_the_score_of_noisy_normal_data(
    sigma: float, ensemble: tuple[CrossFittedEBM, nn.Module, Dataset]
) -> None:
    """The score is -x / (1 + σ²), for the mean and, with larger errors, for each member."""
    _, model, _ = ensemble
    x = torch.randn(2000, 2, generator=Generator().manual_seed(3)) * (1 + sigma**2) ** 0.5
    truth = -x / (1 + sigma**2)
    error = lambda f: (
        (score_of(AtNoiseLevel(f, sigma))(x) - truth).square().mean() / truth.square().mean()
    ).item()
    assert error(MeanOfMembers(model, 4)) < 0.04
    for k in range(4):
        assert error(OneMember(model, 4, k)) < 0.1


def test_samples_of_a_trained_ensemble_have_the_moments_of_the_data(
    ensemble: tuple[CrossFittedEBM, nn.Module, Dataset],
) -> None:
    one, model, _ = ensemble
    samples = one.sample(model, torch.Size([2]), 3000, Generator().manual_seed(0), silent)
    torch.testing.assert_close(samples.mean(0), torch.zeros(2), atol=0.12, rtol=0)
    torch.testing.assert_close(samples.T.cov(), torch.eye(2), atol=0.15, rtol=0)


def test_log_densities_are_read_at_the_scored_levels(
    ensemble: tuple[CrossFittedEBM, nn.Module, Dataset],
) -> None:
    one, model, data = ensemble
    x = data.train[:7]
    found = one.member_log_densities(model, x.expand(4, -1, -1))
    assert found.shape == (3, 4, 7)
    assert not found.requires_grad
    for level, sigma in enumerate((0.1, 0.2, 0.4)):
        for k in range(4):
            expected = AtNoiseLevel(OneMember(model, 4, k), sigma)(x)
            torch.testing.assert_close(found[level, k], expected)
    torch.testing.assert_close(one.log_density(model)(x), found[0].mean(0))
    assert one.noise_std == pytest.approx(0.1)
    assert one.cross_fits
    assert not one.is_normalized


def test_comparison_holds_out_the_fold_of_the_first_member(
    ensemble: tuple[CrossFittedEBM, nn.Module, Dataset],
) -> None:
    one, model, data = ensemble
    f, split = one.held_out_comparison(model, data)
    folds = one.fold_of_rows(len(data.train))
    assert torch.equal(split.test, data.train[folds == 0])
    assert torch.equal(split.train, data.train[folds != 0])
    x = data.train[:5]
    members = one.member_log_densities(model, x.expand(4, -1, -1))
    torch.testing.assert_close(as_log_density(f)(x), members[0, 0])


def test_members_differ_and_are_not_evaluated_on_a_test_set(
    ensemble: tuple[CrossFittedEBM, nn.Module, Dataset],
) -> None:
    one, model, data = ensemble
    values = one.member_log_densities(model, data.train[:20].expand(4, -1, -1))[0]
    assert values.std(0).min() > 0
    assert one.evaluate(model, data, Generator()) == {}
