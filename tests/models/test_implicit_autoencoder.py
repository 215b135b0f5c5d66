"""Autoencoders with implicit encoders: losses by hand, and latents that depend on noise or not."""

import math

import pytest
import torch
from torch import Generator

from fdsm.models import VAE, WAE, ConvVAE, ConvWAE, sample_decoder, squared_error
from fdsm.models.implicit_autoencoder import ImplicitAutoencoder

MODELS = [
    (VAE, torch.Size([1, 4, 4])),
    (WAE, torch.Size([1, 4, 4])),
    (ConvVAE, torch.Size([3, 16, 16])),
    (ConvWAE, torch.Size([3, 16, 16])),
]


@pytest.mark.parametrize("kind", [VAE, WAE])
def test_losses_of_binary_autoencoders_are_weighted_as_published(
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


@pytest.mark.parametrize("kind", [ConvVAE, ConvWAE])
def test_losses_of_image_autoencoders_are_weighted_as_published(
    kind: type[ConvVAE] | type[ConvWAE], generator: Generator
) -> None:
    """Pixels are normal with a log standard deviation of -0.602."""
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


@pytest.mark.parametrize(("kind", "shape"), MODELS)
def test_variational_encoders_take_noise_and_wasserstein_encoders_do_not(
    kind: type[VAE] | type[WAE], shape: torch.Size, generator: Generator
) -> None:
    auto: ImplicitAutoencoder = kind(shape, 3, 4)
    x = torch.rand(6, *shape, generator=generator)
    first, second = auto.encode(x, generator), auto.encode(x, generator)
    assert first.shape == (6, 3)
    is_variational = kind in {VAE, ConvVAE}
    assert torch.equal(first, second) != is_variational
    conditions = auto.score_conditions(x)
    assert len(conditions) == is_variational
    assert auto.score(first, *conditions).shape == (6, 3)


@pytest.mark.parametrize(("kind", "shape"), MODELS)
def test_samples_are_means_of_the_decoder_for_normal_latents(
    kind: type[VAE] | type[WAE], shape: torch.Size
) -> None:
    auto: ImplicitAutoencoder = kind(shape, 3, 4)
    z = torch.randn(5, 3, generator=Generator().manual_seed(1))
    samples = sample_decoder(auto, 3, 5, Generator().manual_seed(1))
    torch.testing.assert_close(samples, auto.decoder(z))
    x = torch.rand(5, *shape)
    expected = (x - auto.decoder(z)).square().sum((1, 2, 3))
    torch.testing.assert_close(squared_error(auto, x, z), expected)
