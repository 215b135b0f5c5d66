"""Networks with several inputs, vectors or images, for encoders and their scores."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from .layers import Activation, num_elements, out_of_place, perceptron

Shape = int | Sequence[int]
"""Event shape, or its length."""


class MultiInputMLP(nn.Module):
    r"""A multilayer perceptron of several inputs, flattened and concatenated.

    With inputs $(x, ξ)$ it is an encoder with noise, with $x$ alone a deterministic encoder, with
    $(z, x)$ the score of a latent given data, and with $z$ alone the score of the marginal
    distribution of latents. The defaults are those of the paper for MNIST.

    Reference:
        Pang et al. (2020), https://arxiv.org/abs/2007.03317, Table 6 and App. C.4.

    Args:
        inputs: Event shape of each input.
        output: Length of the output.
        widths: Widths of the hidden layers.
        activation: Constructor of the activations. It should be smooth for a score.

    Example:
        >>> score = MultiInputMLP([32, (1, 28, 28)], 32)
        >>> score(torch.zeros(5, 32), torch.zeros(5, 1, 28, 28)).shape
        torch.Size([5, 32])
    """

    def __init__(
        self,
        inputs: Sequence[Shape],
        output: int,
        widths: Sequence[int] = (256, 256),
        activation: Activation = nn.Tanh,
    ) -> None:
        super().__init__()
        self.network = perceptron((sum(map(num_elements, inputs)), *widths, output), activation)

    def forward(self, *inputs: Tensor) -> Tensor:
        """Return the outputs, shape `(B, output)`. The inputs are in the order of `inputs`."""
        result: Tensor = self.network(torch.cat([x.flatten(1) for x in inputs], 1))
        return result


class MultiInputCNN(nn.Module):
    r"""A convolutional network of images and vectors. Each vector is mapped to an image channel.

    It has four strided convolutions from `width` to `8 * width` channels and two linear layers.
    With the default width and images of 64 × 64 it is the network of the paper for CelebA: with
    `nn.ReLU` for the encoder, with `nn.Softplus` for the score.

    Reference:
        Pang et al. (2020), https://arxiv.org/abs/2007.03317, Table 6 and App. C.4.

    Args:
        inputs: Event shape of each input: `(C, H, W)` for images, the length for vectors.
        output: Length of the output.
        side: Height and width of the images, a multiple of 16.
        width: Number of channels of the first convolution.
        activation: Constructor of the activations. It should be smooth for a score.

    Raises:
        ValueError: If an input has the wrong shape.

    Example:
        >>> score = MultiInputCNN([8, (3, 16, 16)], 8, side=16, width=4)
        >>> score(torch.zeros(5, 8), torch.zeros(5, 3, 16, 16)).shape
        torch.Size([5, 8])
    """

    def __init__(
        self,
        inputs: Sequence[Shape],
        output: int,
        side: int = 64,
        width: int = 64,
        activation: Activation = nn.Softplus,
    ) -> None:
        super().__init__()
        if side % 16 or side <= 0:
            raise ValueError(f"side must be a positive multiple of 16, but is {side}")
        shapes = [(s,) if isinstance(s, int) else tuple(s) for s in inputs]
        for shape in shapes:
            if len(shape) != 1 and shape[1:] != (side, side):
                raise ValueError(
                    f"inputs must be vectors or images of {side} × {side}, but one has the "
                    f"shape {shape}: resize it, or choose another side"
                )
        self.planes = nn.ModuleList(
            _Plane(shape[0], side, activation) if len(shape) == 1 else nn.Identity()
            for shape in shapes
        )
        channels = sum(1 if len(shape) == 1 else shape[0] for shape in shapes)
        widths = (channels, width, 2 * width, 4 * width, 8 * width)
        layers: list[nn.Module] = []
        for before, after in pairwise(widths):
            layers += [nn.Conv2d(before, after, 5, stride=2, padding=2), out_of_place(activation)]
        features = 8 * width * (side // 16) ** 2
        self.network = nn.Sequential(
            *layers[:-1], nn.Flatten(), *perceptron((features, 8 * width, output), activation)
        )

    def forward(self, *inputs: Tensor) -> Tensor:
        """Return the outputs, shape `(B, output)`. The inputs are in the order of `inputs`."""
        planes = [plane(x) for plane, x in zip(self.planes, inputs, strict=True)]
        result: Tensor = self.network(torch.cat(planes, 1))
        return result


class _Plane(nn.Module):
    """Linear map of a vector to an image channel."""

    def __init__(self, dim: int, side: int, activation: Activation) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(dim, side**2), out_of_place(activation), nn.Unflatten(1, (1, side, side))
        )

    def forward(self, z: Tensor) -> Tensor:
        result: Tensor = self.layers(z)
        return result
