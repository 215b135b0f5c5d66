"""Transforms that learn from the values of the training rows."""

import math
from dataclasses import dataclass, field, fields, replace
from typing import Self

import torch
from torch import Generator, Tensor

from .transform import as_float, require_state

RANK_TOLERANCE = 1e-6
"""Singular values of standardized columns below this fraction of the largest count as zero."""


@dataclass(frozen=True)
class _Fitted:
    """A deterministic transform whose fields are tensors that `fit` learns."""

    def sample(self, x: Tensor, generator: Generator | None = None) -> Tensor:
        """Return `deterministic(x)`. The transform is not random."""
        return self.deterministic(x)

    def deterministic(self, x: Tensor) -> Tensor:
        """Return model inputs."""
        raise NotImplementedError

    def state(self) -> dict[str, Tensor]:
        """Return the learned tensors."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: value for name, value in values.items() if value is not None}

    def restore(self, state: dict[str, Tensor]) -> Self:
        """Return the transform with learned tensors from `state()`."""
        names = [f.name for f in fields(self)]
        tensors = require_state(type(self).__name__, state, *names)
        return replace(self, **dict(zip(names, tensors, strict=True)))

    def _learned(self, x: Tensor) -> list[Tensor]:
        """Return the learned tensors on the device of `x`."""
        state = self.state()
        if len(state) < len(fields(self)):
            raise ValueError(f"{type(self).__name__} is not fitted: call fit(rows) first")
        return [value.to(x.device) for value in state.values()]


@dataclass(frozen=True)
class Standardize(_Fitted):
    """Shift and scale each element to mean 0 and variance 1 over the training rows.

    Attributes:
        mean: Means, shape `E`. Learned.
        scale: Standard deviations (normalized by `n`), shape `E`. Learned.

    Example:
        >>> fitted = Standardize().fit(torch.tensor([[1.0], [3.0]]))
        >>> fitted.deterministic(torch.tensor([[1.0], [4.0]]))
        tensor([[-1.],
                [ 2.]])
    """

    mean: Tensor | None = field(default=None, repr=False, compare=False)
    scale: Tensor | None = field(default=None, repr=False, compare=False)

    def fit(self, x: Tensor) -> Self:
        """Return the transform with means and standard deviations of `x`."""
        scale, mean = torch.std_mean(_require_finite(x), 0, correction=0)
        if not (scale > 0).all():
            constant = (scale.flatten() == 0).nonzero().flatten().tolist()
            raise ValueError(
                f"elements {constant[:5]} are constant in all {len(x)} rows and cannot be "
                "standardized: leave them out"
            )
        return replace(self, mean=mean, scale=scale)

    def deterministic(self, x: Tensor) -> Tensor:
        """Return `(x - mean) / scale`."""
        mean, scale = self._learned(x)
        return ((x.double() - mean) / scale).to(as_float(x).dtype)

    def inverse(self, y: Tensor) -> Tensor:
        """Return `y · scale + mean`."""
        mean, scale = self._learned(y)
        return (y.double() * scale + mean).to(y.dtype)

    def log_det(self, x: Tensor) -> Tensor:
        """Return minus the sum of the logarithms of the scales, shape `(N,)`."""
        _, scale = self._learned(x)
        return as_float(x).new_full((len(x),), -float(scale.log().sum()))


@dataclass(frozen=True)
class Whiten(_Fitted):
    r"""Map rows to their principal components, scaled to variance 1: $z = \sqrt n (x - m) V / s$.

    $U \, \mathrm{diag}(s) \, V^T$ is the singular value decomposition of the `n` centered training
    rows. There is no regularizer, so the covariance of the training rows becomes exactly the
    identity; linearly dependent columns raise an error. Computed in float64, since columns of a
    table may differ by many orders of magnitude.

    Attributes:
        mean: Mean $m$, shape `(D,)`. Learned.
        axes: Principal axes $V$, shape `(D, D)`. Learned.
        scales: Standard deviations along the axes, $s / \sqrt n$, shape `(D,)`. Learned.

    Example:
        >>> x = torch.tensor([[0.0, 1.0], [2.0, 0.0], [1.0, 5.0], [4.0, 4.0]])
        >>> z = Whiten().fit(x).deterministic(x)
        >>> torch.allclose(z.T @ z / 4, torch.eye(2), atol=1e-5)
        True
    """

    mean: Tensor | None = field(default=None, repr=False, compare=False)
    axes: Tensor | None = field(default=None, repr=False, compare=False)
    scales: Tensor | None = field(default=None, repr=False, compare=False)

    def fit(self, x: Tensor) -> Self:
        """Return the transform with the principal components of `x`."""
        if x.ndim != 2:
            raise ValueError(
                f"Whiten needs rows of shape (N, D), but got {tuple(x.shape)}: "
                "put Flatten() before it"
            )
        _require_independent(x)
        mean = _require_finite(x).mean(0)
        _, s, v = torch.linalg.svd(x.double() - mean, full_matrices=False)
        return replace(self, mean=mean, axes=v.T.contiguous(), scales=s / math.sqrt(len(x)))

    def deterministic(self, x: Tensor) -> Tensor:
        """Return the scaled principal components."""
        mean, axes, scales = self._learned(x)
        return ((x.double() - mean) @ axes / scales).to(as_float(x).dtype)

    def inverse(self, y: Tensor) -> Tensor:
        """Return rows in the units of the data."""
        mean, axes, scales = self._learned(y)
        return ((y.double() * scales) @ axes.T + mean).to(y.dtype)

    def log_det(self, x: Tensor) -> Tensor:
        """Return minus the sum of the logarithms of the scales, shape `(N,)`."""
        _, _, scales = self._learned(x)
        return as_float(x).new_full((len(x),), -float(scales.log().sum()))


def _require_independent(x: Tensor) -> None:
    standardized = Standardize().fit(x).deterministic(x.double())
    s = torch.linalg.svdvals(standardized)
    rank = int((s > RANK_TOLERANCE * s.max()).sum())
    if rank < x.shape[1]:
        raise ValueError(
            f"{len(x)} rows of {x.shape[1]} columns span only {rank} dimensions and cannot be "
            "whitened: leave out columns that depend on others, or use Standardize()"
        )


def _require_finite(x: Tensor) -> Tensor:
    if not x.isfinite().all():
        raise ValueError("the rows to fit to contain NaN or infinite values: remove these rows")
    return x.double()
