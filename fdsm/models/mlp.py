"""Multilayer perceptrons: with a quadratic head, and with Gaussian tails."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ..tensors import dot
from .layers import Activation, QuadraticHead, num_elements, out_of_place, perceptron


class QuadraticMLP(nn.Module):
    r"""A log-density of vectors or small images: a multilayer perceptron and a quadratic head.

    Args:
        shape: Event shape, or its length. Events are flattened.
        widths: Widths of the hidden layers.
        activation: Constructor of the activations, which should be smooth.

    Example:
        >>> QuadraticMLP((1, 8, 8), widths=(16, 16))(torch.zeros(5, 1, 8, 8)).shape
        torch.Size([5])
    """

    def __init__(
        self,
        shape: int | Sequence[int],
        widths: Sequence[int] = (512, 512, 512),
        activation: Activation = nn.SiLU,
    ) -> None:
        super().__init__()
        if not widths:
            raise ValueError("widths must have at least one hidden layer, but is empty")
        self.features = nn.Sequential(
            nn.Flatten(),
            *perceptron((num_elements(shape), *widths), activation),
            out_of_place(activation),
        )
        self.head = QuadraticHead(widths[-1])

    def forward(self, x: Tensor) -> Tensor:
        """Return the log-density, shape `(B, *E) -> (B,)`."""
        result: Tensor = self.head(self.features(x))
        return result


class GaussianTailMLP(nn.Module):
    r"""A normalizable log-density of vectors, $\mathrm{MLP}(x) - e^{c}‖x‖²/2$.

    The network grows at most linearly, so the learned quadratic term makes $e^f$ integrable. It
    also gives an untrained network a curvature that second differences in float32 can resolve.

    Args:
        shape: Event shape, or its length. Events are flattened.
        widths: Widths of the hidden layers.
        gain: Factor of the initial first layer. A larger factor gives narrower features.
        activation: Constructor of the activations, which should be smooth.

    Example:
        >>> GaussianTailMLP(2, widths=(16,))(torch.zeros(5, 2)).shape
        torch.Size([5])
    """

    def __init__(
        self,
        shape: int | Sequence[int],
        widths: Sequence[int] = (64, 64, 64),
        gain: float = 3.0,
        activation: Activation = nn.SiLU,
    ) -> None:
        super().__init__()
        if not widths:
            raise ValueError("widths must have at least one hidden layer, but is empty")
        layers = perceptron((num_elements(shape), *widths), activation)
        self.network = nn.Sequential(
            nn.Flatten(), *layers, out_of_place(activation), nn.Linear(widths[-1], 1, bias=False)
        )
        self.log_precision = nn.Parameter(torch.zeros(()))
        first = next(layer for layer in layers if isinstance(layer, nn.Linear))
        with torch.no_grad():
            first.weight.mul_(gain)
            first.bias.mul_(gain)

    def forward(self, x: Tensor) -> Tensor:
        """Return the log-density up to a constant, shape `(B, *E) -> (B,)`."""
        values: Tensor = self.network(x).squeeze(1)
        return values - self.log_precision.exp() * dot(x, x) / 2
