"""Convolutional autoencoders: their losses, what is judged, and what is timed."""

import math
from dataclasses import replace
from typing import cast

import pytest
import torch
from torch import Generator

from fdsm.data import Affine, Chain, Dataset, ImageFolder, ToFloat
from fdsm.models import DecoderCNN
from fdsm.paper.tables import table6_celeba as autoencoder_celeba
from fdsm.paper.tables import table6_mnist as autoencoder_mnist
from fdsm.recipes import ConvVAE, ConvWAE, ImageAutoencoder
from fdsm.recipes.autoencoder import Autoencoder

PAPER, CPU = autoencoder_celeba.PAPER, autoencoder_celeba.CPU


@pytest.fixture(autouse=True)
def _as_users_have_it() -> None:
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("kind", [ConvVAE, ConvWAE])
def test_losses_are_weighed_as_published(
    kind: type[ConvVAE] | type[ConvWAE], generator: Generator
) -> None:
    """Normal pixels with the log-deviation -0.602, or ten times the divergence."""
    auto = kind(torch.Size([3, 16, 16]), 3, 2)
    x = torch.rand(5, 3, 16, 16, generator=generator) * 2 - 1
    z, divergence = torch.randn(5, 3, generator=generator), torch.arange(5.0)
    mean = auto.decoder(z)
    if kind is ConvVAE:
        sigma = math.exp(-0.602)
        pixels = -((x - mean) / sigma).square() / 2 - math.log(sigma * math.sqrt(2 * math.pi))
        expected = divergence - pixels.sum((1, 2, 3))
    else:
        expected = 10 * divergence + (x - mean).square().sum((1, 2, 3))
    torch.testing.assert_close(auto.loss(x, z, divergence), expected)


@pytest.mark.parametrize("recipe", [CPU[0], CPU[2]], ids=lambda row: row.name)
def test_a_decoder_that_knows_one_image_is_far_from_none(
    recipe: ImageAutoencoder, generator: Generator
) -> None:
    """Where all images are grey and the decoder makes no other, both numbers vanish."""
    images = torch.full((100, 3, 16, 16), 191, dtype=torch.uint8)
    images[0] = 255
    chain = Chain((ToFloat(), Affine(2.0, -1.0)))
    data = Dataset(images, images[1:], images[1:], chain, {})
    recipe = replace(recipe, distance=replace(recipe.distance, samples=50))
    model = recipe.build(torch.Size([3, 16, 16]))
    (decoder,) = (part for part in model.modules() if isinstance(part, DecoderCNN))
    grey = torch.tensor(2 * 191 / 255 - 1)
    with torch.no_grad():
        weight, bias = decoder.network[-2].parameters()
        weight.zero_()
        bias.fill_(grey.atanh())
    found = recipe.evaluate(model, data, generator)
    assert found["frechet_random"].value == pytest.approx(0, abs=1e-6)
    assert found["reconstruction"].value == pytest.approx(0, abs=1e-6)
    samples = recipe.sample(model, torch.Size([3, 16, 16]), 4, generator, iter)
    torch.testing.assert_close(samples, grey.expand(4, 3, 16, 16))
    with torch.no_grad():
        bias.zero_()
    black = recipe.validate(model, data, generator)["reconstruction"]
    assert black == pytest.approx(768 * grey.item() ** 2, rel=1e-4)


def test_images_of_ones_own_go_from_minus_one_to_one() -> None:
    source = CPU[0].with_data(ImageFolder("photos")).data
    dark = source.transform.deterministic(torch.zeros(1, 3, 16, 16, dtype=torch.uint8))
    assert dark.mean().item() == pytest.approx(-1, abs=0.01)
    with pytest.raises(ValueError, match="square images"):
        CPU[0].build(torch.Size([3, 16, 32]))


@pytest.mark.parametrize("row", [CPU[1], autoencoder_mnist.CPU[3]], ids=lambda row: row.name)
def test_what_is_timed_trains_the_score_alone(
    row: ImageAutoencoder | Autoencoder, generator: Generator
) -> None:
    model = row.build(torch.Size([3, 16, 16]))
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    step = row.timed_part(row.step(model, cast(Dataset, None)))
    step(torch.rand(2, 3, 16, 16, generator=generator), generator)
    moved = {name for name, p in model.named_parameters() if not p.equal(before[name])}
    assert moved == {name for name in before if name.startswith("score.")}
