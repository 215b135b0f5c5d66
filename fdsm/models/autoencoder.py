r"""Implicit encoders and decoders, the parts of autoencoders.

An implicit encoder maps data and noise to a latent, $z = f(x, ξ)$. The density of $z$ is not
known. Another network learns its score: that of $q(z|x)$ for a variational autoencoder, that of
the marginal $q(z)$ for a Wasserstein autoencoder, whose encoder may be deterministic. Encoders and
scores are `MultiInputMLP` or `MultiInputCNN`.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Protocol

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from ..tensors import dot
from .layers import Activation, num_elements, out_of_place, perceptron


class ImplicitEncoder(nn.Module):
    """A sampler of latents given data.

    Args:
        network: The network, `(B, *E), (B, noise) -> (B, latent)`.
        noise: Length of the noise.

    Example:
        >>> from fdsm.models import MultiInputMLP
        >>> encoder = ImplicitEncoder(MultiInputMLP([(1, 28, 28), 16], 32), noise=16)
        >>> encoder.sample(torch.zeros(5, 1, 28, 28)).shape
        torch.Size([5, 32])
    """

    def __init__(self, network: nn.Module, noise: int) -> None:
        super().__init__()
        self.network = network
        self.noise = noise

    def forward(self, x: Tensor, noise: Tensor) -> Tensor:
        """Return the latent of data and noise, shape `(B, latent)`."""
        z: Tensor = self.network(x, noise)
        return z

    def sample(self, x: Tensor, generator: Generator | None = None) -> Tensor:
        """Return a differentiable sample of the latent for each row of `x`.

        Args:
            x: The data, shape `(B, *E)`.
            generator: Random number generator. Default: the global generator of torch.

        Returns:
            The latents, shape `(B, latent)`.
        """
        noise = torch.randn(
            len(x), self.noise, dtype=x.dtype, device=x.device, generator=generator
        )
        return self(x, noise)  # type: ignore[no-any-return]


class Decoder(Protocol):
    """A distribution of data given a latent."""

    def __call__(self, z: Tensor) -> Tensor:
        """Return the mean of the data given a latent, shape `(B, latent) -> (B, *E)`."""
        ...

    def log_likelihood(self, x: Tensor, z: Tensor) -> Tensor:
        r"""Return $\log p(x|z)$ in nats, shape `(B, *E), (B, latent) -> (B,)`."""
        ...


class BernoulliDecoder(nn.Module):
    r"""Independent Bernoulli variables given a latent.

    Args:
        network: The network of the logits, `(B, latent) -> (B, *E)`.

    Example:
        >>> decoder = BernoulliDecoder(DecoderMLP(32, (1, 28, 28)))
        >>> decoder.log_likelihood(torch.zeros(5, 1, 28, 28), torch.zeros(5, 32)).shape
        torch.Size([5])
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, z: Tensor) -> Tensor:
        """Return the mean of the data given a latent, the probabilities, shape `(B, *E)`."""
        return self.logits(z).sigmoid()

    def logits(self, z: Tensor) -> Tensor:
        """Return the logits, shape `(B, *E)`."""
        result: Tensor = self.network(z)
        return result

    def log_likelihood(self, x: Tensor, z: Tensor) -> Tensor:
        r"""Return $\log p(x|z)$ in nats, shape `(B, *E), (B, latent) -> (B,)`."""
        entropies = functional.binary_cross_entropy_with_logits(
            self.logits(z), x, reduction="none"
        )
        return -entropies.flatten(1).sum(1)


class GaussianDecoder(nn.Module):
    r"""A Gaussian given a latent, with a fixed standard deviation.

    Args:
        network: The network of the mean, `(B, latent) -> (B, *E)`.
        log_std: Natural logarithm of the standard deviation. The default, a standard deviation of
            0.55, is that of the paper's code.

    Example:
        >>> decoder = GaussianDecoder(DecoderCNN(32, (3, 32, 32), width=4))
        >>> decoder.log_likelihood(torch.zeros(5, 3, 32, 32), torch.zeros(5, 32)).shape
        torch.Size([5])
    """

    def __init__(self, network: nn.Module, log_std: float = -0.602) -> None:
        super().__init__()
        self.network = network
        self.log_std = log_std

    def forward(self, z: Tensor) -> Tensor:
        """Return the mean of the data given a latent, shape `(B, *E)`."""
        result: Tensor = self.network(z)
        return result

    def log_likelihood(self, x: Tensor, z: Tensor) -> Tensor:
        r"""Return $\log p(x|z)$ in nats, shape `(B, *E), (B, latent) -> (B,)`."""
        residual = (x - self(z)) * math.exp(-self.log_std)
        constant = x[0].numel() * (self.log_std + math.log(2 * math.pi) / 2)
        return -dot(residual, residual) / 2 - constant


class DecoderMLP(nn.Module):
    """A multilayer perceptron from a latent to an event, by default that of the paper for MNIST.

    Args:
        latent: Length of the latent.
        shape: Event shape.
        widths: Widths of the hidden layers.
        activation: Constructor of the activations.
    """

    def __init__(
        self,
        latent: int,
        shape: Sequence[int],
        widths: Sequence[int] = (256, 256),
        activation: Activation = nn.Tanh,
    ) -> None:
        super().__init__()
        self.network = nn.Sequential(
            *perceptron((latent, *widths, num_elements(shape)), activation),
            nn.Unflatten(1, tuple(shape)),
        )

    def forward(self, z: Tensor) -> Tensor:
        """Return the events, shape `(B, latent) -> (B, *E)`."""
        result: Tensor = self.network(z)
        return result


class DecoderCNN(nn.Module):
    """Transposed convolutions from a latent to an image in $(-1, 1)$; for CelebA in the paper.

    Args:
        latent: Length of the latent.
        shape: Channels, height and width of an image. Height and width are multiples of 16.
        width: Number of channels before the last convolution.
        activation: Constructor of the activations.

    Raises:
        ValueError: If height or width is not a multiple of 16.
    """

    def __init__(
        self,
        latent: int,
        shape: Sequence[int],
        width: int = 64,
        activation: Activation = nn.ReLU,
    ) -> None:
        super().__init__()
        if len(shape) != 3 or shape[1] % 16 or shape[2] % 16 or not all(shape):
            raise ValueError(
                "images must have the shape (channels, height, width), with height and width "
                f"multiples of 16, but have {tuple(shape)}: pad or resize them"
            )
        channels, rows, columns = shape
        start = (8 * width, rows // 16, columns // 16)
        layers: list[nn.Module] = []
        for before, after in pairwise((8 * width, 4 * width, 2 * width, width, channels)):
            double = nn.ConvTranspose2d(before, after, 5, stride=2, padding=2, output_padding=1)
            layers += [out_of_place(activation), double]
        self.network = nn.Sequential(
            nn.Linear(latent, num_elements(start)), nn.Unflatten(1, start), *layers, nn.Tanh()
        )

    def forward(self, z: Tensor) -> Tensor:
        """Return the images, shape `(B, latent) -> (B, C, H, W)`."""
        result: Tensor = self.network(z)
        return result
