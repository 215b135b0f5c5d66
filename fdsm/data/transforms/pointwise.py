"""Transforms of single numbers: units, dequantisation, noise."""

import math
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from ...tensors import dimension, randn_like
from .transform import Plain, real


@dataclass(frozen=True)
class ToFloat(Plain):
    """From levels `0 … top` to [0, 1].

    Attributes:
        top: What becomes 1; 255 for bytes.

    Example:
        >>> ToFloat().deterministic(torch.tensor([[0, 51, 255]], dtype=torch.uint8))
        tensor([[0.0000, 0.2000, 1.0000]])
    """

    top: int = 255

    def __post_init__(self) -> None:
        if self.top < 1:
            raise ValueError(f"the largest level must be at least 1, but got {self.top}")

    def deterministic(self, x: Tensor) -> Tensor:
        """Return `x / top`."""
        return real(x) / self.top

    def inverse(self, y: Tensor) -> Tensor:
        """Return `y · top`."""
        return y * self.top

    def log_det(self, x: Tensor) -> Tensor:
        """Return `-d log top`, shape `(N,)`."""
        return _constant(x, -math.log(self.top))


@dataclass(frozen=True)
class Affine(Plain):
    """Every number scaled and shifted: `scale · x + shift`.

    Attributes:
        scale: The factor, not zero.
        shift: What is added afterwards.

    Example:
        >>> Affine(2.0, -1.0).deterministic(torch.tensor([[0.0, 0.5, 1.0]]))
        tensor([[-1.,  0.,  1.]])
    """

    scale: float
    shift: float = 0.0

    def __post_init__(self) -> None:
        if self.scale == 0:
            raise ValueError("a scale of 0 cannot be undone")

    def deterministic(self, x: Tensor) -> Tensor:
        """Return `scale · x + shift`."""
        return real(x) * self.scale + self.shift

    def inverse(self, y: Tensor) -> Tensor:
        """Return `(y - shift) / scale`."""
        return (y - self.shift) / self.scale

    def log_det(self, x: Tensor) -> Tensor:
        """Return `d log|scale|`, shape `(N,)`."""
        return _constant(x, math.log(abs(self.scale)))


@dataclass(frozen=True)
class Dequantize(Plain):
    r"""From levels to continuous numbers: $(x + U) / K$ with $U$ uniform on [0, 1).

    A level $k$ of $K$ becomes any number in $[k/K, (k+1)/K)$, so that the data have a density.
    Without randomness it becomes the middle of that interval.

    Reference:
        Theis et al. (2016), https://arxiv.org/abs/1511.01844, Sec. 3.1.

    Attributes:
        levels: How many levels there are, $K$; 256 for bytes.

    Example:
        >>> Dequantize(4).deterministic(torch.tensor([[0, 1, 2, 3]]))
        tensor([[0.1250, 0.3750, 0.6250, 0.8750]])
    """

    levels: int = 256

    def __post_init__(self) -> None:
        if self.levels < 2:
            raise ValueError(f"there must be at least 2 levels, but got {self.levels}")

    def sample(self, x: Tensor, generator: Generator | None = None) -> Tensor:
        """Return a uniform number in the interval of each level."""
        x = real(x)
        return (x + _uniform(x, generator)) / self.levels

    def deterministic(self, x: Tensor) -> Tensor:
        """Return the middle of the interval of each level."""
        return (real(x) + 0.5) / self.levels

    def inverse(self, y: Tensor) -> Tensor:
        """Return what `fixed` maps to `y`, not rounded."""
        return y * self.levels - 0.5

    def log_det(self, x: Tensor) -> Tensor:
        """Return `-d log K`, shape `(N,)`."""
        return _constant(x, -math.log(self.levels))


@dataclass(frozen=True)
class Jitter(Plain):
    """Centred uniform noise: `x + width · (U - 1/2)`.

    After `ToFloat()`, `Jitter(1 / 256)` is how the paper dequantises for NICE and the
    autoencoders.

    Attributes:
        width: The width of the interval around each number.
    """

    width: float

    def __post_init__(self) -> None:
        _require_size("the width of a jitter", self.width)

    def sample(self, x: Tensor, generator: Generator | None = None) -> Tensor:
        """Return the rows with noise."""
        x = real(x)
        return x + self.width * (_uniform(x, generator) - 0.5)


@dataclass(frozen=True)
class Noise(Plain):
    """Gaussian noise: `x + σ n` with `n` standard normal.

    Attributes:
        sigma: Its standard deviation.
    """

    sigma: float

    def __post_init__(self) -> None:
        _require_size("the standard deviation of noise", self.sigma)

    def sample(self, x: Tensor, generator: Generator | None = None) -> Tensor:
        """Return the rows with noise."""
        x = real(x)
        return x + self.sigma * randn_like(x, generator)


@dataclass(frozen=True)
class Logit(Plain):
    r"""From [0, 1] to the real line: $\log(x / (1 - x))$, with `x` clamped first.

    Numbers within `margin` of 0 or 1 all go to the same place, as in the paper's NICE; there
    the map has no inverse, and `log_det` is that of the unclamped map at the margin. To
    squeeze instead of clamping, put `Affine(1 - 2 * m, m)` before it.

    Attributes:
        margin: How close to 0 and 1 a number may be.

    Example:
        >>> Logit(0.001).deterministic(torch.tensor([[0.0, 0.5, 1.0]]))
        tensor([[-6.9068,  0.0000,  6.9068]])
    """

    margin: float = 1e-3

    def __post_init__(self) -> None:
        if not 0 < self.margin < 0.5:
            raise ValueError(f"the margin must lie in (0, 0.5), but got {self.margin}")

    def deterministic(self, x: Tensor) -> Tensor:
        """Return the logits."""
        return self._clamped(x).logit()

    def inverse(self, y: Tensor) -> Tensor:
        """Return the numbers in (0, 1)."""
        return y.sigmoid()

    def log_det(self, x: Tensor) -> Tensor:
        r"""Return $-\sum_i \log x_i (1 - x_i)$, shape `(N,)`."""
        x = self._clamped(x).flatten(1)
        return -(x.log() + (-x).log1p()).sum(1)

    def _clamped(self, x: Tensor) -> Tensor:
        return real(x).clamp(self.margin, 1 - self.margin)


@dataclass(frozen=True)
class Binarize(Plain):
    """From [0, 1] to {0, 1}: each number is the probability of a 1, drawn afresh every time.

    Without randomness, 1 where the number is at least a half.
    """

    def sample(self, x: Tensor, generator: Generator | None = None) -> Tensor:
        """Return zeros and ones."""
        x = real(x)
        return (_uniform(x, generator) < x).to(x.dtype)

    def deterministic(self, x: Tensor) -> Tensor:
        """Return the more likely of 0 and 1."""
        x = real(x)
        return (x >= 0.5).to(x.dtype)


def _uniform(x: Tensor, generator: Generator | None) -> Tensor:
    return torch.rand(x.shape, dtype=x.dtype, device=x.device, generator=generator)


def _constant(x: Tensor, per_dimension: float) -> Tensor:
    return real(x).new_full((len(x),), per_dimension * dimension(x))


def _require_size(what: str, size: float) -> None:
    if not 0 <= size < math.inf:
        raise ValueError(f"{what} is a number not below 0, but got {size}")
