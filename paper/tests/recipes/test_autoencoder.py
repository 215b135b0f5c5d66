"""Autoencoders with implicit encoders: the gradients, losses and metrics have known values."""

import math
from dataclasses import replace
from typing import cast

import pytest
import torch
from torch import Generator, Tensor, nn

from fdsm.derivatives import Autodiff
from fdsm.models import DecoderCNN
from fdsm.objectives import SSMVR
from fdsm.projections import Gaussian
from fdsm.training import AlternatingSteps, GradientStep, RMSprop
from paper.data import Affine, Chain, Dataset, Digits, ToFloat
from paper.recipes import (
    VAE,
    Autoencoder,
    ConvVAE,
    ConvWAE,
    Frechet,
    ImageAutoencoder,
    RandomFeatures,
    TrainingPlan,
)

from .recipe_cases import silent, splits

OBJECTIVE = SSMVR(Autodiff(), Gaussian())
BINARY = Autoencoder(
    "binary", OBJECTIVE, VAE, Digits(), latent=8, width=16, plan=TrainingPlan(600),
    likelihood_rows=10, temperatures=10, chains=4,
)  # fmt: skip
IMAGES = ImageAutoencoder(
    "images",
    OBJECTIVE,
    ConvVAE,
    Digits(),
    latent=3,
    width=2,
    distance=Frechet(RandomFeatures(), 50, name="frechet_random"),
)


class Line(nn.Module):
    """An encoder z = b ξ of standard normal noise, with the true score of its latents."""

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

    def score_conditions(self, x: Tensor) -> tuple[Tensor, ...]:
        return ()

    def loss(self, x: Tensor, z: Tensor, divergence: Tensor) -> Tensor:
        return divergence + 0 * self.decoder(z).sum()


@pytest.mark.parametrize("b", [0.5, 1.0, 2.0])
def test_divergence_of_the_latents_has_the_true_gradient(b: float, generator: Generator) -> None:
    """For z ~ N(0, b²) the divergence from N(0, 1) has the derivative b - 1/b."""
    line = Line(b)
    step = BINARY.step(line, cast(Dataset, None))
    assert isinstance(step, AlternatingSteps)
    inner = step.steps["model"]
    assert isinstance(inner, GradientStep)
    losses = inner.update.loss(torch.zeros(200_000, 1), generator, 0.0)
    (gradient,) = torch.autograd.grad(losses.mean(), line.encoder.weight)
    assert gradient.item() == pytest.approx(b - 1 / b, abs=0.02)


def test_score_of_the_latents_is_trained_without_moving_the_encoder() -> None:
    line = Line(0.5)
    with torch.no_grad():
        line.score.weight.fill_(0.0)
    step = replace(BINARY, optimizer=RMSprop(1e-2)).step(line, cast(Dataset, None))
    assert isinstance(step, AlternatingSteps)
    score, generator = step.steps["score"], Generator().manual_seed(0)
    for _ in range(600):
        score(torch.zeros(256, 1), generator)
    assert line.encoder.weight.item() == pytest.approx(0.5)
    assert line.score.weight.item() == pytest.approx(-4, abs=0.5)  # -1 / 0.5²


def test_reconstruction_is_a_negative_log_likelihood(generator: Generator) -> None:
    """Every pixel of an untrained model is a fair coin."""
    images = torch.bernoulli(torch.full((20, 1, 4, 4), 0.5), generator=generator)
    data = splits(images, images, images)
    torch.manual_seed(0)
    model = BINARY.build(torch.Size([1, 4, 4]))
    coins = 16 * math.log(2)
    assert BINARY.validate(model, data, generator)["reconstruction"] == pytest.approx(
        coins, rel=0.1
    )
    metrics = BINARY.evaluate(model, data, generator)
    assert set(metrics) == {"nll", "reconstruction"}
    for metric in metrics.values():
        assert metric.value == pytest.approx(coins, rel=0.1)
    assert metrics["nll"].settings["rows"] == 10


@pytest.mark.parametrize("kind", [ConvVAE, ConvWAE])
def test_decoder_of_one_image_has_no_error_and_no_distance(
    kind: type[ConvVAE] | type[ConvWAE], generator: Generator
) -> None:
    """All images are gray, and so are all samples."""
    images = torch.full((100, 3, 16, 16), 191, dtype=torch.uint8)
    images[0] = 255
    chain = Chain((ToFloat(), Affine(2.0, -1.0)))
    data = Dataset(images, images[1:], images[1:], chain, {})
    recipe = replace(IMAGES, kind=kind)
    model = recipe.build(torch.Size([3, 16, 16]))
    (decoder,) = (part for part in model.modules() if isinstance(part, DecoderCNN))
    gray = torch.tensor(2 * 191 / 255 - 1)
    with torch.no_grad():
        weight, bias = decoder.network[-2].parameters()
        weight.zero_()
        bias.fill_(gray.atanh())
    found = recipe.evaluate(model, data, generator)
    assert found["frechet_random"].value == pytest.approx(0, abs=1e-6)
    assert found["reconstruction"].value == pytest.approx(0, abs=1e-6)
    samples = recipe.sample(model, torch.Size([3, 16, 16]), 4, generator, silent)
    torch.testing.assert_close(samples, gray.expand(4, 3, 16, 16))
    with torch.no_grad():
        bias.zero_()
    black = recipe.validate(model, data, generator)["reconstruction"]
    assert black == pytest.approx(768 * gray.item() ** 2, rel=1e-4)


@pytest.mark.parametrize("recipe", [BINARY, IMAGES], ids=["binary", "images"])
def test_timed_part_trains_the_score_alone(
    recipe: Autoencoder | ImageAutoencoder, generator: Generator
) -> None:
    model = recipe.build(torch.Size([3, 16, 16]))
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    step = recipe.timed_part(recipe.step(model, cast(Dataset, None)))
    step(torch.rand(2, 3, 16, 16, generator=generator), generator)
    moved = {name for name, p in model.named_parameters() if not p.equal(before[name])}
    assert moved == {name for name in before if name.startswith("score.")}


def test_events_that_are_not_images_are_refused() -> None:
    with pytest.raises(ValueError, match=r"needs images, but an event has shape \(3,\)"):
        BINARY.build(torch.Size([3]))
    with pytest.raises(ValueError, match=r"needs square images, .*\(3, 16, 32\)"):
        IMAGES.build(torch.Size([3, 16, 32]))
