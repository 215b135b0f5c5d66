"""Transforms of images `(N, C, H, W)` and of the shape of rows."""

from dataclasses import dataclass, field, replace
from typing import Self

import torch
from torch import Generator, Tensor
from torch.nn import functional

from fdsm.tensors import per_example

from .transform import Identity, as_float, require_state


@dataclass(frozen=True)
class Flip(Identity):
    """Mirror each image horizontally with probability 1/2."""

    def sample(self, x: Tensor, generator: Generator | None = None) -> Tensor:
        """Return the images, each mirrored with probability 1/2."""
        coin = torch.rand(len(x), device=x.device, generator=generator) < 0.5
        return torch.where(per_example(coin, x), x.flip(-1), x)


@dataclass(frozen=True)
class Pad(Identity):
    """Add a border around images. The inverse removes it.

    Attributes:
        size: Height and width with the border.
        value: Pixel value of the border.
        inner: Height and width without the border. Learned.

    Example:
        >>> Pad(4).deterministic(torch.ones(1, 1, 2, 2))[0, 0]
        tensor([[0., 0., 0., 0.],
                [0., 1., 1., 0.],
                [0., 1., 1., 0.],
                [0., 0., 0., 0.]])
    """

    size: int
    value: float = 0.0
    inner: tuple[int, int] | None = field(default=None, repr=False, compare=False)

    def fit(self, x: Tensor) -> Self:
        """Return the transform with the size of the images. The inverse needs it."""
        height, width = _size(x)
        return replace(self, inner=(height, width))

    def deterministic(self, x: Tensor) -> Tensor:
        """Return the images with the border."""
        height, width = _size(x)
        if max(height, width) > self.size:
            raise ValueError(f"images of {height}x{width} do not fit into {self.size}x{self.size}")
        top, left = (self.size - height) // 2, (self.size - width) // 2
        border = (left, self.size - width - left, top, self.size - height - top)
        return functional.pad(x, border, value=self.value)

    def inverse(self, y: Tensor) -> Tensor:
        """Return the images without the border."""
        if self.inner is None:
            raise ValueError("Pad is not fitted: call fit(images) first")
        height, width = self.inner
        top, left = (self.size - height) // 2, (self.size - width) // 2
        return y[..., top : top + height, left : left + width]

    def state(self) -> dict[str, Tensor]:
        """Return the size without the border."""
        return {} if self.inner is None else {"inner": torch.tensor(self.inner)}

    def restore(self, state: dict[str, Tensor]) -> Self:
        """Return the transform with a size from `state()`."""
        (inner,) = require_state("Pad", state, "inner")
        height, width = inner.tolist()
        return replace(self, inner=(height, width))


@dataclass(frozen=True)
class Resize(Identity):
    """Resize images with antialiased bilinear interpolation. The inverse is the identity.

    Attributes:
        size: New height and width.

    Example:
        >>> Resize(1).deterministic(torch.tensor([[[[0.0, 1.0], [2.0, 3.0]]]]))
        tensor([[[[1.5000]]]])
    """

    size: int

    def deterministic(self, x: Tensor) -> Tensor:
        """Return the resized images, as floats in the same units."""
        _size(x)
        return functional.interpolate(
            as_float(x), (self.size, self.size), mode="bilinear", antialias=True
        )


@dataclass(frozen=True)
class Flatten(Identity):
    """Flatten rows to vectors: `(N, *E) -> (N, d)`. The inverse restores the shape.

    Attributes:
        event: Shape `E` of a row. Learned.

    Example:
        >>> Flatten().deterministic(torch.zeros(5, 1, 8, 8)).shape
        torch.Size([5, 64])
    """

    event: tuple[int, ...] | None = field(default=None, repr=False, compare=False)

    def fit(self, x: Tensor) -> Self:
        """Return the transform with the shape of a row. The inverse needs it."""
        return replace(self, event=tuple(x.shape[1:]))

    def deterministic(self, x: Tensor) -> Tensor:
        """Return vectors, shape `(N, d)`."""
        return x.flatten(1)

    def inverse(self, y: Tensor) -> Tensor:
        """Return rows of the original shape, `(N, *E)`."""
        if self.event is None:
            raise ValueError("Flatten is not fitted: call fit(rows) first")
        return y.reshape(len(y), *self.event)

    def state(self) -> dict[str, Tensor]:
        """Return the shape of a row."""
        return {} if self.event is None else {"event": torch.tensor(self.event)}

    def restore(self, state: dict[str, Tensor]) -> Self:
        """Return the transform with a shape from `state()`."""
        (event,) = require_state("Flatten", state, "event")
        return replace(self, event=tuple(event.tolist()))


def _size(x: Tensor) -> tuple[int, int]:
    if x.ndim != 4:
        raise ValueError(f"expected images of shape (N, C, H, W) but got {tuple(x.shape)}")
    return x.shape[2], x.shape[3]
