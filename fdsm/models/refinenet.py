"""The score network of NCSN: a conditional RefineNet with dilated convolutions."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..noise import Geometric, require_levels
from .layers import Activation, out_of_place


class RefineNet(nn.Module):
    r"""A noise-conditional score of images in $[0, 1]$ with added noise.

    The network has eight residual blocks in four stages, followed by four refining stages from the
    coarsest to the finest. The second stage halves the image; the last two use dilated
    convolutions instead. Every convolution except the first follows a normalization with scales
    and shifts for each noise level. Pooling is average pooling. The input is scaled to $[-1, 1]$.
    There are 30,117,635 parameters for CIFAR-10 with the default width, 7,638,657 for MNIST with
    width 64.

    The published activation is ELU, whose second derivative is discontinuous. This biases the
    parameter gradients of exact sliced score matching, but not those of finite differences. To
    compare the two, use a smooth activation such as `nn.SiLU`.

    Reference:
        Song and Ermon (2019), https://arxiv.org/abs/1907.05600, App. A.

    Args:
        channels: Number of image channels.
        width: Number of channels of the finest stage. The others have twice that number.
        levels: The noise levels.
        activation: Constructor of the activations.

    Example:
        >>> score = RefineNet(1, width=4)
        >>> score(torch.rand(2, 1, 8, 8), torch.tensor([1.0, 0.01])).shape
        torch.Size([2, 1, 8, 8])
    """

    levels: Tensor

    def __init__(
        self,
        channels: int = 3,
        width: int = 128,
        levels: Sequence[float] = Geometric(1.0, 0.01, 10).levels,
        activation: Activation = nn.ELU,
    ) -> None:
        super().__init__()
        require_levels(*levels, count=len(levels))
        n, wide = len(levels), 2 * width
        self.register_buffer("levels", torch.tensor(levels), persistent=False)
        self.first = nn.Conv2d(channels, width, 3, padding=1)
        self.stages = nn.ModuleList([
            _Stage(width, width, n, activation),
            _Stage(width, wide, n, activation, halving=True),
            _Stage(wide, wide, n, activation, dilation=2),
            _Stage(wide, wide, n, activation, dilation=4),
        ])
        self.refining = nn.ModuleList([
            _Refine([wide], wide, n, activation),
            _Refine([wide, wide], wide, n, activation),
            _Refine([wide, wide], width, n, activation),
            _Refine([width, width], width, n, activation, last=3),
        ])
        self.last = _Normalized(width, channels, n, activation, bias=True)

    def forward(self, x: Tensor, sigma: Tensor) -> Tensor:
        """Return the scores, shape `(B, C, H, W), (B,) -> (B, C, H, W)`.

        Args:
            x: The noisy images.
            sigma: The noise level of each image. The nearest level of the model, by ratio, is
                used.

        Returns:
            The scores at these levels.
        """
        level = (sigma[:, None] / self.levels).log().abs().argmin(1)
        h, finer = self.first(2 * x - 1), []
        for stage in self.stages:
            h = stage(h, level)
            finer.append(h)
        h = self.refining[0]([finer[3]], level)
        for refine, skip in zip(list(self.refining)[1:], reversed(finer[:3]), strict=True):
            h = refine([skip, h], level)
        result: Tensor = self.last(h, level)
        return result


class ConditionalInstanceNorm(nn.Module):
    r"""Instance normalization conditioned on the noise level, which also keeps the channel means.

    $$y_c = γ_c \left[ \frac{x_c - μ_c}{\sqrt{v_c + ϵ}} + α_c \frac{μ_c - m}{\sqrt{w + ϵ}} \right]
      + β_c$$

    with mean $μ_c$ and variance $v_c$ of a channel, mean $m$ and variance $w$ of these means, and
    parameters $γ$, $α$, $β$ for each level.

    Reference:
        Song and Ermon (2019), https://arxiv.org/abs/1907.05600, App. A, "CondInstanceNorm++".

    Args:
        channels: Number of channels.
        levels: Number of noise levels.
    """

    def __init__(self, channels: int, levels: int) -> None:
        super().__init__()
        scales = 1 + 0.02 * torch.randn(levels, 2 * channels)
        self.embedding = nn.Parameter(torch.cat([scales, torch.zeros(levels, channels)], 1))

    def forward(self, x: Tensor, level: Tensor) -> Tensor:
        """Return the normalized image, shape `(B, C, H, W), (B,) -> (B, C, H, W)`."""
        mean = x.mean((2, 3), keepdim=True)
        centered = x - mean
        spread = centered.square().mean((2, 3), keepdim=True)
        means = (mean - mean.mean(1, keepdim=True)) * (mean.var(1, keepdim=True) + 1e-5).rsqrt()
        gamma, alpha, beta = self.embedding[level][:, :, None, None].chunk(3, 1)
        return gamma * (centered * (spread + 1e-5).rsqrt() + alpha * means) + beta


class _Normalized(nn.Module):
    """A 3 × 3 convolution after normalization and activation."""

    def __init__(
        self,
        before: int,
        after: int,
        levels: int,
        activation: Activation,
        *,
        bias: bool = False,
        dilation: int = 1,
    ) -> None:
        super().__init__()
        self.norm = ConditionalInstanceNorm(before, levels)
        self.activation = out_of_place(activation)
        self.convolution = nn.Conv2d(
            before, after, 3, padding=dilation, dilation=dilation, bias=bias
        )

    def forward(self, x: Tensor, level: Tensor) -> Tensor:
        result: Tensor = self.convolution(self.activation(self.norm(x, level)))
        return result


class _Stage(nn.Module):
    """Two residual blocks. The first may change width and resolution."""

    def __init__(
        self,
        before: int,
        after: int,
        levels: int,
        activation: Activation,
        *,
        halving: bool = False,
        dilation: int = 1,
    ) -> None:
        super().__init__()
        pool = nn.AvgPool2d(2) if halving else nn.Identity()
        shortcut: nn.Module = nn.Identity()
        if dilation > 1:
            shortcut = nn.Conv2d(before, after, 3, padding=dilation, dilation=dilation)
        elif halving:
            shortcut = nn.Conv2d(before, after, 1)

        def convolution(before: int, after: int) -> _Normalized:
            return _Normalized(before, after, levels, activation, bias=True, dilation=dilation)

        self.first = _Block(
            convolution(before, before), convolution(before, after), shortcut, pool
        )
        self.second = _Block(
            convolution(after, after), convolution(after, after), nn.Identity(), nn.Identity()
        )

    def forward(self, x: Tensor, level: Tensor) -> Tensor:
        result: Tensor = self.second(self.first(x, level), level)
        return result


class _Block(nn.Module):
    """Two convolutions and a shortcut, followed by pooling."""

    def __init__(
        self, first: nn.Module, second: nn.Module, shortcut: nn.Module, pool: nn.Module
    ) -> None:
        super().__init__()
        self.first, self.second = first, second
        self.shortcut, self.pool = shortcut, pool

    def forward(self, x: Tensor, level: Tensor) -> Tensor:
        h = self.second(self.first(x, level), level)
        result: Tensor = self.pool(h + self.shortcut(x))
        return result


class _Refine(nn.Module):
    """Adaptation of feature maps, fusion at the resolution of the first, and residual pooling."""

    def __init__(
        self,
        inputs: Sequence[int],
        width: int,
        levels: int,
        activation: Activation,
        *,
        last: int = 1,
    ) -> None:
        super().__init__()
        self.adapt = nn.ModuleList(_Residual(c, 2, levels, activation) for c in inputs)
        self.fuse = nn.ModuleList(_Fuse(c, width, levels) for c in inputs[len(inputs) == 1 :])
        self.activation = out_of_place(activation)
        self.pool = nn.ModuleList(_Pool(width, levels) for _ in range(2))
        self.output = _Residual(width, last, levels, activation)

    def forward(self, inputs: Sequence[Tensor], level: Tensor) -> Tensor:
        maps = [adapt(x, level) for adapt, x in zip(self.adapt, inputs, strict=True)]
        if self.fuse:
            maps = [
                functional.interpolate(
                    fuse(x, level), maps[0].shape[2:], mode="bilinear", align_corners=True
                )
                for fuse, x in zip(self.fuse, maps, strict=True)
            ]
        h = path = self.activation(sum(maps))
        for pool in self.pool:
            path = pool(path, level)
            h = h + path
        result: Tensor = self.output(h, level)
        return result


class _Residual(nn.Module):
    """Pairs of convolutions, each added to its input."""

    def __init__(self, width: int, blocks: int, levels: int, activation: Activation) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(
            _Normalized(width, width, levels, activation) for _ in range(2 * blocks)
        )

    def forward(self, x: Tensor, level: Tensor) -> Tensor:
        layers = list(self.convolutions)
        for first, second in zip(layers[::2], layers[1::2], strict=True):
            x = x + second(first(x, level), level)
        return x


class _Fuse(nn.Module):
    """Normalization and a convolution to a common width."""

    def __init__(self, before: int, after: int, levels: int) -> None:
        super().__init__()
        self.norm = ConditionalInstanceNorm(before, levels)
        self.convolution = nn.Conv2d(before, after, 3, padding=1)

    def forward(self, x: Tensor, level: Tensor) -> Tensor:
        result: Tensor = self.convolution(self.norm(x, level))
        return result


class _Pool(nn.Module):
    """Normalization, average pooling over 5 × 5 pixels and a convolution."""

    def __init__(self, width: int, levels: int) -> None:
        super().__init__()
        self.norm = ConditionalInstanceNorm(width, levels)
        self.pool = nn.AvgPool2d(5, stride=1, padding=2)
        self.convolution = nn.Conv2d(width, width, 3, padding=1, bias=False)

    def forward(self, x: Tensor, level: Tensor) -> Tensor:
        result: Tensor = self.convolution(self.pool(self.norm(x, level)))
        return result
