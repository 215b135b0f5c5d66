"""Networks of energy-based models, as values that can be recorded."""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import nn

from fdsm.models import (
    GaussianTailMLP,
    QuadraticMLP,
    QuadraticResNet,
)

from .unet import UNet, UNetDensity, UNetScore


class Network(Protocol):
    """The settings of a network, a log-density or a score, for events of a given shape."""

    def build(self, shape: torch.Size) -> nn.Module:
        """Return the untrained network for events of a shape."""
        ...


@dataclass(frozen=True)
class ResNet:
    """A `QuadraticResNet`.

    Attributes:
        width: Number of channels before the first block. It is 128 in the paper.
        gain: Factor of the initial weights of the convolutions.
    """

    width: int = 128
    gain: float = 1.0

    def build(self, shape: torch.Size) -> nn.Module:
        """Return the network."""
        return QuadraticResNet(shape, self.width, gain=self.gain)


@dataclass(frozen=True)
class MLP:
    """A `QuadraticMLP`.

    Attributes:
        widths: Widths of the hidden layers.
    """

    widths: tuple[int, ...] = (256, 256, 256)

    def build(self, shape: torch.Size) -> nn.Module:
        """Return the network."""
        return QuadraticMLP(shape, self.widths)


@dataclass(frozen=True)
class GaussianTail:
    """A `GaussianTailMLP`.

    Attributes:
        widths: Widths of the hidden layers.
        gain: Factor of the initial weights of the first layer.
    """

    widths: tuple[int, ...] = (64, 64, 64)
    gain: float = 3.0

    def build(self, shape: torch.Size) -> nn.Module:
        """Return the network."""
        return GaussianTailMLP(shape, self.widths, self.gain)


@dataclass(frozen=True)
class ByShape:
    """One network for images and another for rows of numbers.

    Attributes:
        image: The network for events with three dimensions.
        row: The network for all other events.
    """

    image: Network = ResNet(8, gain=1.8)
    row: Network = MLP()

    def build(self, shape: torch.Size) -> nn.Module:
        """Return the network for the shape."""
        return (self.image if len(shape) == 3 else self.row).build(shape)


@dataclass(frozen=True)
class DensityUNet:
    """A log-density given the noise level, the error of reconstruction by a `UNet`.

    Attributes:
        width: Number of channels at the first resolution.
    """

    width: int = 32

    def build(self, shape: torch.Size) -> nn.Module:
        """Return the network."""
        return UNetDensity(UNet(shape, self.width))


@dataclass(frozen=True)
class ScoreUNet:
    """A score given the noise level, predicted by a `UNet`.

    Attributes:
        width: Number of channels at the first resolution.
    """

    width: int = 32

    def build(self, shape: torch.Size) -> nn.Module:
        """Return the network."""
        return UNetScore(UNet(shape, self.width))
