"""A perceptron that ends in a quadratic form of its features."""

from collections.abc import Sequence

from torch import Tensor, nn

from .layers import Activation, QuadraticHead, made, perceptron, size


class QuadraticMLP(nn.Module):
    r"""A log-density of rows or small images: a perceptron and a quadratic head.

    Args:
        shape: The shape of an event, or its length; events are flattened.
        widths: The widths of the hidden layers.
        activation: What makes the activations, one after every hidden layer; smooth.

    Example:
        >>> import torch
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
            raise ValueError("widths must name at least one hidden layer, but is empty")
        self.features = nn.Sequential(
            nn.Flatten(), *perceptron((size(shape), *widths), activation), made(activation)
        )
        self.head = QuadraticHead(widths[-1])

    def forward(self, x: Tensor) -> Tensor:
        """Return the log-density, shape `(B, *E) -> (B,)`."""
        result: Tensor = self.head(self.features(x))
        return result
