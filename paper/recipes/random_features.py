"""Convolutions with random weights as features, if no trained network is available.

They respond to colors, edges and textures. Embeddings of untrained networks can distinguish
samples from real images, and are recommended for data that are very different from ImageNet.

Reference:
    Naeem et al. (2020), https://arxiv.org/abs/2002.09797.
"""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from fdsm.evaluation import unit_range


class RandomConvolutions(nn.Module):
    """Strided convolutions with ReLU and random weights, averaged over the image.

    The weights have the variance of He et al. (2015), which preserves the scale of the maps. Gray
    images are repeated to three channels. The parameters are float32.

    Args:
        widths: Number of channels of each convolution. The last is the number of features.
        seed: Random seed of the weights.

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
