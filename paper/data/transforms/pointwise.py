"""Elementwise transforms: scaling, dequantization, noise."""

import math
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from fdsm.tensors import dimension, randn_like

from .transform import Identity, as_float


@dataclass(frozen=True)
class ToFloat(Identity):
    """Scale integers `0, …, max_value` to [0, 1].

    Attributes:
        max_value: Value that is mapped to 1. 255 for bytes.

    Example:
        >>> ToFloat().deterministic(torch.tensor([[0, 51, 255]], dtype=torch.uint8))
        tensor([[0.0000, 0.2000, 1.0000]])
    """

    max_value: int = 255

    def __post_init__(self) -> None:
        if self.max_value < 1:
            raise ValueError(f"max_value must be at least 1, but is {self.max_value}")

    def deterministic(self, x: Tensor) -> Tensor:
        """Return `x / max_value`."""
        return as_float(x) / self.max_value

    def inverse(self, y: Tensor) -> Tensor:
        """Return `y · max_value`."""
        return y * self.max_value

    def log_det(self, x: Tensor) -> Tensor:
        """Return `-d log(max_value)`, shape `(N,)`."""
        return _constant(x, -math.log(self.max_value))


@dataclass(frozen=True)
class Affine(Identity):
    """Scale and shift every number: `scale · x + shift`.

    Attributes:
        scale: Factor. Must not be zero.
        shift: Constant that is added after scaling.

    Example:
        >>> Affine(2.0, -1.0).deterministic(torch.tensor([[0.0, 0.5, 1.0]]))
        tensor([[-1.,  0.,  1.]])
    """

    scale: float
    shift: float = 0.0

    def __post_init__(self) -> None:
        if self.scale == 0:
            raise ValueError("scale must not be 0, because the transform must be invertible")

    def deterministic(self, x: Tensor) -> Tensor:
        """Return `scale · x + shift`."""
        return as_float(x) * self.scale + self.shift

    def inverse(self, y: Tensor) -> Tensor:
        """Return `(y - shift) / scale`."""
        return (y - self.shift) / self.scale

    def log_det(self, x: Tensor) -> Tensor:
        """Return `d log|scale|`, shape `(N,)`."""
        return _constant(x, math.log(abs(self.scale)))


@dataclass(frozen=True)
class Dequantize(Identity):
    r"""Map integers to continuous numbers: $(x + U) / K$ with $U$ uniform on [0, 1).

    Level $k$ of $K$ is mapped to a random number in $[k/K, (k+1)/K)$, so the data has a density.
    `deterministic` maps it to the middle of that interval.

    Reference:
        Theis et al. (2016), https://arxiv.org/abs/1511.01844, Sec. 3.1.

    Attributes:
        levels: Number of levels $K$. 256 for bytes.

    Example:
        >>> Dequantize(4).deterministic(torch.tensor([[0, 1, 2, 3]]))
        tensor([[0.1250, 0.3750, 0.6250, 0.8750]])
    """

    levels: int = 256

    def __post_init__(self) -> None:
        if self.levels < 2:
            raise ValueError(f"levels must be at least 2, but is {self.levels}")

    def sample(self, x: Tensor, generator: Generator | None = None) -> Tensor:
        """Return a uniform random number in the interval of each level."""
        x = as_float(x)
        return (x + _uniform(x, generator)) / self.levels

    def deterministic(self, x: Tensor) -> Tensor:
        """Return the middle of the interval of each level."""
        return (as_float(x) + 0.5) / self.levels

    def inverse(self, y: Tensor) -> Tensor:
        """Return the inverse of `deterministic`. The result is not rounded."""
        return y * self.levels - 0.5

    def log_det(self, x: Tensor) -> Tensor:
        """Return `-d log K`, shape `(N,)`."""
        return _constant(x, -math.log(self.levels))


@dataclass(frozen=True)
class Jitter(Identity):
    """Add centered uniform noise: `x + width · (U - 1/2)`.

    The paper dequantizes with `ToFloat()` and `Jitter(1 / 256)` for NICE and the autoencoders.

    Attributes:
        width: Width of the interval around each number.
    """

    width: float

    def __post_init__(self) -> None:
        _require_nonnegative("width", self.width)

    def sample(self, x: Tensor, generator: Generator | None = None) -> Tensor:
        """Return `x` with noise."""
        x = as_float(x)
        return x + self.width * (_uniform(x, generator) - 0.5)


@dataclass(frozen=True)
class Noise(Identity):
    """Add Gaussian noise: `x + σ n` with `n` standard normal.

    Attributes:
        sigma: Standard deviation of the noise.
    """

    sigma: float

    def __post_init__(self) -> None:
        _require_nonnegative("sigma", self.sigma)

    def sample(self, x: Tensor, generator: Generator | None = None) -> Tensor:
        """Return `x` with noise."""
        x = as_float(x)
        return x + self.sigma * randn_like(x, generator)


@dataclass(frozen=True)
class Logit(Identity):
    r"""Map [0, 1] to the real line: $\log(x / (1 - x))$, after clamping `x`.

    Numbers closer than `margin` to 0 or 1 are clamped, as in the paper's NICE. The map is not
    invertible there, and `log_det` is that of the unclamped map at the margin. To rescale instead
    of clamping, put `Affine(1 - 2 * m, m)` before it.

    Attributes:
        margin: Smallest distance to 0 and 1 after clamping.

    Example:
        >>> Logit(0.001).deterministic(torch.tensor([[0.0, 0.5, 1.0]]))
        tensor([[-6.9068,  0.0000,  6.9068]])
    """

    margin: float = 1e-3

    def __post_init__(self) -> None:
        if not 0 < self.margin < 0.5:
            raise ValueError(f"margin must be in (0, 0.5), but is {self.margin}")

    def deterministic(self, x: Tensor) -> Tensor:
        """Return the logit of the clamped numbers."""
        return self._clamped(x).logit()

    def inverse(self, y: Tensor) -> Tensor:
        """Return the sigmoid of `y`, in (0, 1)."""
        return y.sigmoid()

    def log_det(self, x: Tensor) -> Tensor:
        r"""Return $-\sum_i \log x_i (1 - x_i)$, shape `(N,)`."""
        x = self._clamped(x).flatten(1)
        return -(x.log() + (-x).log1p()).sum(1)

    def _clamped(self, x: Tensor) -> Tensor:
        return as_float(x).clamp(self.margin, 1 - self.margin)


@dataclass(frozen=True)
class Binarize(Identity):
    """Draw 0 or 1, where each number in [0, 1] is the probability of 1.

    `deterministic` returns 1 where the number is at least 1/2.
    """

    def sample(self, x: Tensor, generator: Generator | None = None) -> Tensor:
        """Return independent Bernoulli draws."""
        x = as_float(x)
        return (_uniform(x, generator) < x).to(x.dtype)

    def deterministic(self, x: Tensor) -> Tensor:
        """Return the more likely of 0 and 1."""
        x = as_float(x)
        return (x >= 0.5).to(x.dtype)


def _uniform(x: Tensor, generator: Generator | None) -> Tensor:
    return torch.rand(x.shape, dtype=x.dtype, device=x.device, generator=generator)


def _constant(x: Tensor, per_dimension: float) -> Tensor:
    return as_float(x).new_full((len(x),), per_dimension * dimension(x))


def _require_nonnegative(name: str, value: float) -> None:
    if not 0 <= value < math.inf:
        raise ValueError(f"{name} must be finite and not negative, but is {value}")
