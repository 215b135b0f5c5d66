"""Convolutions with random weights as features, where there is no trained network to be had.

They see colours, edges and textures but no meaning. Embeddings by untrained networks do tell
samples from images, and are even recommended where the data have little to do with ImageNet.

Reference:
    Naeem et al. (2020), https://arxiv.org/abs/2002.09797.
"""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from .fid import unit_range


class RandomConvolutions(nn.Module):
    """Strided convolutions with ReLU and weights that are never trained, averaged over the image.

    Weights have the variance of He et al. (2015), so that maps neither vanish nor grow. Grey
    images become three equal channels. The parameters are float32 whatever torch's default is.

    Args:
        widths: The channels after each convolution; the last are the features.
        seed: Decides the weights.

    Example:
        >>> features = RandomConvolutions((4, 8))
        >>> features(torch.zeros(5, 3, 16, 16)).shape, features.name
        (torch.Size([5, 8]), 'random convolutions 4-8, seed 0')
    """

    def __init__(self, widths: Sequence[int] = (32, 64, 128), seed: int = 0) -> None:
        super().__init__()
        self.name = f"random convolutions {'-'.join(map(str, widths))}, seed {seed}"
        layers: list[nn.Module] = []
        for before, after in pairwise((3, *widths)):
            layers += [nn.Conv2d(before, after, 3, stride=2, padding=1), nn.ReLU()]
        self.layers = nn.Sequential(*layers).float()
        generator = torch.Generator().manual_seed(seed)
        for parameter in self.parameters():
            scale = (2 / parameter[0].numel()) ** 0.5 if parameter.ndim == 4 else 0.0
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float32)
            parameter.data = scale * noise
        self.requires_grad_(False)

    def forward(self, images: Tensor) -> Tensor:
        """Return the features of images from 0 to 1, `(B, 1 or 3, H, W) -> (B, F)`."""
        x = 2 * unit_range(images).float().expand(-1, 3, -1, -1) - 1
        result: Tensor = self.layers(x).mean((2, 3))
        return result
