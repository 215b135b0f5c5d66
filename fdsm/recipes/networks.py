"""Which network a deep log-density is, as a value that can be put on record."""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import nn

from ..models import GaussianTailMLP, QuadraticMLP, QuadraticResNet


class Network(Protocol):
    """A network to be made for events of some shape."""

    def build(self, shape: torch.Size) -> nn.Module:
        """Return a log-density of events of a shape, untrained."""
        ...


@dataclass(frozen=True)
class ResNet:
    """A `QuadraticResNet`.

    Attributes:
        width: The channels before the first block; 128 in the paper.
        gain: By how much the convolutions are larger than usual at the start.
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
        widths: The widths of the hidden layers.
    """

    widths: tuple[int, ...] = (256, 256, 256)

    def build(self, shape: torch.Size) -> nn.Module:
        """Return the network."""
        return QuadraticMLP(shape, self.widths)


@dataclass(frozen=True)
class GaussianTail:
    """A `GaussianTailMLP`.

    Attributes:
        widths: The widths of the hidden layers.
        gain: By how much the first layer is larger than usual.
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
        image: For events with three dimensions.
        row: For all others.
    """

    image: Network = ResNet(8, gain=1.8)
    row: Network = MLP()

    def build(self, shape: torch.Size) -> nn.Module:
        """Return the network that fits the shape."""
        return (self.image if len(shape) == 3 else self.row).build(shape)
