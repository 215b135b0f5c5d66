"""Each family of recipes against something known of it."""

from dataclasses import dataclass, replace
from typing import Any, cast

import pytest
import torch
from fdsm.runs.reference import experiments, rows
from torch import Generator, Tensor, nn

from fdsm.data import (
    Array,
    Chain,
    Dataset,
    GaussianDensity,
    GaussianMixtureDensity,
    ImageFolder,
    SyntheticData,
    Table,
)
from fdsm.models import DKEF
from fdsm.noise import Geometric
from fdsm.paper.tables import table1 as dkef_uci
from fdsm.paper.tables import table2 as deep_ebm
from fdsm.paper.tables import table3 as nice_mnist
from fdsm.paper.tables import table5 as ncsn
from fdsm.paper.tables import table6_mnist as autoencoder_mnist
from fdsm.paper.tables import toy_densities as density
from fdsm.recipes import VAE, WAE, Autoencoder
from fdsm.recipes.ebm import Rotated, ShuffledFeatures
from fdsm.recipes.recipe import Recipe, TrainingPlan
from fdsm.serialize import to_json
from fdsm.training import AlternatingSteps, GradientStep, ShuffledBatches, fit


@pytest.fixture(autouse=True)
def _as_users_have_it() -> None:
    torch.set_default_dtype(torch.float32)


def trained(recipe: Recipe, iterations: int, batch: int) -> tuple[nn.Module, Dataset]:
    torch.manual_seed(0)
    generator, data = Generator().manual_seed(0), recipe.data.load()
    model = recipe.build(data.shape)
    recipe.before_training(model, data, generator)
    batches = ShuffledBatches(data.train, data.transform, batch, seed=0)
    fit(recipe.step(model, data), batches, iterations, generator=generator)
    recipe.after_training(model, data, generator)
    return model, data


def held_still(numbers: object) -> object:
    return numbers


class Line(nn.Module):
    """An encoder `z = b ξ` of standard normal noise, with the score of what it makes."""

    def __init__(self, b: float) -> None:
        super().__init__()
        self.encoder = nn.Linear(1, 1, bias=False)
        self.decoder = nn.Linear(1, 1)
        self.score = nn.Linear(1, 1, bias=False)
        with torch.no_grad():
            self.encoder.weight.fill_(b)
            self.score.weight.fill_(-1 / b**2)

    def encode(self, x: Tensor, generator: Generator) -> Tensor:
        return cast(Tensor, self.encoder(torch.randn(x.shape, generator=generator)))

    def condition(self, x: Tensor) -> tuple[Tensor, ...]:
        return ()

    def loss(self, x: Tensor, z: Tensor, divergence: Tensor) -> Tensor:
        return divergence + 0 * self.decoder(z).sum()


@pytest.mark.parametrize("b", [0.5, 1.0, 2.0])
def test_the_divergence_of_the_latent_has_the_right_gradient(
    b: float, generator: Generator
) -> None:
    """For $z ~ N(0, b²)$ the divergence from $N(0, 1)$ has the derivative $b - 1/b$."""
    line = Line(b)
    step = autoencoder_mnist.CPU[0].step(line, cast(Dataset, None))
    assert isinstance(step, AlternatingSteps)
    inner = step.steps["model"]
    assert isinstance(inner, GradientStep)
    losses = inner.loss(torch.zeros(200_000, 1), generator, 0.0)
    (gradient,) = torch.autograd.grad(losses.mean(), line.encoder.weight)
    assert gradient.item() == pytest.approx(b - 1 / b, abs=0.02)


def test_the_score_of_the_latent_is_learnt_without_moving_the_encoder() -> None:
    line = Line(0.5)
    with torch.no_grad():
        line.score.weight.fill_(0.0)
    recipe = replace(
        autoencoder_mnist.CPU[1], plan=replace(autoencoder_mnist.CPU[1].plan, iterations=600)
    )
    step = recipe.step(line, cast(Dataset, None))
    assert isinstance(step, AlternatingSteps)
    score, generator = step.steps["score"], Generator().manual_seed(0)
    for _ in range(600):
        score(torch.zeros(256, 1), generator)
    assert line.encoder.weight.item() == pytest.approx(0.5)
    assert line.score.weight.item() < -0.5  # on its way to -1 / 0.5² = -4, by RMSprop


@pytest.mark.parametrize("kind", [VAE, WAE])
def test_autoencoders_weigh_their_losses_as_published(
    kind: type[VAE] | type[WAE], generator: Generator
) -> None:
    auto = kind(torch.Size([1, 2, 2]), 3, 8)
    x = torch.bernoulli(torch.full((5, 1, 2, 2), 0.5), generator=generator)
    z, divergence = torch.randn(5, 3, generator=generator), torch.arange(5.0)
    mean = auto.decoder(z)
    if kind is VAE:
        bits = x * mean.log() + (1 - x) * (1 - mean).log()
        expected = divergence - bits.sum((1, 2, 3))
    else:
        expected = 10 * divergence + (x - mean).square().sum((1, 2, 3))
    torch.testing.assert_close(auto.loss(x, z, divergence), expected)


def test_a_kernel_family_reaches_the_least_loss_of_a_gaussian() -> None:
    """For $N(0, I)$ in two dimensions it is $-1$."""
    recipe = replace(
        dkef_uci.CPU[0],
        data=SyntheticData(GaussianDensity((0.0, 0.0)), n=2000),
        inducing=30,
        penalty_steps=20,
        partition_samples=20_000,
        chain_steps=40,
    )
    model, data = trained(recipe, 60, 200)
    assert isinstance(model, DKEF)
    metrics = recipe.evaluate(model, data, Generator().manual_seed(0))
    assert metrics["exact_sm_loss"].value == pytest.approx(-1, abs=0.15)
    entropy = 2.8379  # of the standard normal, log 2πe
    assert metrics["nll"].value == pytest.approx(entropy, abs=0.15)
    assert 1000 < cast(float, metrics["nll"].settings["effective_sample_size"]) < 20_000
    assert metrics["nll_near_data"].value == pytest.approx(metrics["nll"].value, abs=0.05)
    samples = recipe.sample(model, torch.Size([2]), 400, Generator().manual_seed(0), held_still)
    torch.testing.assert_close(samples.T.cov(), torch.eye(2), atol=0.5, rtol=0)


def test_inducing_points_start_at_rows_of_the_data(generator: Generator) -> None:
    recipe = replace(
        dkef_uci.CPU[0], data=SyntheticData(GaussianDensity((5.0, -5.0)), n=200), inducing=30
    )
    data = recipe.data.load()
    model = recipe.build(data.shape)
    assert isinstance(model, DKEF)
    recipe.before_training(model, data, generator)
    distances = torch.cdist(model.inducing, data.train.double()).min(1)
    assert distances.values.max() == 0
    assert len(distances.indices.unique()) == 30


def test_a_flow_reaches_the_entropy_of_a_gaussian() -> None:
    target = GaussianDensity((1.0, -1.0), ((1.0, 0.8), (0.8, 1.0)))
    recipe = next(row for row in nice_mnist.CPU if row.name == "MLE")
    recipe = replace(
        recipe,
        data=SyntheticData(target, n=4000),
        hidden=16,
        depth=1,
        optimizer=replace(recipe.optimizer, lr=1e-2),
    )
    model, data = trained(recipe, 300, 256)
    metrics = recipe.evaluate(model, data, Generator().manual_seed(0))
    truth = -target.log_density(data.test).mean().item()
    assert metrics["nll"].value == pytest.approx(truth, abs=0.05)


def test_a_true_density_has_no_fisher_divergence_and_is_sampled() -> None:
    mixture = GaussianMixtureDensity(((-2.0, 0.0), (2.0, 0.0)), (0.3, 0.3))

    class Truth(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return mixture.log_density(x)

    recipe = replace(density.CPU[0], data=SyntheticData(mixture, n=1000))
    data, generator = recipe.data.load(), Generator().manual_seed(0)
    metrics = recipe.evaluate(Truth(), data, generator)
    assert metrics["fisher"].value == pytest.approx(0, abs=1e-8)
    x = recipe.sample(Truth(), torch.Size([2]), 500, generator, held_still)
    assert x[:, 0].abs().mean().item() == pytest.approx(2, abs=0.1)
    assert (x[:, 0] > 0).float().mean().item() == pytest.approx(0.5, abs=0.15)


def test_scrambled_rows_keep_each_column_and_nothing_else(generator: Generator) -> None:
    x = torch.randn(100, 1) * torch.tensor([1.0, 2.0])
    data = Dataset(x, x, x, Chain(()), {})
    scrambled = ShuffledFeatures().rows(data, generator)
    assert torch.equal(scrambled.sort(0).values, x.sort(0).values)
    assert abs(scrambled.T.corrcoef()[0, 1].item()) < 0.4


def test_turned_images_are_turned_by_a_quarter(generator: Generator) -> None:
    x = torch.arange(8.0).view(2, 1, 2, 2)
    data = Dataset(x, x, x, Chain(()), {})
    assert Rotated().rows(data, generator)[0, 0].tolist() == [[1.0, 3.0], [0.0, 2.0]]


@pytest.mark.parametrize("scale", ["cpu", "paper"])
def test_every_recipe_can_be_put_on_record(scale: str) -> None:
    for experiment in experiments():
        for row in rows(experiment, scale):  # type: ignore[arg-type]
            described = to_json(row)
            assert isinstance(described, dict)
            assert described["name"] == row.name


def test_the_published_settings_are_those_of_the_paper() -> None:
    paper = {row.name: row for row in deep_ebm.PAPER}
    with torch.device("meta"):
        parameters = sum(
            p.numel() for p in paper["DSM"].build(torch.Size([1, 32, 32])).parameters()
        )
    assert parameters == 62_336_770
    assert paper["DSM"].optimizer.lr == pytest.approx(5e-5)
    assert paper["FD-SSM"].optimizer.lr == pytest.approx(1e-5)
    flow = nice_mnist.PAPER[0]
    with torch.device("meta"):
        assert sum(p.numel() for p in flow.build(torch.Size([784])).parameters()) == 15_154_352
    assert isinstance(autoencoder_mnist.PAPER[0], Autoencoder)
    assert [row.plan.iterations for row in dkef_uci.PAPER[:18:6]] == [11_500, 3000, 9500]
    assert {row.optimizer.clip for row in deep_ebm.PAPER} == {0.1}
    described = cast(dict[str, Any], to_json(paper["FD-SSM"]))
    assert described["data"]["transform"]["steps"][-1]["sigma"] == pytest.approx(0.005)
    assert described["objective"]["projection"]["radius"] == pytest.approx(0.05)
    multiscale = cast(dict[str, Any], to_json(paper["FD-DSM"]))["objective"]
    assert multiscale["objective"]["sigma"] == pytest.approx(0.1)
    assert (multiscale["levels"]["first"], multiscale["levels"]["last"]) == (0.05, 1.2)
    assert {row.name: row.optimizer.lr for row in nice_mnist.PAPER} == {
        "FD-SSM": 1e-3, "Approx BP": 1e-4, "CP": 1e-3, "DSM 0.1": 1e-3, "DSM 1.74": 1e-3,
        "SSM": 1e-4, "SSMVR": 1e-4, "MLE": 1e-4, "Taylor-SSM": 1e-3,
    }  # fmt: skip
    for row in ncsn.PAPER:
        assert row.levels == Geometric(1.0, 0.01, 10)
        assert (row.steps, row.step_size, row.denoise) == (100, 2e-5, False)


def apart(rows: dict[str, Tensor]) -> Dataset:
    """Return data whose splits are given."""
    return Dataset(rows["train"], rows["validation"], rows["test"], Chain(()), {})


@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_each_split_is_used_for_what_it_is_for(split: str) -> None:
    """Changing the other rows changes neither the validation nor the exact loss."""
    recipe = replace(density.CPU[0], sm_eval_rows=50, ood_sources=())
    model = recipe.build(torch.Size([2]))
    rows = {
        name: torch.randn(100, 2, generator=Generator().manual_seed(i))
        for i, name in enumerate(("train", "validation", "test"))
    }

    def numbers(data: Dataset) -> tuple[float, float]:
        seeded = [Generator().manual_seed(0) for _ in range(2)]
        validated = recipe.validate(model, data, seeded[0])["loss"]
        return validated, recipe.evaluate(model, data, seeded[1])["exact_sm_loss"].value

    before = numbers(apart(rows))
    after = numbers(apart({**rows, split: rows[split] + 3}))
    assert (before[0] != after[0]) == (split == "validation")
    assert (before[1] != after[1]) == (split == "test")


def test_a_kernel_family_validates_on_validation_rows_and_tunes_its_penalty() -> None:
    recipe = replace(dkef_uci.CPU[0], inducing=20, penalty_steps=5)
    train, held = (torch.randn(300, 2, generator=Generator().manual_seed(i)) for i in (0, 1))
    values = []
    for shift in (0.0, 1.0):
        data = apart({"train": train, "validation": held + shift, "test": held})
        torch.manual_seed(0)
        model = recipe.build(torch.Size([2]))
        assert isinstance(model, DKEF)
        recipe.before_training(model, data, Generator().manual_seed(0))
        values.append(recipe.validate(model, data, Generator().manual_seed(0))["sm_loss"])
    assert values[0] != values[1]
    before = model.log_penalty.item()
    recipe.after_training(model, data, Generator().manual_seed(0))
    assert abs(model.log_penalty.item() - before) > 1e-4


def test_the_loss_of_a_kernel_family_is_summed_over_dimensions(generator: Generator) -> None:
    """With kernels that are flat, it is that of the base measure: $-d/4 + ‖x‖²/32$."""
    recipe = replace(dkef_uci.CPU[0], inducing=10)
    torch.manual_seed(0)
    model = recipe.build(torch.Size([2]))
    assert isinstance(model, DKEF)
    with torch.no_grad():
        model.features.log_lengthscales.fill_(12.0)
    step = recipe.step(model, cast(Dataset, None))
    assert isinstance(step, GradientStep)
    x = torch.randn(20_000, 2, generator=generator)
    losses = step.loss(x, generator, 0.0)
    expected = -0.5 + x[10_000:].square().sum(1).mean().item() / 32
    assert losses.mean().item() == pytest.approx(expected, abs=0.02)


def test_reconstruction_is_a_negative_log_likelihood(generator: Generator) -> None:
    recipe = replace(autoencoder_mnist.CPU[0], likelihood_rows=10, temperatures=10)
    images = torch.bernoulli(torch.full((20, 1, 4, 4), 0.5), generator=generator)
    data = apart({"train": images, "validation": images, "test": images})
    model = recipe.build(torch.Size([1, 4, 4]))
    found = recipe.validate(model, data, generator)
    coins = 16 * 0.6931  # untrained, every pixel is a fair coin
    assert found["reconstruction"] == pytest.approx(coins, rel=0.1)
    for metric in recipe.evaluate(model, data, generator).values():
        assert metric.value == pytest.approx(coins, rel=0.1)


@dataclass(frozen=True)
class Far:
    name: str = "far"

    def rows(self, data: Dataset, generator: Generator) -> Tensor:
        return data.test + 10


def test_what_is_far_outside_is_told_from_the_test_rows() -> None:
    """With outside and inside exchanged the area would be zero."""
    recipe = replace(
        density.CPU[0],
        data=SyntheticData(GaussianDensity((0.0, 0.0)), n=1000),
        ood_sources=(Far(),),
    )
    model = nn.Module()
    model.forward = lambda x: -x.square().sum(1) / 2  # type: ignore[method-assign]
    metrics = recipe.evaluate(model, recipe.data.load(), Generator().manual_seed(0))
    assert metrics["ood_auc_far"].value == pytest.approx(1, abs=0.02)
    assert metrics["exact_sm_loss"].value == pytest.approx(-1, abs=0.2)


def test_what_contradicts_itself_is_refused() -> None:
    with pytest.raises(ValueError, match="are not those of the network"):
        replace(ncsn.CPU[0], levels=Geometric(5.0, 0.01, 10))
    with pytest.raises(ValueError, match=r"plan.batch must be at least 2"):
        replace(dkef_uci.CPU[0], plan=replace(dkef_uci.CPU[0].plan, batch=1))
    with pytest.raises(ValueError, match=r"for images, but an event has shape \(3,\)"):
        autoencoder_mnist.CPU[0].build(torch.Size([3]))


def test_tables_are_trained_for_longer_unless_somebody_chose() -> None:
    table, image = Table("t.csv"), ImageFolder("photos")
    small, mine = deep_ebm.CPU[0], TrainingPlan(20, 8)
    assert small.with_data(table).plan.iterations == 4000
    assert small.with_data(image).plan == small.plan
    assert replace(small, plan=mine).with_data(table).plan == mine
    assert deep_ebm.PAPER[0].with_data(table).plan == deep_ebm.PAPER[0].plan


def test_autoencoders_are_first_tried_on_data_of_ones_own() -> None:
    own = Array("x.npy")
    small = autoencoder_mnist.CPU[0]
    assert small.with_data(own).plan.iterations == small.plan.iterations // 10
    assert small.with_data(own).likelihood_rows == small.likelihood_rows // 10
    published = autoencoder_mnist.PAPER[0]
    assert published.with_data(own).plan == published.plan
