"""Transforms of whole images `(N, C, H, W)`."""

from dataclasses import dataclass, field, replace
from typing import Self

import torch
from torch import Generator, Tensor
from torch.nn import functional

from ...tensors import per_example
from .transform import Plain, real, restored


@dataclass(frozen=True)
class Flip(Plain):
    """Mirrors images: left becomes right with probability 1/2."""

    def sample(self, x: Tensor, generator: Generator | None = None) -> Tensor:
        """Return the images, about half of them mirrored."""
        coin = torch.rand(len(x), device=x.device, generator=generator) < 0.5
        return torch.where(per_example(coin, x), x.flip(-1), x)


@dataclass(frozen=True)
class Pad(Plain):
    """Puts a border around images; the inverse takes it off again.

    Attributes:
        size: Height and width with the border.
        value: What the border is made of.
        inner: Height and width without it; learnt.

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
        """Return this transform with the size of the images, which the inverse needs."""
        height, width = _size(x)
        return replace(self, inner=(height, width))

    def deterministic(self, x: Tensor) -> Tensor:
        """Return the images in the middle of larger ones."""
        height, width = _size(x)
        if max(height, width) > self.size:
            raise ValueError(f"images of {height}x{width} do not fit into {self.size}x{self.size}")
        top, left = (self.size - height) // 2, (self.size - width) // 2
        border = (left, self.size - width - left, top, self.size - height - top)
        return functional.pad(x, border, value=self.value)

    def inverse(self, y: Tensor) -> Tensor:
        """Return the images without the border."""
        if self.inner is None:
            raise ValueError("Pad does not know the size without the border: fit it to images")
        height, width = self.inner
        top, left = (self.size - height) // 2, (self.size - width) // 2
        return y[..., top : top + height, left : left + width]

    def state(self) -> dict[str, Tensor]:
        """Return the size without the border."""
        return {} if self.inner is None else {"inner": torch.tensor(self.inner)}

    def restore(self, state: dict[str, Tensor]) -> Self:
        """Return this transform with a size learnt before."""
        (inner,) = restored("Pad", state, "inner")
        height, width = inner.tolist()
        return replace(self, inner=(height, width))


@dataclass(frozen=True)
class CenterCrop(Plain):
    """Cuts out the middle; what is cut off is lost, so that the inverse leaves images as they are.

    Attributes:
        size: The height and width that stay.

    Example:
        >>> CenterCrop(2).deterministic(torch.arange(16).view(1, 1, 4, 4))[0, 0]
        tensor([[ 5,  6],
                [ 9, 10]])
    """

    size: int

    def deterministic(self, x: Tensor) -> Tensor:
        """Return the middle of the images."""
        height, width = _size(x)
        if min(height, width) < self.size:
            raise ValueError(f"images of {height}x{width} have no middle of size {self.size}")
        top, left = round((height - self.size) / 2), round((width - self.size) / 2)
        return x[..., top : top + self.size, left : left + self.size]


@dataclass(frozen=True)
class Resize(Plain):
    """Another resolution, by averaging (bilinear, antialiased); the inverse does nothing.

    Attributes:
        size: The new height and width.

    Example:
        >>> Resize(1).deterministic(torch.tensor([[[[0.0, 1.0], [2.0, 3.0]]]]))
        tensor([[[[1.5000]]]])
    """

    size: int

    def deterministic(self, x: Tensor) -> Tensor:
        """Return the images at the new resolution, as floats in the same units."""
        _size(x)
        return functional.interpolate(
            real(x), (self.size, self.size), mode="bilinear", antialias=True
        )


@dataclass(frozen=True)
class Flatten(Plain):
    """Events in a row: `(N, *E) -> (N, d)`; the inverse gives them their shape back.

    Attributes:
        event: The shape of an event; learnt.

    Example:
        >>> Flatten().deterministic(torch.zeros(5, 1, 8, 8)).shape
        torch.Size([5, 64])
    """

    event: tuple[int, ...] | None = field(default=None, repr=False, compare=False)

    def fit(self, x: Tensor) -> Self:
        """Return this transform with the shape of an event, which the inverse needs."""
        return replace(self, event=tuple(x.shape[1:]))

    def deterministic(self, x: Tensor) -> Tensor:
        """Return the events as vectors."""
        return x.flatten(1)

    def inverse(self, y: Tensor) -> Tensor:
        """Return the vectors as events."""
        if self.event is None:
            raise ValueError("Flatten does not know the shape of an event: fit it to data")
        return y.reshape(len(y), *self.event)

    def state(self) -> dict[str, Tensor]:
        """Return the shape of an event."""
        return {} if self.event is None else {"event": torch.tensor(self.event)}

    def restore(self, state: dict[str, Tensor]) -> Self:
        """Return this transform with a shape learnt before."""
        (event,) = restored("Flatten", state, "event")
        return replace(self, event=tuple(event.tolist()))


def _size(x: Tensor) -> tuple[int, int]:
    if x.ndim != 4:
        raise ValueError(f"expected images of shape (N, C, H, W) but got {tuple(x.shape)}")
    return x.shape[2], x.shape[3]
