"""A residual network with a quadratic head."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from .layers import Activation, QuadraticHead, ShiftedSoftplus, out_of_place


class QuadraticResNet(nn.Module):
    r"""A log-density of images: 18 convolutions in 9 residual blocks and a quadratic head.

    This is the deep model of the paper's Tables 2 and 4. It starts with `width` channels. Blocks
    1, 4 and 7 halve the image with average pooling and double the channels. There are no
    normalization layers. It has 62.3 million parameters for 32 × 32 images with the default width.

    The paper states that the activation is ELU, but its final runs used the shifted softplus,
    which is smooth as required by the theory.

    Reference:
        Pang et al. (2020), https://arxiv.org/abs/2007.03317, App. C.2.
        Li et al. (2019), https://arxiv.org/abs/1910.07762, for the architecture.

    Args:
        shape: Channels, height and width of an image. Height and width are multiples of eight.
        width: Number of channels before the first block.
        activation: Constructor of the activations.
        gain: Factor of the initial convolutions. With 1, as published, every shifted softplus
            halves the signal, and training starts with a long plateau. With 1.8 there is no
            plateau.

    Raises:
        ValueError: If height or width is not a multiple of eight.

    Example:
        >>> QuadraticResNet((1, 8, 8), width=4)(torch.zeros(2, 1, 8, 8)).shape
        torch.Size([2])
    """

    def __init__(
        self,
        shape: Sequence[int],
        width: int = 128,
        activation: Activation = ShiftedSoftplus,
        gain: float = 1.0,
    ) -> None:
        super().__init__()
        if len(shape) != 3 or shape[1] % 8 or shape[2] % 8 or not all(shape):
            raise ValueError(
                "images must have the shape (channels, height, width), with height and width "
                f"multiples of 8, but have {tuple(shape)}: pad or resize them"
            )
        channels, rows, columns = shape
        blocks: list[nn.Module] = []
        for here in (width, 2 * width, 4 * width):
            blocks += [
                _Block(here, 2 * here, activation, halving=True),
                _Block(2 * here, 2 * here, activation),
                _Block(2 * here, 2 * here, activation),
            ]
        self.features = nn.Sequential(
            nn.Conv2d(channels, width, 3, padding=1), *blocks, nn.Flatten()
        )
        self.head = QuadraticHead(8 * width * (rows // 8) * (columns // 8))
        with torch.no_grad():
            for layer in self.features.modules():
                if isinstance(layer, nn.Conv2d):
                    layer.weight.mul_(gain)

    def forward(self, x: Tensor) -> Tensor:
        """Return the log-density, shape `(B, C, H, W) -> (B,)`."""
        result: Tensor = self.head(self.features(x))
        return result


class _Block(nn.Module):
    """Two convolutions, each after an activation, and a learned 1 × 1 shortcut."""

    def __init__(
        self, before: int, after: int, activation: Activation, *, halving: bool = False
    ) -> None:
        super().__init__()
        pool: list[nn.Module] = [nn.AvgPool2d(2)] if halving else []
        self.residual = nn.Sequential(
            out_of_place(activation),
            nn.Conv2d(before, before, 3, padding=1, bias=False),
            out_of_place(activation),
            nn.Conv2d(before, after, 3, padding=1),
            *pool,
        )
        self.shortcut = nn.Sequential(*pool, nn.Conv2d(before, after, 1))

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.residual(x) + self.shortcut(x)
        return result
