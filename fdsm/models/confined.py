"""A perceptron kept together by a Gaussian."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ..tensors import dot
from .layers import Activation, made, perceptron, size


class GaussianTailMLP(nn.Module):
    r"""A log-density of rows that can be normalised, $\mathrm{MLP}(x) - e^{c}‖x‖²/2$.

    The network grows at most linearly, so that the learnt quadratic makes $e^f$ integrable. It
    also gives $f$ a curvature from the start, without which the second differences of an untrained
    network are rounding error in float32.

    Args:
        shape: The shape of an event, or its length; events are flattened.
        widths: The widths of the hidden layers.
        gain: By how much the first layer is larger than usual, for features as narrow as the
            details to be learnt.
        activation: What makes the activations; smooth.

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
            raise ValueError("widths must name at least one hidden layer, but is empty")
        layers = perceptron((size(shape), *widths), activation)
        self.network = nn.Sequential(
            nn.Flatten(), *layers, made(activation), nn.Linear(widths[-1], 1, bias=False)
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
