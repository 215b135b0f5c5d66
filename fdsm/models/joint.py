"""Networks of several inputs at once, vectors or images: what encoders and their scores are."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from .layers import Activation, made, perceptron, size

Shape = int | Sequence[int]
"""The shape of an event, or its length."""


class MultiInputMLP(nn.Module):
    r"""A vector from several inputs, flattened and put side by side.

    With inputs $(x, ξ)$ it is an encoder that takes noise, with $x$ alone one that does not, with
    $(z, x)$ the score of a latent given data, and with $z$ alone the score of the latents of all
    data. The defaults are the paper's for MNIST.

    Reference:
        Pang et al. (2020), https://arxiv.org/abs/2007.03317, Table 6 and App. C.4.

    Args:
        inputs: The shape of an event of every input.
        output: The length of the vector.
        widths: The widths of the hidden layers.
        activation: What makes the activations; smooth for a score.

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
        self.network = perceptron((sum(map(size, inputs)), *widths, output), activation)

    def forward(self, *inputs: Tensor) -> Tensor:
        """Return the vectors, shape `(B, output)`, of inputs in the order they were named."""
        result: Tensor = self.network(torch.cat([x.flatten(1) for x in inputs], 1))
        return result


class MultiInputCNN(nn.Module):
    r"""A vector from images and vectors, each vector first made into one channel of an image.

    Four strided convolutions from `width` to `8 * width` channels and two linear layers. At the
    default width, with images of 64 × 64, it is what the paper uses for CelebA: as an encoder with
    `nn.ReLU`, as a score with `nn.Softplus`.

    Reference:
        Pang et al. (2020), https://arxiv.org/abs/2007.03317, Table 6 and App. C.4.

    Args:
        inputs: The shape of an event of every input: `(C, H, W)` for images, a length for vectors.
        output: The length of the vector returned.
        side: Height and width of the images, a multiple of 16.
        width: The channels after the first convolution.
        activation: What makes the activations; smooth for a score.

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
                    f"shape {shape}: resize it, or give another side"
                )
        self.planes = nn.ModuleList(
            _Plane(shape[0], side, activation) if len(shape) == 1 else nn.Identity()
            for shape in shapes
        )
        channels = sum(1 if len(shape) == 1 else shape[0] for shape in shapes)
        widths = (channels, width, 2 * width, 4 * width, 8 * width)
        layers: list[nn.Module] = []
        for before, after in pairwise(widths):
            layers += [nn.Conv2d(before, after, 5, stride=2, padding=2), made(activation)]
        features = 8 * width * (side // 16) ** 2
        self.network = nn.Sequential(
            *layers[:-1], nn.Flatten(), *perceptron((features, 8 * width, output), activation)
        )

    def forward(self, *inputs: Tensor) -> Tensor:
        """Return the vectors, shape `(B, output)`, of inputs in the order they were named."""
        planes = [plane(x) for plane, x in zip(self.planes, inputs, strict=True)]
        result: Tensor = self.network(torch.cat(planes, 1))
        return result


class _Plane(nn.Module):
    """A vector made into a channel of an image."""

    def __init__(self, dim: int, side: int, activation: Activation) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(dim, side**2), made(activation), nn.Unflatten(1, (1, side, side))
        )

    def forward(self, z: Tensor) -> Tensor:
        result: Tensor = self.layers(z)
        return result
