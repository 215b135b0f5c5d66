"""Encoders, decoders and scores of latents: sizes, likelihoods, wiring."""

import math
from itertools import pairwise

import pytest
import torch
from torch import Generator, Tensor, nn
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


def test_sizes_are_the_published_ones() -> None:
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


def test_bernoulli_likelihood_is_that_of_torch(generator: Generator) -> None:
    decoder = BernoulliDecoder(DecoderMLP(3, (1, 4, 4), (5,)))
    z = torch.randn(6, 3, generator=generator)
    x = torch.randint(2, (6, 1, 4, 4), generator=generator).to(z)
    expected = Bernoulli(logits=decoder.logits(z)).log_prob(x).sum((1, 2, 3))
    torch.testing.assert_close(decoder.log_likelihood(x, z), expected)
    torch.testing.assert_close(decoder(z), Bernoulli(logits=decoder.logits(z)).mean)


def test_gaussian_likelihood_is_that_of_torch(generator: Generator) -> None:
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


def test_encoder_draws_its_noise_from_the_generator(generator: Generator) -> None:
    encoder = ImplicitEncoder(MultiInputMLP([(1, 4, 4), 2], 3, (5,)), noise=2)
    x = torch.randn(6, 1, 4, 4, generator=generator)
    noise = torch.randn(6, 2, generator=Generator().manual_seed(5))
    drawn = encoder.sample(x, Generator().manual_seed(5))
    assert torch.equal(drawn, encoder(x, noise))
    assert not torch.equal(drawn, encoder.sample(x, Generator().manual_seed(6)))
    drawn.sum().backward()
    assert all(p.grad is not None and p.grad.any() for p in encoder.parameters())


def test_mlp_puts_its_inputs_side_by_side(generator: Generator) -> None:
    model = MultiInputMLP([2, (1, 3)], 4, ())
    z, x = torch.randn(5, 2, generator=generator), torch.randn(5, 1, 3, generator=generator)
    expected = torch.cat([z, x[:, 0]], 1) @ model.network[0].weight.T + model.network[0].bias
    torch.testing.assert_close(model(z, x), expected)


def test_cnn_makes_vectors_into_channels(generator: Generator) -> None:
    """Written out again: a plane from `z` before the image, no activation before flattening."""
    model = MultiInputCNN([3, (2, 16, 16)], 4, side=16, width=2)
    z, x = torch.randn(5, 3, generator=generator), torch.randn(5, 2, 16, 16, generator=generator)
    take = iter(model.parameters()).__next__
    softplus = nn.functional.softplus

    def convolution(h: Tensor) -> Tensor:
        return nn.functional.conv2d(h, take(), take(), stride=2, padding=2)

    plane = softplus(z @ take().T + take()).view(5, 1, 16, 16)
    h = torch.cat([plane, x], 1)
    for _ in range(3):
        h = softplus(convolution(h))
    h = convolution(h).flatten(1)
    h = softplus(h @ take().T + take()) @ take().T + take()
    torch.testing.assert_close(model(z, x), h)


def test_decoders_are_the_ones_written_out(generator: Generator) -> None:
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


def test_inputs_must_be_those_that_were_named() -> None:
    with pytest.raises(ValueError, match=r"longer|shorter"):
        MultiInputCNN([3], 4, side=16, width=1)(torch.zeros(1, 3), torch.zeros(1, 3, 16, 16))
    with pytest.raises(ValueError, match=r"images of 16 × 16.*resize"):
        MultiInputCNN([(3, 8, 8)], 4, side=16)
    with pytest.raises(ValueError, match="multiple of 16"):
        MultiInputCNN([3], 4, side=20)
    with pytest.raises(ValueError, match=r"multiples of 16.*pad or resize"):
        DecoderCNN(3, (1, 28, 28))
