"""Encoders and decoders: sizes, likelihoods and second implementations."""

import math
from itertools import pairwise

import pytest
import torch
from torch import Generator, nn
from torch.distributions import Bernoulli, Normal

from fdsm.models import (
    BernoulliDecoder,
    DecoderCNN,
    DecoderMLP,
    GaussianDecoder,
    ImplicitEncoder,
    MultiInputCNN,
    MultiInputMLP,
)


def count(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


def dense(*widths: int) -> int:
    return sum(a * b + b for a, b in pairwise(widths))


def convolutional(*widths: int) -> int:
    return sum(25 * a * b + b for a, b in pairwise(widths))


def test_numbers_of_parameters_are_the_published_ones() -> None:
    """By arithmetic: 784 + 32 – 256 – 256 – 32 for MNIST, 64 … 512 channels for CelebA."""
    mnist, celeba = (1, 28, 28), (3, 64, 64)
    trunk = dense(512 * 4 * 4, 512, 32)
    plane = dense(32, 64 * 64)
    with torch.device("meta"):
        assert count(MultiInputMLP([mnist, 32], 32)) == dense(816, 256, 256, 32)
        assert count(MultiInputMLP([32], 32)) == dense(32, 256, 256, 32)
        assert count(DecoderMLP(32, mnist)) == dense(32, 256, 256, 784)
        assert (
            count(MultiInputCNN([celeba, 32], 32))
            == plane + convolutional(4, 64, 128, 256, 512) + trunk
        )
        assert count(MultiInputCNN([celeba], 32)) == convolutional(3, 64, 128, 256, 512) + trunk
        assert (
            count(MultiInputCNN([32], 32)) == plane + convolutional(1, 64, 128, 256, 512) + trunk
        )
        decoder = dense(32, 512 * 4 * 4) + convolutional(512, 256, 128, 64, 3)
        assert count(DecoderCNN(32, celeba)) == decoder


def test_bernoulli_likelihood_agrees_with_torch(generator: Generator) -> None:
    decoder = BernoulliDecoder(DecoderMLP(3, (1, 4, 4), (5,)))
    z = torch.randn(6, 3, generator=generator)
    x = torch.randint(2, (6, 1, 4, 4), generator=generator).to(z)
    expected = Bernoulli(logits=decoder.logits(z)).log_prob(x).sum((1, 2, 3))
    torch.testing.assert_close(decoder.log_likelihood(x, z), expected)
    torch.testing.assert_close(decoder(z), Bernoulli(logits=decoder.logits(z)).mean)


def test_gaussian_likelihood_agrees_with_torch(generator: Generator) -> None:
    decoder = GaussianDecoder(DecoderCNN(3, (2, 16, 32), width=2))
    z, x = torch.randn(6, 3, generator=generator), torch.randn(6, 2, 16, 32, generator=generator)
    expected = Normal(decoder(z), math.exp(-0.602)).log_prob(x).sum((1, 2, 3))
    torch.testing.assert_close(decoder.log_likelihood(x, z), expected)
    assert decoder(z).abs().max() < 1


@pytest.mark.parametrize(
    "decoder",
    [
        lambda: BernoulliDecoder(DecoderMLP(3, (1, 16, 16), (5,))),
        lambda: GaussianDecoder(DecoderCNN(3, (1, 16, 16), width=2, activation=nn.Softplus)),
    ],
    ids=["mlp", "cnn"],
)
def test_likelihood_trains_every_parameter_of_the_decoder(
    decoder: type, generator: Generator
) -> None:
    model, z = decoder(), torch.randn(6, 3, generator=generator)
    model.log_likelihood(torch.rand(6, 1, 16, 16, generator=generator), z).mean().backward()
    assert all(p.grad is not None and p.grad.any() for p in model.parameters())
    rows = [model.log_likelihood(torch.ones(1, 1, 16, 16), z[i : i + 1]) for i in range(len(z))]
    torch.testing.assert_close(torch.cat(rows), model.log_likelihood(torch.ones(6, 1, 16, 16), z))


def test_encoder_noise_depends_only_on_the_generator(generator: Generator) -> None:
    encoder = ImplicitEncoder(MultiInputMLP([(1, 4, 4), 2], 3, (5,)), noise=2)
    x = torch.randn(6, 1, 4, 4, generator=generator)
    noise = torch.randn(6, 2, generator=Generator().manual_seed(5))
    drawn = encoder.sample(x, Generator().manual_seed(5))
    assert torch.equal(drawn, encoder(x, noise))
    assert not torch.equal(drawn, encoder.sample(x, Generator().manual_seed(6)))
    drawn.sum().backward()
    assert all(p.grad is not None and p.grad.any() for p in encoder.parameters())


def test_decoders_agree_with_second_implementations(generator: Generator) -> None:
    """Doubling four times from `(8w, H/16, W/16)`; activation before each, tanh last."""
    z = 3 * torch.randn(5, 3, generator=generator)
    cnn, mlp = DecoderCNN(3, (2, 16, 32), width=2), DecoderMLP(3, (1, 2, 2), (6, 5))
    for parameter in cnn.parameters():
        nn.init.normal_(parameter, std=0.3, generator=generator)
    take = iter(cnn.parameters()).__next__
    h = (z @ take().T + take()).view(5, 16, 1, 2)
    for _ in range(4):
        h = nn.functional.conv_transpose2d(
            h.relu(), take(), take(), stride=2, padding=2, output_padding=1
        )
    torch.testing.assert_close(cnn(z), h.tanh())
    take = iter(mlp.parameters()).__next__
    h = ((z @ take().T + take()).tanh() @ take().T + take()).tanh() @ take().T + take()
    torch.testing.assert_close(mlp(z), h.view(5, 1, 2, 2))


def test_images_of_other_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"multiples of 16.*pad or resize"):
        DecoderCNN(3, (1, 28, 28))
