"""A multilayer perceptron with a quadratic head."""

from collections.abc import Sequence

from torch import Tensor, nn

from .layers import Activation, QuadraticHead, num_elements, out_of_place, perceptron


class QuadraticMLP(nn.Module):
    r"""A log-density of vectors or small images: a multilayer perceptron and a quadratic head.

    Args:
        shape: Event shape, or its length. Events are flattened.
        widths: Widths of the hidden layers.
        activation: Constructor of the activations, which should be smooth.

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
