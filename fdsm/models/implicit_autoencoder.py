r"""Autoencoders with implicit encoders (Sec. 6.3 and Table 6 of the paper).

An encoder that is a sampler has no density, but its training only needs a score, which SSMVR or
FD-SSMVR learn at the same time. For the variational autoencoder it is the score of $q(z|x)$, and
the loss is

$$-\log p(x|z) - \log p(z) + \log q(z|x).$$

For the Wasserstein autoencoder, whose encoder is deterministic, it is the score of
$q(z) = E_x q(z|x)$, and the loss is $‖x - \hat x(z)‖² + 10 \, KL(q(z) ‖ p(z))$.
"""

from typing import cast

import torch
from torch import Generator, Tensor, nn

from ..tensors import dot
from .autoencoder import (
    BernoulliDecoder,
    DecoderCNN,
    DecoderMLP,
    GaussianDecoder,
    ImplicitEncoder,
)
from .multi_input import MultiInputCNN, MultiInputMLP

LikelihoodDecoder = BernoulliDecoder | GaussianDecoder
"""A decoder with a density of the data given a latent."""


class VariationalAutoencoder(nn.Module):
    """An encoder that takes noise, a decoder, and the score of the latent given the data.

    Args:
        encoder: Maps data and noise to latents.
        decoder: The density of the data given a latent.
        score: The score of a latent given the data, `(B, latent), (B, *E) -> (B, latent)`.
    """

    def __init__(
        self, encoder: ImplicitEncoder, decoder: LikelihoodDecoder, score: nn.Module
    ) -> None:
        super().__init__()
        self.encoder, self.decoder, self.score = encoder, decoder, score

    def encode(self, x: Tensor, generator: Generator) -> Tensor:
        """Return a latent for each row, drawn from $q(z|x)$."""
        return self.encoder.sample(x, generator)

    def score_conditions(self, x: Tensor) -> tuple[Tensor, ...]:
        """Return the conditions of the score: the data."""
        return (x,)

    def loss(self, x: Tensor, z: Tensor, divergence: Tensor) -> Tensor:
        """Return the loss, given a term with the gradient of the divergence of the latents."""
        return divergence - self.decoder.log_likelihood(x, z)


class WassersteinAutoencoder(nn.Module):
    """An encoder without noise, a decoder, and the score of the latents of all data.

    Args:
        encoder: Maps data to latents, `(B, *E) -> (B, latent)`.
        decoder: The density of the data given a latent. Its mean is trained.
        score: The score of the latents, `(B, latent) -> (B, latent)`.
    """

    weight = 10.0

    def __init__(self, encoder: nn.Module, decoder: LikelihoodDecoder, score: nn.Module) -> None:
        super().__init__()
        self.encoder, self.decoder, self.score = encoder, decoder, score

    def encode(self, x: Tensor, generator: Generator) -> Tensor:
        """Return the latent of each row."""
        return cast(Tensor, self.encoder(x))

    def score_conditions(self, x: Tensor) -> tuple[Tensor, ...]:
        """Return no conditions: the score is that of all latents."""
        return ()

    def loss(self, x: Tensor, z: Tensor, divergence: Tensor) -> Tensor:
        """Return the loss, given a term with the gradient of the divergence of the latents."""
        return self.weight * divergence + squared_error(self, x, z)


ImplicitAutoencoder = VariationalAutoencoder | WassersteinAutoencoder


def squared_error(auto: ImplicitAutoencoder, x: Tensor, z: Tensor) -> Tensor:
    r"""Return the reconstruction error $‖x - \hat x(z)‖²$, shape `(B,)`."""
    residual = x - auto.decoder(z)
    return dot(residual, residual)


@torch.no_grad()
def sample_decoder(auto: ImplicitAutoencoder, latent: int, n: int, generator: Generator) -> Tensor:
    """Return the decoder's means for `n` latents drawn from the prior, shape `(n, *E)`."""
    z = torch.randn(n, latent, device=generator.device, generator=generator)
    return cast(Tensor, auto.decoder(z))


class VAE(VariationalAutoencoder):
    """A variational autoencoder of MLPs with two hidden layers, for binary data.

    Args:
        shape: Shape of the data.
        latent: Size of the latent.
        width: Width of the hidden layers.
    """

    def __init__(self, shape: torch.Size, latent: int, width: int) -> None:
        widths = (width, width)
        super().__init__(
            ImplicitEncoder(MultiInputMLP([shape, latent], latent, widths), noise=latent),
            BernoulliDecoder(DecoderMLP(latent, shape, widths)),
            MultiInputMLP([latent, shape], latent, widths),
        )


class WAE(WassersteinAutoencoder):
    """A Wasserstein autoencoder of MLPs. The arguments are those of `VAE`."""

    def __init__(self, shape: torch.Size, latent: int, width: int) -> None:
        widths = (width, width)
        super().__init__(
            MultiInputMLP([shape], latent, widths),
            BernoulliDecoder(DecoderMLP(latent, shape, widths)),
            MultiInputMLP([latent], latent, widths),
        )


class ConvVAE(VariationalAutoencoder):
    """A variational autoencoder of four convolutions, with a standard deviation of 0.55 per pixel.

    Args:
        shape: Shape of the images, which are square.
        latent: Size of the latent.
        width: Number of channels after the first convolution.
    """

    def __init__(self, shape: torch.Size, latent: int, width: int) -> None:
        side = shape[-1]
        encoder = MultiInputCNN([shape, latent], latent, side, width, nn.ReLU)
        super().__init__(
            ImplicitEncoder(encoder, noise=latent),
            GaussianDecoder(DecoderCNN(latent, shape, width)),
            MultiInputCNN([latent, shape], latent, side, width),
        )


class ConvWAE(WassersteinAutoencoder):
    """A Wasserstein autoencoder of four convolutions. The arguments are those of `ConvVAE`."""

    def __init__(self, shape: torch.Size, latent: int, width: int) -> None:
        side = shape[-1]
        super().__init__(
            MultiInputCNN([shape], latent, side, width, nn.ReLU),
            GaussianDecoder(DecoderCNN(latent, shape, width)),
            MultiInputCNN([latent], latent, side, width),
        )
