r"""A network of noisy images, given the noise level, as a score and as a log-density.

The network $g$ sees the image at unit variance, $z = x / \sqrt{1 + σ²}$. Clean data should have
zero mean and unit variance.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from fdsm.tensors import dot, per_example


class UNet(nn.Module):
    """A function of images and noise levels: a U-Net of two resolutions with attention.

    Patches of 2 × 2 pixels are the channels of the first resolution. The second one is half of it
    and has twice the channels. Normalization has scales and shifts that depend on the noise level.
    Activations are smooth.

    Reference:
        Ho et al. (2020), https://arxiv.org/abs/2006.11239, App. B.

    Args:
        shape: Channels, height and width of an image. Height and width are multiples of four.
        width: Number of channels at the first resolution, a multiple of eight.
        features: Number of features of the noise level.

    Raises:
        ValueError: If height or width is not a multiple of four, or the width not of eight.

    Example:
        >>> UNet((1, 8, 8), width=8)(torch.zeros(2, 1, 8, 8), torch.ones(2)).shape
        torch.Size([2, 1, 8, 8])
    """

    frequencies: Tensor

    def __init__(self, shape: Sequence[int], width: int = 32, features: int = 64) -> None:
        super().__init__()
        if len(shape) != 3 or shape[1] % 4 or shape[2] % 4 or not all(shape) or width % 8:
            raise ValueError(
                "images must have the shape (channels, height, width), with height and width "
                f"multiples of 4, but have {tuple(shape)}; width must be a multiple of 8, but is "
                f"{width}"
            )
        wide = 2 * width
        self.register_buffer("frequencies", torch.linspace(0.25, 4.0, 8))
        self.level = nn.Sequential(
            nn.Linear(16, features), nn.SiLU(), nn.Linear(features, features), nn.SiLU()
        )
        self.first = nn.Conv2d(4 * shape[0], width, 3, padding=1)
        self.fine = nn.ModuleList(_Block(width, width, features) for _ in range(2))
        self.coarse = nn.ModuleList([
            _Block(width, wide, features),
            _Block(wide, wide, features),
        ])
        self.middle = nn.ModuleList([
            _Attention(wide, features),
            _Block(wide, wide, features),
            _Attention(wide, features),
        ])
        self.up = _Block(2 * wide, wide, features)
        self.merge = nn.ModuleList([
            _Block(wide + width, width, features),
            _Block(width, width, features),
        ])
        self.norm = _Norm(width, features)
        self.last = nn.Conv2d(width, 4 * shape[0], 3, padding=1)

    def forward(self, x: Tensor, sigma: Tensor) -> Tensor:
        """Return images, shape `(B, C, H, W), (B,) -> (B, C, H, W)`."""
        phase = sigma.log()[:, None] * self.frequencies
        level = self.level(torch.cat([phase.sin(), phase.cos()], 1))
        fine = _apply(self.fine, self.first(functional.pixel_unshuffle(x, 2)), level)
        coarse = _apply(self.coarse, functional.avg_pool2d(fine, 2), level)
        h = self.up(torch.cat([_apply(self.middle, coarse, level), coarse], 1), level)
        h = functional.interpolate(h, scale_factor=2.0, mode="nearest")
        h = _apply(self.merge, torch.cat([h, fine], 1), level)
        return functional.pixel_shuffle(self.last(functional.silu(self.norm(h, level))), 2)


def _apply(layers: nn.ModuleList, x: Tensor, level: Tensor) -> Tensor:
    for layer in layers:
        x = layer(x, level)
    return x


class _Norm(nn.Module):
    """Group normalization with a scale and a shift that depend on the noise level."""

    def __init__(self, channels: int, features: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(8, channels, affine=False)
        self.level = _zero(nn.Linear(features, 2 * channels))

    def forward(self, x: Tensor, level: Tensor) -> Tensor:
        scale, shift = self.level(level)[:, :, None, None].chunk(2, 1)
        result: Tensor = self.norm(x) * (1 + scale) + shift
        return result


class _Block(nn.Module):
    """Two convolutions, each after normalization and activation, added to the input."""

    def __init__(self, before: int, after: int, features: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList([_Norm(before, features), _Norm(after, features)])
        self.convolutions = nn.ModuleList([
            nn.Conv2d(before, after, 3, padding=1),
            _zero(nn.Conv2d(after, after, 3, padding=1)),
        ])
        self.shortcut = nn.Identity() if before == after else nn.Conv2d(before, after, 1)

    def forward(self, x: Tensor, level: Tensor) -> Tensor:
        h = x
        for norm, convolution in zip(self.norms, self.convolutions, strict=True):
            h = convolution(functional.silu(norm(h, level)))
        result: Tensor = self.shortcut(x) + h
        return result


class _Attention(nn.Module):
    """Self-attention between all positions, added to the input."""

    heads = 4

    def __init__(self, channels: int, features: int) -> None:
        super().__init__()
        self.norm = _Norm(channels, features)
        self.inputs = nn.Conv2d(channels, 3 * channels, 1)
        self.output = _zero(nn.Conv2d(channels, channels, 1))

    def forward(self, x: Tensor, level: Tensor) -> Tensor:
        parts = self.inputs(self.norm(x, level)).unflatten(1, (3, self.heads, -1)).flatten(4)
        query, key, value = parts.unbind(1)
        weights = (query.mT @ key / query.shape[2] ** 0.5).softmax(3)
        result: Tensor = x + self.output((value @ weights.mT).reshape(x.shape))
        return result


def _zero(layer: nn.Module) -> nn.Module:
    """Return the layer with weights of zero, so that its block begins as the identity."""
    for parameter in layer.parameters():
        nn.init.zeros_(parameter)
    return layer


class UNetScore(nn.Module):
    r"""A score of noisy images, $s(x, σ) = -x/(1 + σ²) + g(z, σ) / (σ\sqrt{1 + σ²})$.

    The first term is the score of standard normal data with noise. The network predicts clean data
    minus what that term predicts, at unit variance for all levels.

    Reference:
        Karras et al. (2022), https://arxiv.org/abs/2206.00364, Table 1, with $σ_{data} = 1$.

    Args:
        network: The network $g$, `(B, *E), (B,) -> (B, *E)`.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor, sigma: Tensor) -> Tensor:
        """Return the scores, shape `(B, *E), (B,) -> (B, *E)`."""
        std, level = per_example((1 + sigma.square()).sqrt(), x), per_example(sigma, x)
        result: Tensor = -x / std.square() + self.network(x / std, sigma) / (level * std)
        return result


class UNetDensity(nn.Module):
    r"""A log-density of noisy images, $f(x, σ) = -‖z‖²/2 - ‖g(z, σ) - z‖² / (2σ)$.

    The first term is the log-density of standard normal data with noise. Images that the network
    reconstructs well are likely.

    Reference:
        Salimans and Ho (2021), "Should EBMs model the energy or the score?", for densities that
        are reconstruction errors.

    Args:
        network: The network $g$, `(B, *E), (B,) -> (B, *E)`.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor, sigma: Tensor) -> Tensor:
        """Return the log-densities up to a constant, shape `(B, *E), (B,) -> (B,)`."""
        z = x / per_example((1 + sigma.square()).sqrt(), x)
        error = self.network(z, sigma) - z
        return -dot(z, z) / 2 - dot(error, error) / (2 * sigma)
